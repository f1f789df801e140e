// A primary with a witness whose disk hangs and then fails, or gets on. It has ended the session, so that the peer may be
// promoted, and promised nothing since: what that peer holds is good, and clients get no error as long as it may come back.
#include <cerrno>
#include <optional>
#include <string>

#include "volume_consent_support.h"

namespace twinblock::fuzz {
namespace {

class HungDiskTest : public ConsentTest {
 protected:
  // A client's request hangs until the session was ended for that, and longer.
  void hang(MemoryDisk FuzzNode::*disk, ClientOp op) {
    ASSERT_NO_FATAL_FAILURE(become_primary());
    (*node_.*disk).tells = true;
    (*node_.*disk).hung_until_ns = node_->scheduler.now_ns() + 3600 * kSecond_ns;
    witness_.replacements.clear();
    submit(op);
    for (int i = 0; i < 1000 && stands(); ++i) node_->run(kSecond_ns);
    ASSERT_FALSE(stands()) << "the peer may be promoted";
    node_->run(kLong_ns);
    ASSERT_FALSE(stands());
    ASSERT_FALSE(ended_.has_value());
  }
  // What hangs comes back, with this error; 0: it was carried out.
  void come_back(MemoryDisk& disk, int error) {
    disk.error = error;
    disk.failures = error == 0 ? 0 : 1000000;
    // The disk looks for its requests at the time that it knew.
    node_->run(disk.hung_until_ns - node_->scheduler.now_ns() + kMillisecond_ns);
  }
  void submit(ClientOp op) {
    request_.op = op;
    request_.offset_bytes = op == ClientOp::kFlush ? 0 : 2 * kRegionBytes;  // which was idle until now
    request_.length_bytes = op == ClientOp::kFlush ? 0 : 4 * kKiB;
    ended_.reset();
    request_.done = [this](ClientRequest& done) { ended_ = done.error; };
    node_->engine->clients().submit(request_);
  }
  [[nodiscard]] bool stands() const { return node_->engine->inside().session_stands(); }
  [[nodiscard]] bool took_the_right() const {
    for (const auto& each : witness_.replacements)
      if (each.entry.holder == "alpha") return true;
    return false;
  }
  void expect_diskless_after(MemoryDisk FuzzNode::*disk, ClientOp op) {
    ASSERT_NO_FATAL_FAILURE(hang(disk, op));
    peer_.reset();
    come_back(*node_.*disk, EIO);
    node_->run(kLong_ns);
    EXPECT_FALSE(ended_.has_value()) << "error " << *ended_;
    EXPECT_FALSE(took_the_right()) << "with a disk that has failed it can promise nothing";
    meet();
    node_->run(kSecond_ns);
    EXPECT_EQ(node_->engine->volume_state(), VolumeState::kDiskless);
    EXPECT_EQ(ended_, 0);
  }

  ClientRequest request_;
  std::optional<int> ended_;
};

TEST_F(HungDiskTest, AWriteThatFailsInTheEndIsThePeers) { expect_diskless_after(&FuzzNode::data, ClientOp::kZero); }

TEST_F(HungDiskTest, AFlushThatFailsInTheEndIsThePeers) { expect_diskless_after(&FuzzNode::data, ClientOp::kFlush); }

TEST_F(HungDiskTest, AMetadataDiskThatFailsInTheEndIsLeftToo) {
  expect_diskless_after(&FuzzNode::metadata, ClientOp::kZero);
}

// A thin volume waits for room for a while, and then says that there is none.
TEST_F(HungDiskTest, AWriteWithoutRoomIsTriedAnewBesideThePeer) {
  ASSERT_NO_FATAL_FAILURE(hang(&FuzzNode::data, ClientOp::kZero));
  peer_.reset();
  come_back(node_->data, ENOSPC);
  EXPECT_FALSE(ended_.has_value()) << "error " << *ended_;
  EXPECT_FALSE(took_the_right()) << "the peer comes first";
  node_->data.failures = 0;
  meet();
  node_->run(kSecond_ns);
  EXPECT_EQ(ended_, 0);
  EXPECT_TRUE(stands());
}

TEST_F(HungDiskTest, WhoseDiskGetsOnMeetsThePeerBeforeItAsks) {
  ASSERT_NO_FATAL_FAILURE(hang(&FuzzNode::data, ClientOp::kZero));
  peer_.reset();
  come_back(node_->data, 0);
  node_->run(config_.peer_timeout_ns / 2);
  EXPECT_FALSE(took_the_right()) << "the peer comes first";
  EXPECT_FALSE(ended_.has_value());
  node_->run(kLong_ns);
  EXPECT_TRUE(took_the_right()) << "it did not come";
  EXPECT_EQ(ended_, 0);
}

// The room may come back, the peer does not.
TEST_F(HungDiskTest, AWriteWithoutRoomFailsWhereThePeerIsGone) {
  ASSERT_NO_FATAL_FAILURE(hang(&FuzzNode::data, ClientOp::kZero));
  peer_.reset();
  come_back(node_->data, ENOSPC);
  node_->run(kLong_ns);
  EXPECT_TRUE(took_the_right());
  EXPECT_EQ(ended_, ENOSPC);
}

// What this node's disk did not take was promised to nobody: its clients are told that they are cut off.
TEST_F(HungDiskTest, WhosePeerWasPromotedMeanwhileYieldsWithItsFailedDisk) {
  ASSERT_NO_FATAL_FAILURE(hang(&FuzzNode::data, ClientOp::kZero));
  peer_.reset();
  come_back(node_->data, EIO);
  peer_ = std::make_unique<HostilePeer>(*node_, "beta", record_);
  peer_->asks_register = true;
  peer_->settings = make_settings(config_);
  peer_->take(HostilePeer::Stance::kNewer, 1, 9);  // primary
  node_->run(kLong_ns);
  EXPECT_FALSE(node_->engine->is_primary());
  EXPECT_EQ(ended_, ESHUTDOWN);
}

}  // namespace
}  // namespace twinblock::fuzz
