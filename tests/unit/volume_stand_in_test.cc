// A primary that gives its disk up for a peer that does not stand in, and what its next process finds of it on record. An
// engine on virtual parts, and the fuzzers' peer.
#include <cerrno>
#include <optional>
#include <string>

#include "volume_beside_peer_support.h"
#include "volume_lost_peer_support.h"
#include "wire/codec.h"

namespace twinblock::fuzz {
namespace {

constexpr uint8_t kDiskFailed = 8;  // HostilePeer::take()

class StandInTest : public LostPeerTest {
 protected:
  static constexpr uint64_t kSoon_ns = 100 * kMillisecond_ns;

  // A request that waits is the engine's until then.
  ~StandInTest() override { node_->engine.reset(); }

  [[nodiscard]] metadata::NodeRecord on_record() const { return load_plain(node_->metadata.contents, record_).record; }
  // A write fails here, which the peer has been sent and has not answered.
  void fail_a_write() {
    begin_in_duplex();
    lose_disk_in_a_write();
  }
  void lose_disk_in_a_write() {
    peer_->answers = false;
    peer_->hears = [this](const wire::FrameHeader& header) {
      if (header.type != static_cast<uint8_t>(wire::FrameType::kGeneration)) return;
      ++heard_[wire::FrameType::kGeneration];
      question_ = header.sequence;
    };
    node_->data.error = EIO;
    node_->data.failures = 1000000;
    begin_zeroes(request_, error_);
    node_->run(kSoon_ns);
    ASSERT_EQ(node_->engine->volume_state(), VolumeState::kDiskless);
  }
  // What the peer's own disk says of that write comes before its answer to whether it stands in.
  void fail_there_too() {
    peer_->take(HostilePeer::Stance::kSame, kDiskFailed, 0);
    peer_->answer(0, 0, EIO, 0);
    peer_->answer(1, 0, EIO, 0);
    node_->run(kSoon_ns);
    ASSERT_FALSE(stands());
    EXPECT_EQ(error_, EIO);
  }
  // Whether it stands in, and nothing else.
  void answer_question(uint32_t error) {
    ASSERT_EQ(heard_[wire::FrameType::kGeneration], 1);
    wire::FrameHeader ack = wire::to_header(wire::AckFrame{.request = question_, .error = error});
    wire::set_order(ack, ++*peer_->control());
    peer_->send(0, wire::seal(ack, {}));
    node_->run(kSoon_ns);
    ASSERT_FALSE(stands());
  }
  // The next process, which nobody else is beside, and whose disk can be read again: it shows what it holds, as its host was
  // started anew.
  bool may_be_promoted_anew() {
    const metadata::NodeRecord found = on_record();
    node_->engine.reset();
    peer_.reset();
    node_ = plain_node(config_, found, nullptr, nullptr, 0, true);
    EXPECT_TRUE(node_->engine->start().ok());
    std::optional<bool> promoted;
    node_->engine->orders().promote(by_word(), [&promoted](const Result<std::string>& said) { promoted = said.ok(); });
    for (int i = 0; i < 100 && !promoted; ++i) node_->run(kSoon_ns);
    return promoted == true;
  }

  uint64_t question_ = 0;  // whether the peer stands in
  ClientRequest request_;
  std::optional<int> error_;
};

// The peer's disk fails first, and what it says comes while this node still records that its replica is stale.
TEST_F(StandInTest, APeerThatWasNotAskedLeavesThisReplicaWhatItWas) {
  begin_in_duplex();
  node_->metadata.hung_until_ns = node_->scheduler.now_ns() + 5 * kSoon_ns;
  ASSERT_NO_FATAL_FAILURE(lose_disk_in_a_write());
  ASSERT_NO_FATAL_FAILURE(fail_there_too());
  ASSERT_EQ(heard_[wire::FrameType::kGeneration], 0);
  node_->run(kSecond_ns);
  EXPECT_FALSE(on_record().inconsistent);
  EXPECT_TRUE(on_record().flush_failed) << "it flushes nothing any more";
  EXPECT_TRUE(may_be_promoted_anew());
}

// … or when it has asked.
TEST_F(StandInTest, APeerThatSaysThatItDidNotRecordItLeavesThisReplicaWhatItWas) {
  ASSERT_NO_FATAL_FAILURE(fail_a_write());
  ASSERT_NO_FATAL_FAILURE(fail_there_too());
  ASSERT_EQ(heard_[wire::FrameType::kGeneration], 1);
  EXPECT_TRUE(on_record().inconsistent) << "nobody knows whether it stands in";
  node_->run(2 * limits::kPeerDiskRetry_ns);
  ASSERT_EQ(node_->engine->status().verdict, Verdict::kPeerDiskFailed);
  EXPECT_FALSE(on_record().inconsistent);
  EXPECT_TRUE(may_be_promoted_anew());
}

TEST_F(StandInTest, APeerThatCanNotStandInLeavesThisReplicaWhatItWas) {
  for (const uint32_t no : {wire::kCanNotStandIn, wire::kCanNotRecord}) {
    ASSERT_NO_FATAL_FAILURE(fail_a_write());
    EXPECT_TRUE(on_record().inconsistent);
    ASSERT_NO_FATAL_FAILURE(answer_question(no));
    EXPECT_FALSE(on_record().inconsistent) << no;
    const std::string disk = no == wire::kCanNotRecord ? config_.node("beta").metadata : config_.node("beta").backing;
    EXPECT_NE(node_->engine->status().peer.error.find(disk), std::string::npos) << node_->engine->status().peer.error;
    EXPECT_FALSE(node_->engine->status().promotable) << "this process has no disk";
    EXPECT_TRUE(may_be_promoted_anew());
    node_->engine.reset();
    heard_.clear();
    error_.reset();
  }
}

// What is taken back waits behind the mark.
TEST_F(StandInTest, AMetadataDiskThatHangsHasNoMoreTimeForBothThanForTheMark) {
  begin_in_duplex();
  node_->metadata.hung_until_ns = node_->scheduler.now_ns() + 2 * config_.disk_timeout_ns;
  ASSERT_NO_FATAL_FAILURE(lose_disk_in_a_write());
  node_->run(config_.disk_timeout_ns / 2);
  ASSERT_NO_FATAL_FAILURE(fail_there_too());
  ASSERT_FALSE(node_->engine->status().metadata_failed);
  node_->run(config_.disk_timeout_ns / 2 + kSecond_ns);
  EXPECT_TRUE(node_->engine->status().metadata_failed);
}

// Its disk failed in the middle of recording it, or it was cut off from this node.
TEST_F(StandInTest, APeerThatMayHaveRecordedItIsBelievedToHave) {
  ASSERT_NO_FATAL_FAILURE(fail_a_write());
  ASSERT_NO_FATAL_FAILURE(answer_question(EIO));
  node_->run(kSecond_ns);
  EXPECT_TRUE(on_record().inconsistent);
  peer_->vanish();
  node_->run(kLong_ns);
  EXPECT_TRUE(on_record().inconsistent);
  EXPECT_FALSE(may_be_promoted_anew());
}

TEST_F(StandInTest, APeerThatWasCutOffIsBelievedToHaveRecordedIt) {
  ASSERT_NO_FATAL_FAILURE(fail_a_write());
  part();
  node_->run(kLong_ns);
  EXPECT_TRUE(on_record().inconsistent);
  // Its disk has failed since, and it has recorded what it was asked.
  be_refused(HostilePeer::Stance::kNewer, Verdict::kPeerDiskFailed, instance_, kDiskFailed);
  node_->run(kSecond_ns);
  EXPECT_TRUE(on_record().inconsistent);
}

// What only it has was acknowledged.
TEST_F(StandInTest, WhatAPeerHasStoodInForStaysStale) {
  begin(OnPeerLoss::kContinue);
  ASSERT_NO_FATAL_FAILURE(lose_the_disk());
  part();
  be_refused(HostilePeer::Stance::kSame, Verdict::kPeerDiskFailed, instance_, kDiskFailed);
  node_->run(kSecond_ns);
  EXPECT_TRUE(on_record().inconsistent);
}

// The next session finds its disk well, and it is asked once more: that is on record here before.
TEST_F(StandInTest, WhoTookItBackRecordsItAnewBeforeThePeerStandsIn) {
  ASSERT_NO_FATAL_FAILURE(fail_a_write());
  ASSERT_NO_FATAL_FAILURE(answer_question(wire::kCanNotStandIn));
  ASSERT_FALSE(on_record().inconsistent);
  peer_->vanish();
  peer_.reset();
  node_->run(limits::kPeerDiskRetry_ns);
  node_->metadata.hung_until_ns = node_->scheduler.now_ns() + config_.disk_timeout_ns / 2;
  meet(true);
  ASSERT_LT(node_->scheduler.now_ns(), node_->metadata.hung_until_ns);
  EXPECT_EQ(heard_[wire::FrameType::kGeneration], 1) << "in the first session";
  node_->run(config_.disk_timeout_ns / 2);
  EXPECT_EQ(heard_[wire::FrameType::kGeneration], 2);
  EXPECT_TRUE(on_record().inconsistent);
  EXPECT_EQ(ask(ClientOp::kZero), 0);
}

// A secondary that a primary asks to stand in.
class AskedToStandInTest : public BesidePeerTest {
 protected:
  AskedToStandInTest() : BesidePeerTest(1) {
    wire::FrameHeader role = wire::to_header(wire::RoleFrame{true, 1});
    wire::set_order(role, ++*peer_->control());
    peer_->send(0, wire::seal(role, {}));
    node_->run(kSecond_ns);
  }
  uint32_t be_asked() {
    metadata::Generations told = record_.generations;
    told.advance(77);
    return answer_to(peer_->tell_generation(0, told, wire::kGenerationSoleCopy));
  }
  void fail(MemoryDisk& disk) {
    disk.error = EIO;
    disk.failures = 1000000;
  }
  void expect_that_nothing_has_changed() {
    node_->run(kSecond_ns);
    EXPECT_EQ(load_plain(node_->metadata.contents, record_).record.generations, record_.generations);
    EXPECT_EQ(node_->engine->status().mine.generations, record_.generations);
  }
};

TEST_F(AskedToStandInTest, SaysYesWhenItIsOnRecord) {
  EXPECT_EQ(be_asked(), 0U);
  EXPECT_EQ(load_plain(node_->metadata.contents, record_).record.generations.current, 77U);
}

TEST_F(AskedToStandInTest, SaysNoWhereItsDiskHasFailed) {
  fail(node_->data);
  const uint64_t flush = peer_->next_sequence();
  peer_->send(0, wire::seal(wire::to_header(wire::FlushFrame{.request = flush}), {}));
  ASSERT_EQ(answer_to(flush), static_cast<uint32_t>(EIO));
  EXPECT_EQ(be_asked(), wire::kCanNotStandIn);
  expect_that_nothing_has_changed();
}

TEST_F(AskedToStandInTest, SaysNoWhereItsMetadataDiskIsKnownToHaveFailed) {
  fail(node_->metadata);
  wire::FrameHeader role = wire::to_header(wire::RoleFrame{false, 1});  // it is to record that
  wire::set_order(role, ++*peer_->control());
  peer_->send(0, wire::seal(role, {}));
  node_->run(kSecond_ns);
  ASSERT_TRUE(node_->engine->status().metadata_failed);
  EXPECT_EQ(be_asked(), wire::kCanNotRecord);
  expect_that_nothing_has_changed();
}

// Half of it may be on the disk.
TEST_F(AskedToStandInTest, SaysNeitherWhereItsMetadataDiskFailsMeanwhile) {
  fail(node_->metadata);
  EXPECT_EQ(be_asked(), static_cast<uint32_t>(EIO));
  EXPECT_EQ(node_->engine->status().mine.generations.current, 77U);
}

}  // namespace
}  // namespace twinblock::fuzz
