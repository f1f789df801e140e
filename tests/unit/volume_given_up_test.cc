// A primary that has given its replica up: what was written there counts for nothing, whatever the disk said of it. An
// engine on virtual parts, and the fuzzers' peer.
#include <gtest/gtest.h>

#include <cerrno>
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

  // The local disk takes one write and fails at another one, neither of which the peer answers.
  void give_up_beside_silent_peer() {
    become_primary();
    const auto before = write(0);
    ASSERT_EQ(before->error, 0);
    peer_->answers = false;
    taken_ = write(64 * kKiB);
    node_->data.error = EIO;
    node_->data.failures = 1;
    refused_ = write(128 * kKiB);
    ASSERT_FALSE(taken_->error || refused_->error);
  }
  // No replica that counts has it.
  void expect_that_nothing_is_promised(uint64_t after_ns) {
    node_->run(after_ns);
    EXPECT_FALSE(node_->engine->inside().session_stands());
    EXPECT_EQ(taken_->error, EIO);
    EXPECT_EQ(refused_->error, EIO);
  }

  const Config config_;
  std::unique_ptr<Write> taken_, refused_;
  std::unique_ptr<FuzzNode> node_;
  std::unique_ptr<HostilePeer> peer_;
};

TEST_F(GivenUpTest, WhatThePeerHasNotAnsweredIsNotPromisedWithoutIt) {
  ASSERT_NO_FATAL_FAILURE(give_up_beside_silent_peer());
  peer_->vanish();
  expect_that_nothing_is_promised(60 * kSecond_ns);
}

// It is not soon back then, so that nobody waits for it.
TEST_F(GivenUpTest, WhatThePeersDiskRefusesIsNotPromisedWithoutIt) {
  ASSERT_NO_FATAL_FAILURE(give_up_beside_silent_peer());
  peer_->answer(0, 0, EIO, 0);
  expect_that_nothing_is_promised(kSecond_ns);
}

}  // namespace
}  // namespace twinblock::fuzz
