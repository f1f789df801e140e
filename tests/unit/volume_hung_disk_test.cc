// A primary with a witness whose disk hangs and then fails, or gets on. It has ended the session, so that the peer may be
// promoted, and promised nothing since: what that peer holds is good, and clients get no error as long as it may come back.
#include <cerrno>
#include <optional>
#include <string>
#include <utility>

#include "volume_consent_support.h"

namespace twinblock::fuzz {
namespace {

constexpr uint8_t kPrimary = 1;  // HostilePeer::take()

class HungDiskTest : public ConsentTest {
 protected:
  // A request that waits is the engine's until then.
  ~HungDiskTest() override {
    if (node_) node_->engine.reset();
  }
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
  void submit_another(ClientOp op) {
    another_.op = op;
    another_.offset_bytes = op == ClientOp::kFlush ? 0 : 3 * kRegionBytes;
    another_.length_bytes = op == ClientOp::kFlush ? 0 : 4 * kKiB;
    another_ended_.reset();
    another_.done = [this](ClientRequest& done) { another_ended_ = done.error; };
    node_->engine->clients().submit(another_);
  }
  void expect_both_wait_for_the_peer_after_a_flush_fails() {
    node_->data.error = EIO;
    node_->data.failures = 1000000;
    submit_another(ClientOp::kFlush);
    node_->run(kLong_ns);
    EXPECT_FALSE(another_ended_ || ended_) << "a disk that takes nothing has no right to go on";
    meet();
    node_->run(kLong_ns);
    EXPECT_EQ(another_ended_, 0);
    EXPECT_EQ(ended_, 0);
  }
  void fail_next_flush() {
    next_flush_fails_ = true;
    node_->data.submitted = [this](const DiskRequest& request) {
      if (request.op != DiskOp::kFlush || !std::exchange(next_flush_fails_, false)) return;
      node_->data.error = EIO;
      node_->data.failures = 1;
    };
  }
  // The peer is there again, with the same generation, and does not have all any more, as it tells.
  void expect_no_disk_left_to(const std::function<void(HostilePeer&)>& changed) {
    ASSERT_NO_FATAL_FAILURE(hang(&FuzzNode::data, ClientOp::kZero));
    peer_.reset();
    come_back(node_->data, 0);
    fail_next_flush();
    come_by(HostilePeer::Stance::kSame, 0);
    changed(*peer_);
    node_->run(kSecond_ns);
    EXPECT_FALSE(next_flush_fails_) << "there was none before the copy";
    peer_.reset();
    node_->run(kLong_ns);
    EXPECT_EQ(ended_, 0) << "it goes on alone";
    EXPECT_EQ(node_->engine->volume_state(), VolumeState::kSimplex);
  }
  // A peer, with which no session may come to stand at once.
  void come_by(HostilePeer::Stance stance, uint8_t flags) {
    invite();
    peer_->take(stance, flags, flags != 0 ? 9 : 0);
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

  ClientRequest request_, another_;
  std::optional<int> ended_, another_ended_;
  bool next_flush_fails_ = false;
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
  come_by(HostilePeer::Stance::kNewer, kPrimary);
  node_->run(kLong_ns);
  EXPECT_FALSE(node_->engine->is_primary());
  EXPECT_EQ(ended_, ESHUTDOWN);
}

// What the two have written together, and this disk lost, is the peer's: it is not marked before that is known.
TEST_F(HungDiskTest, AFlushThatFailsBeforeTheCopyLeavesTheDiskToo) {
  ASSERT_NO_FATAL_FAILURE(hang(&FuzzNode::data, ClientOp::kZero));
  peer_.reset();
  come_back(node_->data, 0);
  fail_next_flush();
  come_by(HostilePeer::Stance::kSame, 0);
  node_->run(kLong_ns);
  EXPECT_EQ(node_->engine->volume_state(), VolumeState::kDiskless);
  EXPECT_FALSE(took_the_right());
  EXPECT_EQ(ended_, 0);
}

// Where a command says who goes on, one that is empty is let in without its consent: the peer that held all is not there.
TEST_F(HungDiskTest, AFlushThatFailsBeforeAnEmptyPeerIsCopiedLeavesNoDisk) {
  config_.witness.kind = WitnessKind::kCommand;
  ASSERT_NO_FATAL_FAILURE(hang(&FuzzNode::data, ClientOp::kZero));
  peer_.reset();
  come_back(node_->data, 0);
  fail_next_flush();
  come_by(HostilePeer::Stance::kBlank, 0);
  node_->run(kLong_ns);
  EXPECT_FALSE(next_flush_fails_) << "there was none before the copy";
  fence_.says = kPeerFenced;
  peer_.reset();
  node_->run(kLong_ns);
  EXPECT_EQ(ended_, 0);
  EXPECT_EQ(node_->engine->volume_state(), VolumeState::kSimplex);
}

// Its record lived, and its disk was replaced …
TEST_F(HungDiskTest, ItLeavesNoDiskToAPeerWithoutData) {
  expect_no_disk_left_to([](HostilePeer& peer) { peer.tells = [](SyncFacts& facts) { facts.backing_lost = true; }; });
}

// … or did not take what it had flushed there …
TEST_F(HungDiskTest, ItLeavesNoDiskToAPeerWhoseFlushFailed) {
  expect_no_disk_left_to([](HostilePeer& peer) { peer.tells = [](SyncFacts& facts) { facts.flush_failed = true; }; });
}

// … or its host was started anew, which has lost what only its memory held.
TEST_F(HungDiskTest, ItLeavesNoDiskToAPeerThatForgot) {
  expect_no_disk_left_to([](HostilePeer& peer) { peer.instance = metadata::Uuid{10}; });
}

// The session is lost first, and the disk hangs, too.
TEST_F(HungDiskTest, WhoLostThePeerBeforeItsDiskStoodStillWaitsForItAsWell) {
  ASSERT_NO_FATAL_FAILURE(become_primary());
  node_->data.tells = true;
  node_->data.hung_until_ns = node_->scheduler.now_ns() + 3600 * kSecond_ns;
  witness_.fails = true;
  submit(ClientOp::kZero);
  node_->run(kSecond_ns);
  part();
  peer_.reset();
  node_->run(10 * config_.disk_timeout_ns);
  come_back(node_->data, EIO);
  EXPECT_FALSE(ended_.has_value()) << "error " << *ended_;
  witness_.fails = false;
  meet();
  node_->run(kSecond_ns);
  EXPECT_EQ(ended_, 0);
}

// The answer comes when nothing could be promised by it any more, and the peer might go on.
TEST_F(HungDiskTest, AnAnswerOfTheWitnessCountsForNoDiskThatWasGivenUpMeanwhile) {
  ASSERT_NO_FATAL_FAILURE(hang(&FuzzNode::data, ClientOp::kZero));
  peer_.reset();
  come_back(node_->data, 0);
  witness_.answers_after_ns = 900 * kMillisecond_ns;
  const int before = witness_.reads;
  for (int i = 0; i < 10000 && witness_.reads == before; ++i) node_->run(10 * kMillisecond_ns);
  expect_both_wait_for_the_peer_after_a_flush_fails();
  EXPECT_FALSE(took_the_right());
}

// … or in the middle of putting its answer on record …
TEST_F(HungDiskTest, NorDoesTheAnswerThatItIsReplaced) {
  ASSERT_NO_FATAL_FAILURE(hang(&FuzzNode::data, ClientOp::kZero));
  peer_.reset();
  come_back(node_->data, 0);
  witness_.answers_after_ns = 900 * kMillisecond_ns;
  for (int i = 0; i < 10000 && !took_the_right(); ++i) node_->run(10 * kMillisecond_ns);
  ASSERT_TRUE(took_the_right());
  expect_both_wait_for_the_peer_after_a_flush_fails();
}

// … or while a command runs.
TEST_F(HungDiskTest, NorDoesTheEndOfACommand) {
  config_.witness.kind = WitnessKind::kCommand;
  ASSERT_NO_FATAL_FAILURE(hang(&FuzzNode::data, ClientOp::kZero));
  peer_.reset();
  come_back(node_->data, 0);
  fence_.says = kPeerFenced;
  fence_.answers_after_ns = 2 * kSecond_ns;
  for (int i = 0; i < 10000 && fence_.calls == 0; ++i) node_->run(10 * kMillisecond_ns);
  ASSERT_EQ(fence_.calls, 1);
  expect_both_wait_for_the_peer_after_a_flush_fails();
}

// A device may carry out what it had lost, and fail what it was asked later.
TEST_F(HungDiskTest, WhatWasAskedLaterMayHangForLonger) {
  ASSERT_NO_FATAL_FAILURE(become_primary());
  MemoryDisk& disk = node_->data;
  disk.tells = true;
  const uint64_t first_ns = node_->scheduler.now_ns() + 60 * kSecond_ns;
  const uint64_t second_ns = first_ns + 10 * kSecond_ns;
  disk.hung_until_ns = first_ns;
  submit(ClientOp::kZero);
  node_->run(3 * kSecond_ns);
  disk.hung_until_ns = second_ns;
  submit_another(ClientOp::kZero);
  node_->run(first_ns - kMillisecond_ns - node_->scheduler.now_ns());
  ASSERT_FALSE(stands());
  disk.hung_until_ns = 0;
  disk.works = true;
  node_->run(5 * kSecond_ns);
  EXPECT_FALSE(stands()) << "the other one hangs still, and may fail";
  EXPECT_GT(node_->engine->status().stalled_ns, 60 * kSecond_ns) << "for as long as it has stood still";
  disk.error = EIO;
  disk.failures = 1000000;
  node_->run(kLong_ns);
  EXPECT_EQ(node_->engine->volume_state(), VolumeState::kDiskless);
  EXPECT_EQ(ended_, 0);
  EXPECT_EQ(another_ended_, 0);
}

// The two files are on one disk, mostly.
TEST_F(HungDiskTest, BothDisksThatFailAreLeftToThePeerInWordsToo) {
  ASSERT_NO_FATAL_FAILURE(hang(&FuzzNode::data, ClientOp::kZero));
  std::string said;
  node_->logs = [&said](const std::string& line) { said += line + "\n"; };
  peer_.reset();
  node_->metadata.error = EIO;
  node_->metadata.failures = 1000000;
  come_back(node_->data, EIO);
  node_->run(10 * kSecond_ns);
  EXPECT_NE(said.find("write to the metadata"), std::string::npos) << said;
  EXPECT_EQ(said.find("keep this node's data"), std::string::npos) << said;
  meet();
  node_->run(kSecond_ns);
  EXPECT_EQ(ended_, 0);
}

// The peer has the new size on record, and this node could not record it.
TEST_F(HungDiskTest, APeerThatHasGrownMeanwhileStandsIn) {
  ASSERT_NO_FATAL_FAILURE(become_primary());
  node_->metadata.tells = true;
  node_->data.contents.resize(2 * kVolumeBytes);
  node_->metadata.contents.resize(node_->metadata.contents.size() + kMiB);
  peer_->hears = [this](const wire::FrameHeader& header) {
    if (header.type == static_cast<uint8_t>(wire::FrameType::kGrow))
      node_->metadata.hung_until_ns = node_->scheduler.now_ns() + 3600 * kSecond_ns;
  };
  node_->engine->orders().grow(2 * kVolumeBytes, [](const Result<std::string>&) {});
  for (int i = 0; i < 1000 && stands(); ++i) node_->run(kSecond_ns);
  ASSERT_FALSE(stands());
  peer_.reset();
  submit(ClientOp::kZero);
  come_back(node_->metadata, EIO);
  config_.size_bytes = 2 * kVolumeBytes;
  meet();
  node_->run(kLong_ns);
  EXPECT_EQ(ended_, 0);
  EXPECT_EQ(node_->engine->status().size_bytes, 2 * kVolumeBytes);
}

// It flushes nothing any more, and nobody could tell the next process that it lost what it had in memory.
TEST_F(HungDiskTest, WhatADiskHadInMemoryIsInDoubtWhenItIsGivenUp) {
  ASSERT_NO_FATAL_FAILURE(hang(&FuzzNode::data, ClientOp::kZero));
  peer_.reset();
  come_back(node_->data, EIO);
  node_->run(kSecond_ns);
  const metadata::NodeRecord on_record = load_plain(node_->metadata.contents, record_).record;
  EXPECT_TRUE(on_record.flush_failed);
  EXPECT_FALSE(on_record.inconsistent) << "the peer has not said that it stands in";
}

}  // namespace
}  // namespace twinblock::fuzz
