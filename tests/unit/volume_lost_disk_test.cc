// What a primary does on its peer's replica, and what of it is remembered.
#include <array>
#include <cerrno>
#include <optional>
#include <string>

#include "volume_lost_peer_support.h"

namespace twinblock::fuzz {
namespace {

TEST_F(LostPeerTest, ANewVolumeDoesNotMendADiskWhoseFlushHadFailed) {
  record_.flush_failed = true;
  begin(OnPeerLoss::kContinue);
  bool begun = false;
  node_->engine->orders().init(true, false, [&begun](const Result<std::string>& said) { begun = said.ok(); });
  node_->run(kSecond_ns);
  ASSERT_TRUE(begun);
  EXPECT_TRUE(load_plain(node_->metadata.contents, record_).record.flush_failed);
  EXPECT_FALSE(node_->engine->status().promotable);
}

// What a peer has acknowledged and not flushed is lost when its host is started anew; what a flush has closed is not. A
// session that was lost between changes nothing of either.
TEST_F(LostPeerTest, APeerMayForgetWhatItHasFlushed) {
  begin(OnPeerLoss::kFreeze);
  ASSERT_NO_FATAL_FAILURE(lose_the_disk());
  const auto part_and = [this](const auto& then) {
    peer_->answers = false;  // no flush of this node's own
    part();
    record_.generations = node_->engine->status().mine.generations;  // the peer has it on record
    then();
  };
  write();
  part_and([this] { meet(false); });
  part_and([this] { be_refused(HostilePeer::Stance::kSame, Verdict::kCantGoOn, {8}, 0); });
  peer_->vanish();
  peer_.reset();
  meet(true);
  ASSERT_EQ(flush(), 0);
  instance_ = {7};
  part_and([this] { meet(true); });
  write();
}

// It went on alone, and its host has lost its memory since. Where nobody is asked, nobody knows but the operator whether the
// peer was promoted meanwhile.
TEST_F(LostPeerTest, WhoWentOnAloneAndWasStartedAnewWantsAWordWithoutAWitness) {
  record_.generations.advance(12);
  record_.primary = record_.dirty = true;
  record_.peer_instance = 7;
  begin(OnPeerLoss::kContinue);
  int error = 0;
  node_->engine->orders().promote({}, [&error](const Result<std::string>& said) { error = said ? 0 : said.error().code; });
  node_->run(kLong_ns);
  EXPECT_EQ(error, EBUSY);
  Promotion::Word word;
  word.peer_is_dead = true;
  promote(word);
}

TEST_F(LostPeerTest, ThatThePeersDiskHadFailedIsForgottenWhenASessionStandsAgain) {
  begin_in_duplex();
  peer_->answers = false;
  std::optional<int> error;
  ClientRequest request;
  begin_zeroes(request, error);
  for (int i = 0; i < 100 && stands(); ++i) {
    for (size_t link = 0; link < config_.links.size(); ++link) peer_->answer(link, 0, ENOSPC, 0);
    node_->run(10 * kMillisecond_ns);
  }
  ASSERT_FALSE(stands());
  EXPECT_EQ(error, 0);
  EXPECT_NE(node_->engine->status().peer.error.find("disk failed"), std::string::npos);
  part();
  node_->run(limits::kPeerDiskRetry_ns);
  meet(false);  // all is still to be copied
  EXPECT_EQ(node_->engine->status().peer.error, "");
}

// Who has it promoted fails at once, and goes on elsewhere.
TEST_F(LostPeerTest, APromotionThatCanNotBeRecordedIsRefusedForGood) {
  begin(OnPeerLoss::kContinue);
  node_->metadata.error = EIO;
  node_->metadata.failures = 1000000;
  Promotion::Word word;
  word.peer_is_dead = true;
  for (const char* why : {"it is found out by that", "it is known"}) {
    std::optional<Error> refusal;
    node_->engine->orders().promote(word, [&refusal](const Result<std::string>& said) {
      if (!said.ok()) refusal = said.error();
    });
    node_->run(kSecond_ns);
    ASSERT_TRUE(refusal.has_value()) << why;
    EXPECT_EQ(refusal->retry, Retry::kWhenMended) << why << ": " << refusal->what;
  }
}

// Whatever the reason: what it covered may be gone, and no later one means anything.
TEST_F(LostPeerTest, AFlushThatFailedForWantOfRoomIsNotForgotten) {
  begin_in_duplex();
  part();
  write();
  node_->data.error = ENOSPC;
  node_->data.failures = 1;
  ASSERT_NE(flush(), 0);
  ASSERT_NO_FATAL_FAILURE(write_data());
  node_->run(kLong_ns);
  EXPECT_NE(node_->engine->status().disk_error, "");
}

// The metadata disk has answered in time, and the loop, which stood still, has not looked.
TEST_F(LostPeerTest, AMetadataDiskIsNotGivenUpForWhatANodeThatStoodStillDidNotHear) {
  begin_in_duplex();
  node_->metadata.hung_until_ns = node_->scheduler.now_ns() + kSecond_ns;
  node_->data.error = EIO;
  node_->data.failures = 1000000;
  ClientRequest request;
  std::optional<int> error;
  begin_zeroes(request, error);
  node_->run(100 * kMillisecond_ns);
  ASSERT_EQ(node_->engine->volume_state(), VolumeState::kDiskless);
  ASSERT_FALSE(error.has_value()) << "it is not on record yet";
  node_->stand_still(2 * config_.disk_timeout_ns);
  node_->run(kSecond_ns);
  EXPECT_EQ(error, 0);
  demote();
  node_->run(kSecond_ns);
  EXPECT_EQ(demoted_, true);
}

// Two disks of one size fill at the same write, and the local one says so a moment before the peer can.
class BothFullTest : public LostPeerTest {
 protected:
  void find_no_room_here() {
    peer_->answers = false;
    node_->data.error = ENOSPC;
    node_->data.failures = 1;
    begin_zeroes(request_, error_);
    node_->run(100 * kMillisecond_ns);
    ASSERT_EQ(error_, std::nullopt) << "the peer may take it";
  }
  void answer_for_the_peer(uint32_t status) {
    for (int i = 0; i < 100 && !error_; ++i) {
      for (size_t link = 0; link < config_.links.size(); ++link) peer_->answer(link, 0, status, 0);
      node_->run(10 * kMillisecond_ns);
    }
  }
  void expect_that_only_the_write_failed() {
    EXPECT_EQ(error_, ENOSPC);
    EXPECT_TRUE(node_->engine->status().disk_ok);
    EXPECT_NE(node_->engine->status().disk_error, "");
    EXPECT_EQ(ask(ClientOp::kRead), 0);
  }

  ClientRequest request_;
  std::optional<int> error_;
};

TEST_F(BothFullTest, AWriteThatThePeerRefusesAsWellCostsNoReplica) {
  begin_in_duplex();
  ASSERT_NO_FATAL_FAILURE(find_no_room_here());
  answer_for_the_peer(ENOSPC);
  ASSERT_FALSE(stands());
  expect_that_only_the_write_failed();
  EXPECT_EQ(flush(), 0);
}

TEST_F(BothFullTest, AWriteThatThePeerRefusesAsWellIsNotHeldWhereClientsWaitForALostPeer) {
  begin(OnPeerLoss::kFreeze);
  meet(true);
  promote();
  write();
  ASSERT_NO_FATAL_FAILURE(find_no_room_here());
  answer_for_the_peer(ENOSPC);
  ASSERT_FALSE(stands());
  expect_that_only_the_write_failed();
}

TEST_F(BothFullTest, AWriteThatThePeerIsLostWithCostsNoReplica) {
  begin_in_duplex();
  ASSERT_NO_FATAL_FAILURE(find_no_room_here());
  part();
  expect_that_only_the_write_failed();
  EXPECT_EQ(flush(), 0);
}

TEST_F(BothFullTest, APeerThatHasRoomStandsIn) {
  begin_in_duplex();
  ASSERT_NO_FATAL_FAILURE(find_no_room_here());
  answer_for_the_peer(0);
  EXPECT_EQ(error_, 0);
  EXPECT_EQ(node_->engine->volume_state(), VolumeState::kDiskless);
}

// It may never answer, and this disk is good for nothing any more.
TEST_F(BothFullTest, ADiskThatFailsIsLeftBeforeThePeerHasAnswered) {
  begin_in_duplex();
  peer_->answers = false;
  node_->data.error = EIO;
  node_->data.failures = 1;
  begin_zeroes(request_, error_);
  node_->run(100 * kMillisecond_ns);
  EXPECT_EQ(error_, std::nullopt);
  EXPECT_FALSE(node_->engine->status().disk_ok);
}

// Clients of a primary whose peer has the only copy of what they ask for.
class SoleCopyTest : public LostPeerTest {
 protected:
  // A write, a read and a flush, each of a place of its own.
  void ask_all() {
    for (size_t each = 0; each < kOps.size(); ++each) {
      errors_[each].reset();
      requests_[each] = {};
      requests_[each].op = kOps[each];
      requests_[each].offset_bytes = each * memory_.size();
      requests_[each].length_bytes = kOps[each] == ClientOp::kFlush ? 0 : memory_.size();
      requests_[each].data = kOps[each] == ClientOp::kRead ? memory_.data() : nullptr;
      requests_[each].done = [this, each](ClientRequest& done) { errors_[each] = done.error; };
      node_->engine->clients().submit(requests_[each]);
    }
  }
  void ask_for_what_only_a_peer_that_is_away_can_read() {
    begin_in_duplex();
    node_->data.unreadable = true;
    ask_all();
    node_->run(kSecond_ns);
    part();
    ask_all();
    node_->run(100 * kMillisecond_ns);
    ASSERT_EQ(errors_[1], std::nullopt);
  }
  void expect_all(std::optional<int> error, const char* why) {
    for (const auto& each : errors_) EXPECT_EQ(each, error) << why;
  }

  static constexpr std::array kOps{ClientOp::kZero, ClientOp::kRead, ClientOp::kFlush};
  std::array<std::byte, 4 * kKiB> memory_{};
  std::array<ClientRequest, kOps.size()> requests_;
  std::array<std::optional<int>, kOps.size()> errors_;
};

// Its process is replaced, say, or its links broke.
TEST_F(SoleCopyTest, ThePeerIsWaitedForAWhile) {
  begin(OnPeerLoss::kContinue);
  ASSERT_NO_FATAL_FAILURE(lose_the_disk());
  part();
  ask_all();
  node_->run(100 * kMillisecond_ns);
  expect_all(std::nullopt, "it may be back at any moment");
  meet(true);
  node_->run(kSecond_ns);
  expect_all(0, "it is back");
  part();
  ask_all();
  node_->run(2 * config_.peer_timeout_ns);
  expect_all(EIO, "not for ever");
}

// The peer had it on record before that this node's disk failed, and records nothing of a session in which it is not asked to:
// its copy of before that session is no other than it is.
TEST_F(SoleCopyTest, ASessionInWhichNothingIsPutOnRecordDoesNotStand) {
  const auto stood = [this] { return load_plain(node_->metadata.contents, record_).record.sessions.stood; };
  begin(OnPeerLoss::kContinue);
  ASSERT_NO_FATAL_FAILURE(lose_the_disk());
  const auto before = stood();
  ASSERT_NE(before.front(), 0u) << "the one in which it wrote does";
  part();
  meet(true);
  node_->run(kSecond_ns);
  ASSERT_EQ(node_->engine->volume_state(), VolumeState::kDiskless);
  EXPECT_EQ(stood(), before);
}

// One that fails what it is asked is there, and would fail it again.
TEST_F(SoleCopyTest, APeerThatFailsIsNotWaitedFor) {
  begin(OnPeerLoss::kContinue);
  ASSERT_NO_FATAL_FAILURE(lose_the_disk());
  peer_->answers = false;
  ask_all();
  for (int i = 0; i < 100 && stands(); ++i) {
    for (size_t link = 0; link < config_.links.size(); ++link) peer_->answer(link, 0, EIO, 0);
    node_->run(10 * kMillisecond_ns);
  }
  ASSERT_FALSE(stands());
  expect_all(EIO, "its disk has failed");
}

// The disk is there but for some places.
TEST_F(SoleCopyTest, APlaceThatOnlyThePeerCanReadIsWaitedForAWhile) {
  begin_in_duplex();
  node_->data.unreadable = true;
  ask_all();
  node_->run(kSecond_ns);
  expect_all(0, "the peer has it");
  ASSERT_EQ(node_->engine->volume_state(), VolumeState::kDegraded);
  part();
  ask_all();
  node_->run(100 * kMillisecond_ns);
  EXPECT_EQ(errors_[0], 0) << "it goes on alone";
  EXPECT_EQ(errors_[1], std::nullopt);
  node_->run(2 * config_.peer_timeout_ns);
  EXPECT_EQ(errors_[1], EIO);
}

// Nothing was known to be bad when the peer went.
TEST_F(SoleCopyTest, APlaceThatIsFoundWhileThePeerIsAwayIsWaitedForAsWell) {
  begin_in_duplex();
  part();
  node_->data.unreadable = true;
  ask_all();
  node_->run(100 * kMillisecond_ns);
  EXPECT_EQ(errors_[1], std::nullopt);
  record_.generations = node_->engine->status().mine.generations;
  meet(true);
  node_->run(kSecond_ns);
  EXPECT_EQ(errors_[1], 0);
}

// Its process is replaced once more before it takes part again: it was heard a moment ago, and holds the place still.
TEST_F(SoleCopyTest, APlaceThatOnlyThePeerCanReadIsWaitedForThoughThePeerGoesTwice) {
  ASSERT_NO_FATAL_FAILURE(ask_for_what_only_a_peer_that_is_away_can_read());
  record_.generations = node_->engine->status().mine.generations;
  meet(false);
  ASSERT_NE(node_->engine->volume_state(), VolumeState::kDuplex) << "it has not answered that it is marked";
  part();
  node_->run(100 * kMillisecond_ns);
  EXPECT_EQ(errors_[1], std::nullopt);
  meet(true);
  node_->run(kSecond_ns);
  EXPECT_EQ(errors_[1], 0);
}

// It takes a copy of what it has first, say, for as long as that takes.
TEST_F(SoleCopyTest, APlaceThatOnlyThePeerCanReadIsNotWaitedForWhileThePeerIsThereAndTakesNoPart) {
  ASSERT_NO_FATAL_FAILURE(ask_for_what_only_a_peer_that_is_away_can_read());
  record_.generations = node_->engine->status().mine.generations;
  meet(false);
  node_->run(2 * config_.peer_timeout_ns);
  ASSERT_TRUE(stands());
  EXPECT_EQ(errors_[1], EIO);
}

// A node that stood still knows nothing of a peer that it did not hear meanwhile.
TEST_F(SoleCopyTest, APlaceThatOnlyThePeerCanReadIsWaitedForThoughThisNodeStoodStill) {
  ASSERT_NO_FATAL_FAILURE(ask_for_what_only_a_peer_that_is_away_can_read());
  node_->stand_still(2 * config_.peer_timeout_ns);
  EXPECT_EQ(errors_[1], std::nullopt);
  record_.generations = node_->engine->status().mine.generations;
  meet(true);
  node_->run(kSecond_ns);
  EXPECT_EQ(errors_[1], 0);
}

// Its process ends each time before it takes part. (What is written there would mend the place, and waits for the read.)
TEST_F(SoleCopyTest, APlaceThatOnlyThePeerCanReadIsNotWaitedForWhileThePeerGoesAgainAndAgain) {
  ASSERT_NO_FATAL_FAILURE(ask_for_what_only_a_peer_that_is_away_can_read());
  for (int times = 0; times < 100 && !errors_[1]; ++times) {
    record_.generations = node_->engine->status().mine.generations;
    meet(false);
    part();
    node_->run(100 * kMillisecond_ns);
  }
  EXPECT_EQ(errors_[1], EIO);
}

}  // namespace
}  // namespace twinblock::fuzz
