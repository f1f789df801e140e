// What a primary's disk still has that was given up, and may never answer: nobody waits for it.
#include <gtest/gtest.h>

#include <cerrno>
#include <optional>
#include <string>

#include "volume_lost_peer_support.h"

namespace twinblock::fuzz {
namespace {

class LeftDiskTest : public LostPeerTest {
 protected:
  static constexpr uint64_t kForEver_ns = 3600 * kSecond_ns;

  // This request of the disk, the so-many-th of its kind from now on, hangs; then another one fails, and the peer stands in.
  template <typename Order>
  void leave_the_disk_in(DiskOp op, int which, Order&& order) {
    bool hangs = false;
    node_->data.submitted = [&, this](const DiskRequest& request) {
      if (request.op != op || which-- != 1) return;
      hangs = true;
      node_->data.hung_until_ns = node_->scheduler.now_ns() + kForEver_ns;
    };
    order();
    node_->run(100 * kMillisecond_ns);
    ASSERT_TRUE(hangs);
    node_->data.submitted = nullptr;
    node_->data.hung_until_ns = 0;
    node_->data.error = EIO;
    node_->data.failures = 1000000;
    EXPECT_EQ(flush(), 0);
    ASSERT_EQ(node_->engine->volume_state(), VolumeState::kDiskless);
  }
  // … in the read of a verification that has asked the peer for the same place.
  void leave_the_disk_in_a_read_beside_the_peers() {
    leave_the_disk_in(DiskOp::kRead, 1, [this] {
      peer_->answers = false;
      verify();
      node_->run(100 * kMillisecond_ns);
      peer_->answers = true;
    });
  }
  void verify() {
    node_->engine->orders().verify(VerifyOrder::kCompare, [](const Result<std::string>& said) { EXPECT_TRUE(said.ok()); });
  }
  void expect_to_be_demoted() {
    ASSERT_NO_FATAL_FAILURE(write()) << "where it is compared";
    demote();
    node_->run(kSecond_ns);
    EXPECT_EQ(demoted_, true);
    node_->run(kForEver_ns);  // the disk answers at last
    EXPECT_FALSE(node_->engine->is_primary());
  }
};

TEST_F(LeftDiskTest, ADemotionDoesNotWaitForAVerificationsRead) {
  begin_in_duplex();
  ASSERT_NO_FATAL_FAILURE(leave_the_disk_in(DiskOp::kRead, 1, [this] { verify(); }));
  expect_to_be_demoted();
}

TEST_F(LeftDiskTest, ADemotionDoesNotWaitForAVerificationsLookAtAHole) {
  begin_in_duplex();
  node_->data.holes = true;
  ASSERT_NO_FATAL_FAILURE(leave_the_disk_in(DiskOp::kExtent, 2, [this] { verify(); }));
  expect_to_be_demoted();
}

// What the peer was asked beside it is for the same run.
TEST_F(LeftDiskTest, AVerificationsReadWaitsForThePeersAnswerOnly) {
  begin_in_duplex();
  ASSERT_NO_FATAL_FAILURE(leave_the_disk_in_a_read_beside_the_peers());
  demote();
  node_->run(kSecond_ns);
  EXPECT_EQ(demoted_, std::nullopt) << "the peer's answer would come to nobody";
  for (size_t link = 0; link < config_.links.size(); ++link)
    for (int i = 0; i < 8; ++i) peer_->answer(link, 0, 0, 0);
  node_->run(kSecond_ns);
  EXPECT_EQ(demoted_, true);
  node_->run(kForEver_ns);
}

TEST_F(LeftDiskTest, AVerificationsReadIsOverWithTheSession) {
  begin_in_duplex();
  ASSERT_NO_FATAL_FAILURE(leave_the_disk_in_a_read_beside_the_peers());
  part();
  record_.generations = node_->engine->status().mine.generations;  // the peer has it on record
  meet(true);
  expect_to_be_demoted();
}

// The peer is to be promoted then, and asks this node, which must not be growing.
TEST_F(LeftDiskTest, AGrowthIsOver) {
  for (const DiskOp hangs : {DiskOp::kExtent, DiskOp::kZero, DiskOp::kFlush}) {
    begin_in_duplex();
    node_->data.contents.resize(2 * kVolumeBytes);
    node_->metadata.contents.resize(node_->metadata.contents.size() + kMiB);
    std::string said;
    ASSERT_NO_FATAL_FAILURE(leave_the_disk_in(hangs, 1, [&] {
      node_->engine->orders().grow(2 * kVolumeBytes, [&said](const Result<std::string>& result) {
        said = result ? result.value() : result.error().what;
      });
    }));
    EXPECT_NE(said.find("is not up to date any more"), std::string::npos) << said;
    EXPECT_EQ(node_->engine->status().growing_to_bytes, 0u);
    node_->run(kForEver_ns);  // the disk answers at last
    EXPECT_EQ(node_->engine->status().growing_to_bytes, 0u);
    node_->engine.reset();
    peer_.reset();
  }
}

// A flush that has taken so long that it is on record is waited for by a stop, but not where the replica is given up.
TEST_F(LeftDiskTest, AStopDoesNotWaitForItsFlush) {
  begin_in_duplex();
  node_->data.flushes_since_ns = node_->clock->now_ns();
  node_->run(limits::kFlushOnRecord_ns + 2 * kSecond_ns);
  node_->data.error = EIO;
  node_->data.failures = 1000000;
  EXPECT_EQ(flush(), 0);
  ASSERT_EQ(node_->engine->volume_state(), VolumeState::kDiskless);
  bool stopped = false;
  node_->engine->shut_down(false, [&stopped] { stopped = true; });
  node_->run(2 * kSecond_ns);
  EXPECT_TRUE(stopped);
}

// The peer, which took it and is away now, is all there is for it.
TEST_F(LeftDiskTest, AWriteThatFailsThereAtLastWaitsForThePeer) {
  begin(OnPeerLoss::kFreeze);
  meet(true);
  promote();
  ASSERT_NO_FATAL_FAILURE(write());
  ClientRequest request;
  std::optional<int> error;
  ASSERT_NO_FATAL_FAILURE(leave_the_disk_in(DiskOp::kZero, 1, [&] { begin_zeroes(request, error); }));
  part();
  node_->run(kForEver_ns);  // the disk answers
  EXPECT_EQ(error, std::nullopt);
  record_.generations = node_->engine->status().mine.generations;  // the peer has it on record
  meet(true);
  node_->run(kLong_ns);
  EXPECT_EQ(error, 0);
}

}  // namespace
}  // namespace twinblock::fuzz
