// What a primary does that loses its peer.
#include <array>
#include <cerrno>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "control/status_words.h"
#include "volume_lost_peer_support.h"

namespace twinblock::fuzz {
namespace {

// What it holds and the peer may miss is recorded, and the client has gone: nothing waits for the peer.
TEST_F(LostPeerTest, ItIsDemoted) {
  begin(OnPeerLoss::kFreeze);
  meet(true);
  promote();
  write();
  part();
  demote();
  node_->run(kLong_ns);
  EXPECT_EQ(demoted_, true);
}

// The flush has begun without the peer, has to be done there, too, as that takes part by then, and loses it again.
TEST_F(LostPeerTest, ItIsDemotedWhileThePeerComesAndGoes) {
  begin(OnPeerLoss::kFreeze);
  meet(true);
  promote();
  write();
  part();
  meet(false);
  await(wire::FrameType::kGeneration, 0);
  node_->data.hung_until_ns = node_->scheduler.now_ns() + kSecond_ns;
  demote();
  for (size_t link = 0; link < config_.links.size(); ++link) peer_->answer(link, 0, 0, 0);  // it is marked
  node_->run(100 * kMillisecond_ns);
  ASSERT_FALSE(demoted_.has_value()) << "its disk hangs";
  await(wire::FrameType::kFlush, heard_[wire::FrameType::kFlush]);
  part();
  node_->run(kLong_ns);
  EXPECT_EQ(demoted_, true);
  EXPECT_FALSE(node_->engine->is_primary());
}

// It flushes by itself what its client has written a moment before all links fall silent. Nobody was promised anything
// without the peer: that may be promoted, and be the source, without a word of the operator's.
TEST_F(LostPeerTest, ItsOwnFlushBeginsNoGeneration) {
  begin_in_duplex();
  const uint64_t generation = node_->engine->status().mine.generations.current;
  peer_->answers = peer_->beats = peer_->confirms = false;
  await(wire::FrameType::kFlush, heard_[wire::FrameType::kFlush]);
  part();
  node_->run(kLong_ns);
  EXPECT_EQ(node_->engine->status().mine.generations.current, generation);
  write();
  EXPECT_NE(node_->engine->status().mine.generations.current, generation) << "it went on alone";
}

// The volume has grown there, and this node has no room for that: no session comes up, and its clients write on.
TEST_F(LostPeerTest, WhoseSizeDiffersFromAPrimarysIsNotPromotedWithoutAWord) {
  begin(OnPeerLoss::kContinue);
  config_.size_bytes = 2 * kVolumeBytes;  // as the peer says it
  peer_ = std::make_unique<HostilePeer>(*node_, "beta", record_);
  peer_->take(HostilePeer::Stance::kSame, 1, 2);
  for (int i = 0; i < 100 && node_->engine->status().refusal.empty(); ++i) node_->run(100 * kMillisecond_ns);
  std::optional<Result<std::string>> said;
  node_->engine->orders().promote({}, [&said](const Result<std::string>& result) { said = result; });
  node_->run(kLong_ns);
  ASSERT_TRUE(said.has_value());
  ASSERT_FALSE(said->ok());
  EXPECT_NE(said->error().what.find("was primary when it was last heard"), std::string::npos) << said->error().what;
  EXPECT_FALSE(node_->engine->is_primary());
  EXPECT_TRUE(node_->engine->status().promotion.peer_is_primary) << "and so says `twinblock why`";
}

// By the operator's word, though the other one lived on, and has written since: nobody wrote here, so nothing diverges.
TEST_F(LostPeerTest, WhoTookOverAndWroteNothingIsDemotedAsItWas) {
  record_.peer_primary = true;
  begin(OnPeerLoss::kContinue);
  promote(by_word());
  follow();
}

// It was promoted last; but who is primary, and has been all the time, counts as the later one.
TEST_F(LostPeerTest, WhoTookOverAndWroteNothingGivesItsTermUpBesideThatPrimary) {
  record_.peer_primary = true;
  begin(OnPeerLoss::kContinue);
  promote(by_word());
  follow();
  const uint64_t term = node_->engine->status().mine.term;
  ASSERT_GT(term, 0u);
  peer_ = std::make_unique<HostilePeer>(*node_, "beta", record_);
  peer_->take(HostilePeer::Stance::kSame, 1, term);  // parted, both may begin the same
  for (int i = 0; i < 100 && !node_->engine->inside().session_stands(); ++i) node_->run(100 * kMillisecond_ns);
  ASSERT_TRUE(node_->engine->inside().session_stands());
  EXPECT_EQ(node_->engine->status().mine.term, 0u);
}

// Nobody waits for what an age of the intents writes, and the next one who waits may do so when the peer is away.
TEST_F(LostPeerTest, AMetadataDiskThatFailsUnnoticedIsLeftWhileThePeerIsThere) {
  begin_in_duplex();
  node_->metadata.error = EIO;
  node_->metadata.failures = 1000000;
  node_->run(3 * limits::kIntentAge_ns);
  EXPECT_EQ(node_->engine->volume_state(), VolumeState::kDiskless);
  EXPECT_TRUE(node_->engine->status().metadata_failed);
  write();
}

// What it covers the peer has: its own disk, which the peer stands in for, may never answer.
TEST_F(LostPeerTest, AFlushDoesNotWaitForADiskThatWasLeft) {
  begin_in_duplex();
  std::vector<std::optional<int>> flushed(2);
  std::vector<ClientRequest> requests(2);
  const auto flush = [&](size_t each) {
    requests[each].op = ClientOp::kFlush;
    requests[each].done = [&, each](ClientRequest& done) { flushed[each] = done.error; };
    node_->engine->clients().submit(requests[each]);
  };
  node_->data.hung_until_ns = node_->scheduler.now_ns() + 3600 * kSecond_ns;
  flush(0);
  node_->run(100 * kMillisecond_ns);
  ASSERT_FALSE(flushed[0]);
  node_->data.hung_until_ns = 0;
  node_->data.error = EIO;
  node_->data.failures = 1000000;
  write();
  ASSERT_EQ(node_->engine->volume_state(), VolumeState::kDiskless);
  flush(1);
  node_->run(kSecond_ns);
  EXPECT_EQ(flushed[0], 0);
  EXPECT_EQ(flushed[1], 0);
  node_->run(3600 * kSecond_ns);  // the disk answers at last
  EXPECT_EQ(node_->engine->volume_state(), VolumeState::kDiskless);
}

// The one disk has failed, and the other one hangs: it was given up, and nobody waits for it.
TEST_F(LostPeerTest, AMetadataDiskThatWasGivenUpDoesNotStandStill) {
  begin_in_duplex();
  node_->metadata.tells = true;
  node_->metadata.hung_until_ns = node_->scheduler.now_ns() + 3600 * kSecond_ns;
  node_->data.error = EIO;
  node_->data.failures = 1000000;
  ClientRequest request;
  std::optional<int> error;
  begin_zeroes(request, error);
  node_->run(4 * config_.disk_timeout_ns);
  EXPECT_EQ(error, 0);
  EXPECT_EQ(node_->engine->volume_state(), VolumeState::kDiskless);
  EXPECT_EQ(node_->engine->status().stalled_ns, 0u);
  node_->metadata.hung_until_ns = 0;
}

// What nobody has any more is named.
TEST_F(LostPeerTest, APrimaryThatComesBackEmptyIsTold) {
  record_.peer_primary = true;
  begin(OnPeerLoss::kContinue);
  int told = 0;
  node_->logs = [&told](const std::string& line) { told += line.find("begins with an empty replica") != line.npos ? 1 : 0; };
  peer_ = std::make_unique<HostilePeer>(*node_, "beta", record_);
  peer_->take(HostilePeer::Stance::kBlank, 0, 0);
  for (int i = 0; i < 100 && !stands(); ++i) node_->run(100 * kMillisecond_ns);
  ASSERT_TRUE(stands());
  EXPECT_EQ(told, 1);
}

// It has given its own disk up, and was demoted: a new volume would begin on a disk that takes nothing.
TEST_F(LostPeerTest, NoVolumeBeginsOnADiskThatHasFailed) {
  begin(OnPeerLoss::kContinue);
  ASSERT_NO_FATAL_FAILURE(lose_the_disk());
  demote();
  node_->run(kSecond_ns);
  ASSERT_EQ(demoted_, true);
  part();
  std::string refusal;
  node_->engine->orders().init(true, false, [&refusal](const Result<std::string>& said) {
    refusal = said ? said.value() : said.error().what;
  });
  node_->run(kSecond_ns);
  EXPECT_EQ(refusal, "this node's disk has failed: no volume can begin there");
}

// Its own disk has failed, and the peer, whose replica is good, is away for a while: nobody is told an error.
TEST_F(LostPeerTest, WhatOnlyThePeerHasIsWaitedFor) {
  begin(OnPeerLoss::kFreeze);
  ASSERT_NO_FATAL_FAILURE(lose_the_disk());
  peer_->answers = false;
  std::array<std::byte, 4 * kKiB> read_into{};
  std::map<ClientOp, std::vector<ClientRequest>> requests;
  int answered = 0, failed = 0;
  const auto submit = [&](ClientOp op) {
    ClientRequest& request = requests[op].emplace_back();
    request.op = op;
    request.length_bytes = op == ClientOp::kFlush ? 0 : read_into.size();
    request.offset_bytes = op == ClientOp::kZero ? 64 * kKiB : 0;
    request.data = op == ClientOp::kRead ? read_into.data() : nullptr;
    request.done = [&](ClientRequest& done) { ++answered, failed += done.error != 0 ? 1 : 0; };
    node_->engine->clients().submit(request);
  };
  constexpr std::array kAll{ClientOp::kRead, ClientOp::kZero, ClientOp::kFlush};
  for (const ClientOp op : kAll) requests[op].reserve(2);
  for (const ClientOp op : kAll) submit(op);  // which the peer has when it goes
  node_->run(kMillisecond_ns);
  part();
  for (const ClientOp op : kAll) submit(op);
  node_->run(kLong_ns);
  EXPECT_EQ(answered, 0);
  record_.generations = node_->engine->status().mine.generations;  // the peer has it on record
  meet(true);
  node_->run(kLong_ns);
  EXPECT_EQ(answered, 6);
  EXPECT_EQ(failed, 0);
}

// Its flush fails, and with that the peer does not take part in anything: nobody comes to stand in.
TEST_F(LostPeerTest, WhatNobodyWillStandInForIsNotWaitedFor) {
  begin(OnPeerLoss::kFreeze);
  meet(true);
  promote();
  write();
  part();
  node_->data.error = EIO;
  node_->data.failures = 1;
  std::optional<int> error;
  ClientRequest request;
  request.op = ClientOp::kFlush;
  request.done = [&error](ClientRequest& done) { error = done.error; };
  node_->engine->clients().submit(request);
  node_->run(kSecond_ns);
  EXPECT_EQ(error, EIO);
  EXPECT_EQ(node_->engine->volume_state(), VolumeState::kFrozen) << "its disk is in use";
}

// A disk that was full may have room again. One that gave an error has it still, however well the next writes go.
TEST_F(LostPeerTest, AnErrorOfTheLastDiskIsForgottenOnlyWhereItMayPass) {
  for (const int error : {ENOSPC, EDQUOT, EFBIG, EIO}) {
    go_on_alone();
    node_->data.error = error;
    node_->data.failures = 1;
    std::optional<int> told;
    ClientRequest request;
    request.op = ClientOp::kZero;
    request.length_bytes = 4 * kKiB;
    request.done = [&told](ClientRequest& done) { told = done.error; };
    node_->engine->clients().submit(request);
    node_->run(kSecond_ns);
    ASSERT_EQ(told, error);
    std::vector<std::byte> data(4 * kKiB);
    for (int i = 0; i < 4; ++i) {
      request.op = ClientOp::kWrite;
      request.data = data.data();
      told.reset();
      node_->engine->clients().submit(request);
      node_->run(kSecond_ns);
      ASSERT_EQ(told, 0);
    }
    EXPECT_NE(node_->engine->status().disk_error, "") << "it is kept for a while";
    EXPECT_EQ(node_->engine->status().disk_lacks_room, error != EIO) << error;
    node_->run(10 * kLong_ns);
    EXPECT_EQ(node_->engine->status().disk_error.empty(), error != EIO) << error;
    node_->engine.reset();
  }
}

// Nobody has tried it since.
TEST_F(LostPeerTest, AFullDiskIsForgottenOnlyWhenItHasTakenWrites) {
  go_on_alone();
  node_->data.error = ENOSPC;
  node_->data.failures = 1;
  ASSERT_EQ(ask(ClientOp::kZero), ENOSPC);
  node_->run(10 * kLong_ns);
  EXPECT_NE(node_->engine->status().disk_error, "");
  ASSERT_NO_FATAL_FAILURE(write_data());
  node_->run(kLong_ns);
  EXPECT_EQ(node_->engine->status().disk_error, "");
}

TEST_F(LostPeerTest, TheTimesAloneAddUp) {
  begin(OnPeerLoss::kContinue);
  meet(true);
  promote();
  for (uint64_t period = 1; period <= 2; ++period) {
    write();
    part();
    write();
    const uint64_t before_ns = node_->engine->status().simplex_ns;
    EXPECT_NE(node_->engine->status().lost_wall_ns, 0u);
    node_->run(kLong_ns);
    EXPECT_EQ(node_->engine->status().simplex_ns, before_ns + kLong_ns);
    EXPECT_EQ(node_->engine->status().simplex_times, period);
    meet(true);
    EXPECT_GE(node_->engine->status().simplex_ns, period * kLong_ns);
  }
}

// A disk takes its time for a place that it can't read, and is asked for it once: what waits is looked at often.
TEST_F(LostPeerTest, ABadPlaceIsNotReadAgainAndAgainUntilThePeerIsBack) {
  begin(OnPeerLoss::kFreeze);
  meet(true);
  promote();
  part();
  node_->data.unreadable = true;
  int asked = 0;
  node_->data.submitted = [&asked](const DiskRequest& request) { asked += request.op == DiskOp::kRead ? 1 : 0; };
  std::array<std::byte, 4 * kKiB> read_into{};
  std::optional<int> error;
  ClientRequest request;
  request.op = ClientOp::kRead;
  request.length_bytes = read_into.size();
  request.data = read_into.data();
  request.done = [&error](ClientRequest& done) { error = done.error; };
  node_->engine->clients().submit(request);
  node_->run(kLong_ns);
  EXPECT_FALSE(error.has_value());
  EXPECT_EQ(asked, 1);
  meet(true);
  node_->run(kSecond_ns);
  EXPECT_EQ(error, 0);
}

TEST_F(LostPeerTest, WritesThatFailedTakeNoRoomOfThoseThatFollow) {
  begin(OnPeerLoss::kContinue);
  meet(true);
  promote();
  part();
  write();
  std::vector<std::byte> data(kVolumeBytes, std::byte{1});
  ClientRequest request;
  std::optional<int> told;
  const auto write_all = [&] {
    told.reset();
    request.op = ClientOp::kWrite;
    request.length_bytes = data.size();
    request.data = data.data();
    request.done = [&told](ClientRequest& done) { told = done.error; };
    node_->engine->clients().submit(request);
    for (int i = 0; i < 100 && !told; ++i) node_->run(10 * kMillisecond_ns);
    return told;
  };
  node_->data.error = ENOSPC;
  node_->data.failures = 1000;
  for (uint64_t failed = 0; failed <= limits::kWriteBytesInFlightMax; failed += data.size())
    ASSERT_EQ(write_all(), ENOSPC) << failed;
  node_->data.failures = 0;
  EXPECT_EQ(write_all(), 0);
}

// It dials every other second, and has nothing new to say.
TEST_F(LostPeerTest, ThatALargerPeerCanNotBeFollowedIsToldOnceInAWhile) {
  begin(OnPeerLoss::kContinue);
  int told = 0;
  node_->logs = [&told](const std::string& line) { told += line.find("did not grow to") != line.npos ? 1 : 0; };
  config_.size_bytes = 2 * kVolumeBytes;  // what the peer says; this node goes by its record
  peer_ = std::make_unique<HostilePeer>(*node_, "beta", record_);
  peer_->take(HostilePeer::Stance::kSame, 0, 0);
  node_->run(30 * kSecond_ns);
  EXPECT_EQ(told, 1);
}

// There would be room.
TEST_F(LostPeerTest, ALargerPeerOfASizeThatCanNotBeIsNotFollowed) {
  begin(OnPeerLoss::kContinue);
  config_.size_bytes = kVolumeBytes + 512;  // as the peer says it
  node_->data.contents.resize(2 * kVolumeBytes);
  node_->metadata.contents.resize(node_->metadata.contents.size() + kMiB);
  peer_ = std::make_unique<HostilePeer>(*node_, "beta", record_);
  peer_->take(HostilePeer::Stance::kSame, 0, 0);
  node_->run(30 * kSecond_ns);
  EXPECT_EQ(node_->engine->status().size_bytes, kVolumeBytes);
}

TEST_F(LostPeerTest, AnOrderToGoOnAloneEndsWithTheNextPromotion) {
  begin(OnPeerLoss::kFreeze);
  meet(true);
  promote();
  part();
  node_->engine->orders().go_on_alone(false, [](const Result<std::string>& said) { EXPECT_TRUE(said.ok()); });
  write();
  demote();
  node_->run(kSecond_ns);
  ASSERT_EQ(demoted_, true);
  promote();
  std::optional<int> error;
  ClientRequest request;
  begin_zeroes(request, error);
  node_->run(kLong_ns);
  EXPECT_FALSE(error.has_value()) << "nobody has ordered it this time";
  meet(true);
  node_->run(kSecond_ns);
  EXPECT_EQ(error, 0);
}

// `wait --for duplex` has ended, and the peer is still recording that it is whole: what takes two who know waits for that.
TEST_F(LostPeerTest, AnOrderForBothWaitsUntilBothKnow) {
  begin(OnPeerLoss::kContinue);
  promote();
  meet(false);
  ASSERT_EQ(node_->engine->volume_state(), VolumeState::kDuplex);
  std::string grown, taken;
  node_->engine->orders().grow(2 * kVolumeBytes, [&grown](const Result<std::string>& said) {
    grown = said ? said.value() : said.error().what;
  });
  node_->engine->orders().snapshot("x", [&taken](const auto& said) { taken = said ? "taken" : said.error().what; });
  node_->run(100 * kMillisecond_ns);
  EXPECT_EQ(grown + taken, "") << "nobody has answered";
  for (size_t link = 0; link < config_.links.size(); ++link) peer_->answer(link, 0, 0, 0);
  node_->run(kSecond_ns);
  EXPECT_NE(grown + taken, "");
  EXPECT_EQ((grown + taken).find("not up to date"), std::string::npos) << grown << taken;
}

// It is connected, beats and answers all else.
TEST_F(LostPeerTest, APromotionDoesNotWaitWithoutEndForThePeersWord) {
  begin(OnPeerLoss::kContinue);
  meet(true);
  peer_->agrees = false;
  std::optional<int> error;
  node_->engine->orders().promote({}, [&error](const Result<std::string>& said) {
    error = said ? 0 : said.error().code;
  });
  node_->run(4 * config_.peer_timeout_ns);
  ASSERT_TRUE(stands());
  EXPECT_EQ(error, ETIMEDOUT);
  EXPECT_FALSE(node_->engine->is_primary());
}

// Its host has so much to do that each turn of its loop comes late. It looks whether the peer is there all the same.
TEST_F(LostPeerTest, ANodeThatIsLateAtEachTurnGivesADeadPeerUp) {
  begin_in_duplex();
  sim::LinkFaults dead;
  dead.silent = {true, true};
  for (const char* link : {"main", "backup"}) node_->network.set_faults(link, dead);
  const uint64_t end_ns = node_->scheduler.now_ns() + 10 * config_.peer_timeout_ns;
  while (stands() && node_->scheduler.now_ns() < end_ns) {
    bool turned = false;  // behind what had come due, and before what that arms for at once
    node_->scheduler.after(0, nullptr, [&turned] { turned = true; });
    node_->scheduler.run_until(node_->scheduler.now_ns(), [&turned] { return turned; });
    node_->stand_still(20 * kMillisecond_ns);
  }
  EXPECT_FALSE(stands());
}

}  // namespace
}  // namespace twinblock::fuzz
