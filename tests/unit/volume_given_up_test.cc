// A primary that has given its replica up: what was written there counts for nothing, whatever the disk said of it. An
// engine on virtual parts, and the fuzzers' peer.
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fuzz_node.h"
#include "hostile_peer.h"
#include "metadata_image.h"

namespace twinblock::fuzz {
namespace {

constexpr uint64_t kVolumeBytes = 256 * kKiB;
constexpr uint32_t kRegionBytes = 64 * kKiB;

class GivenUpTest : public testing::Test {
 protected:
  GivenUpTest() : config_(make_config(kVolumeBytes)) {
    const metadata::NodeRecord record = plain_record("alpha", {kVolumeBytes, kRegionBytes});
    node_ = plain_node(config_, record);
    peer_ = std::make_unique<HostilePeer>(*node_, "beta", record);
    peer_->take(HostilePeer::Stance::kSame, 0, 0);
    EXPECT_TRUE(node_->engine->start().ok());
  }
  ~GivenUpTest() override {
    node_->engine.reset();
    peer_.reset();
  }

  void become_primary() {
    for (int i = 0; i < 100 && !node_->engine->inside().session_stands(); ++i) node_->run(100 * kMillisecond_ns);
    node_->engine->orders().promote({}, [](Result<std::string> said) { EXPECT_TRUE(said.ok()); });
    node_->run(kSecond_ns);
    ASSERT_TRUE(node_->engine->is_primary() && node_->engine->clients().opened());
  }
  // A block's worth of zeroes; what became of it, when that is known.
  struct Write {
    ClientRequest request;
    std::optional<int> error;
  };
  std::unique_ptr<Write> write(uint64_t offset_bytes) {
    auto made = std::make_unique<Write>();
    made->request.op = ClientOp::kZero;
    made->request.offset_bytes = offset_bytes;
    made->request.length_bytes = 4 * kKiB;
    made->request.done = [write = made.get()](ClientRequest& request) { write->error = request.error; };
    node_->engine->clients().submit(made->request);
    node_->run(10 * kMillisecond_ns);
    return made;
  }

  const Config config_;
  std::unique_ptr<FuzzNode> node_;
  std::unique_ptr<HostilePeer> peer_;
};

TEST_F(GivenUpTest, WhatThePeerHasNotAnsweredIsNotPromisedWithoutIt) {
  become_primary();
  const auto before = write(0);
  ASSERT_EQ(before->error, 0);
  peer_->answers = false;
  const auto taken = write(64 * kKiB);  // by the local disk, …
  node_->data.error = EIO;
  node_->data.failures = 1;
  const auto refused = write(128 * kKiB);  // … which fails then: this replica is on record as no good
  ASSERT_FALSE(taken->error || refused->error) << "the peer has answered neither";
  peer_->vanish();
  node_->run(60 * kSecond_ns);
  EXPECT_FALSE(node_->engine->inside().session_stands());
  EXPECT_NE(taken->error, 0) << "no replica that counts has it";
  EXPECT_NE(refused->error, 0);
}

}  // namespace
}  // namespace twinblock::fuzz
