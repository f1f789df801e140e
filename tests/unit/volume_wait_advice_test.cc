// What an order that needs both replicas whole advises where they are not. An engine on virtual parts, the fuzzers' peer,
// and a disk that can't be read, so that a resync goes on.
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fuzz_node.h"
#include "hostile_peer.h"
#include "io/copies.h"
#include "metadata_image.h"

namespace twinblock::fuzz {
namespace {

constexpr uint64_t kVolumeBytes = 256 * kKiB;
constexpr uint8_t kPrimaryFlag = 1;

class AnyCopies final : public Copies {
 public:
  [[nodiscard]] bool can(CopyStep) const override { return true; }
  void begin(CopyStep, const std::string&, std::function<void(Status)> done) override { done(ok_status()); }
  [[nodiscard]] std::string place(CopyStep, const std::string&) const override { return "/alpha.img.x"; }
};

class WaitAdviceTest : public testing::Test {
 protected:
  WaitAdviceTest() : config_(make_config(kVolumeBytes)) {
    const metadata::NodeRecord record = plain_record("alpha", {kVolumeBytes, 64 * kKiB});
    node_ = plain_node(config_, record, nullptr, &copies_);
    node_->data.unreadable = true;
    peer_ = std::make_unique<HostilePeer>(*node_, "beta", record);
  }
  ~WaitAdviceTest() override {
    node_->engine.reset();
    peer_.reset();
  }
  void meet(HostilePeer::Stance stance, uint8_t flags) {
    peer_->take(stance, flags, 1);
    ASSERT_TRUE(node_->engine->start().ok());
    node_->run(3 * kSecond_ns);
    ASSERT_TRUE(node_->engine->inside().session_stands());
    ASSERT_EQ(node_->engine->status().state, VolumeState::kResync);
  }
  // Why the order is refused.
  Error of_a_snapshot() {
    std::optional<Error> said;
    node_->engine->orders().snapshot("x", [&said](const auto& taken) { said = taken.ok() ? Error{} : taken.error(); });
    return said.value_or(Error{});
  }
  Error of_a_growth() {
    std::optional<Error> said;
    node_->engine->orders().grow(2 * kVolumeBytes,
                                 [&said](const auto& grown) { said = grown.ok() ? Error{} : grown.error(); });
    return said.value_or(Error{});
  }

  const Config config_;
  AnyCopies copies_;
  std::unique_ptr<FuzzNode> node_;
  std::unique_ptr<HostilePeer> peer_;
};

// Two secondaries are connected while the one copies from the other, and are never in duplex: neither is to be waited for.
TEST_F(WaitAdviceTest, OfTwoSecondariesIsToWaitUntilBothAreWhole) {
  meet(HostilePeer::Stance::kBlank, 0);
  for (const Error& error : {of_a_snapshot(), of_a_growth()}) {
    EXPECT_NE(error.what.find("not up to date"), std::string::npos) << error.what;
    EXPECT_EQ(error.action, "wait for it: twinblock wait r0 --for whole");
  }
}

TEST_F(WaitAdviceTest, OfAPrimaryIsToWaitForDuplex) {
  meet(HostilePeer::Stance::kBlank, 0);
  node_->engine->orders().promote({}, [](const Result<std::string>& said) { EXPECT_TRUE(said.ok()); });
  node_->run(kSecond_ns);
  ASSERT_TRUE(node_->engine->is_primary());
  for (const Error& error : {of_a_snapshot(), of_a_growth()})
    EXPECT_EQ(error.action, "wait for it: twinblock wait r0 --for duplex");
}

// Whatever is in the way here: when it no longer is, the order is refused all the same.
TEST_F(WaitAdviceTest, WhereThePeerIsPrimaryTheOrderIsToBeGivenThere) {
  meet(HostilePeer::Stance::kNewer, kPrimaryFlag);
  for (const Error& error : {of_a_snapshot(), of_a_growth()}) {
    EXPECT_EQ(error.what, "beta is primary");
    EXPECT_TRUE(error.action.ends_with("` there")) << error.action;
  }
}

}  // namespace
}  // namespace twinblock::fuzz
