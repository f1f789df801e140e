// What a fence command is told of whom it is to fence: an engine on virtual parts, and a command that only notes it.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "fuzz_node.h"
#include "io/witness.h"
#include "metadata_image.h"

namespace twinblock::fuzz {
namespace {

constexpr uint64_t kVolumeBytes = 256 * kKiB;

class WrittenFence final : public FenceCommand {
 public:
  void fence(const FenceCall& call, std::function<void(Result<int>)>) override { calls.push_back(call); }
  [[nodiscard]] std::string name() const override { return "a fence command in writing"; }

  std::vector<FenceCall> calls;
};

// The brackets belong to the port beside it, and fence agents don't know them.
TEST(FenceCall, NamesThePeerAndItsAddressWithoutBracketsAndPort) {
  for (const auto& [address, host] : {std::pair<std::string, std::string>{"10.0.0.2:7700", "10.0.0.2"},
                                      {"[fd00::2]:7700", "fd00::2"}}) {
    Config config = make_config(kVolumeBytes);
    config.witness.kind = WitnessKind::kCommand;
    config.witness.timeout_ns = kSecond_ns;
    config.links.front().address["beta"] = address;
    const metadata::NodeRecord record = plain_record("alpha", {kVolumeBytes, 64 * kKiB});
    std::vector<std::byte> file = plain_file(record);
    metadata::Loaded loaded = load_plain(file, record);
    WrittenFence fence;
    FuzzNode node(config, "alpha", std::move(file), std::move(loaded), DataFound::kSome, nullptr, nullptr, 0, &fence);
    ASSERT_TRUE(node.engine->start().ok());
    node.engine->orders().promote({}, [](const Result<std::string>&) {});
    for (int i = 0; i < 100 && fence.calls.empty(); ++i) node.run(kSecond_ns);
    ASSERT_FALSE(fence.calls.empty());
    const FenceCall& call = fence.calls.front();
    EXPECT_EQ(call.volume, "r0");
    EXPECT_EQ(call.node, "alpha");
    EXPECT_EQ(call.peer, "beta");
    EXPECT_EQ(call.peer_address, host);
    EXPECT_TRUE(call.promotion);
  }
}

}  // namespace
}  // namespace twinblock::fuzz
