// A node that was primary when its process ended goes on as primary, if its peer agrees: an engine on virtual parts, and
// the fuzzers' peer.
#include "volume_resumption_support.h"

namespace twinblock::fuzz {
namespace {

TEST_F(ResumptionTest, ItServesWhenThePeerHasTheSame) {
  meet(true, false);
  node_->run(kSecond_ns);
  EXPECT_TRUE(serves());
}

// The next process would else go on as primary against that.
TEST_F(ResumptionTest, AStopWaitsUntilItIsOnRecordThatItIsNotToGoOn) {
  node_->run(100 * kMillisecond_ns);
  node_->metadata.hung_until_ns = node_->scheduler.now_ns() + kSecond_ns;
  // (Twice: the second finds nothing to give up in memory.)
  for (int i = 0; i < 2; ++i)
    node_->engine->orders().demote([](const Result<std::string>& said) { EXPECT_TRUE(said.ok()); });
  bool stopped = false;
  node_->engine->shut_down(false, [&stopped] { stopped = true; });
  node_->run(kSecond_ns / 2);
  EXPECT_FALSE(stopped);
  node_->run(2 * kSecond_ns);
  EXPECT_TRUE(stopped);
  EXPECT_EQ(on_record().promoted_boot, 0u);
}

// Else it would go on as primary of a volume that nobody has promoted.
TEST_F(ResumptionTest, NoVolumeIsBegunOnANodeThatIsToGoOn) {
  std::optional<Result<std::string>> said;
  const auto begin = [&] {
    node_->engine->orders().init(true, false, [&said](const Result<std::string>& result) { said = result; });
    node_->run(kSecond_ns);
  };
  begin();
  ASSERT_TRUE(said && !said->ok());
  EXPECT_EQ(said->error().code, EBUSY);
  EXPECT_NE(said->error().action.find("demote"), std::string::npos);
  node_->engine->orders().demote([](const Result<std::string>&) {});
  node_->run(kSecond_ns);
  begin();
  EXPECT_TRUE(said->ok()) << said->error().what;
}

// The peer's answer, that it has recorded the session, is lost with it. What the two say of themselves afterwards is told
// long before the next one stands.
TEST_F(ResumptionTest, ASessionThatIsLostMeanwhileIsNoneThatItMissed) {
  meet(false, false);
  node_->run(kSecond_ns);
  ASSERT_FALSE(serves());
  part();
  sim::LinkFaults far;
  far.delay_min_ns = far.delay_max_ns = 60 * kMillisecond_ns;
  for (const LinkConfig& link : config_.links) node_->network.set_faults(link.name, far);
  meet(true, true);
  node_->run(kSecond_ns);
  EXPECT_FALSE(given_up_);
  EXPECT_TRUE(serves());
}

// One that runs has gone on alone by then, however long that takes, and whether it succeeds.
TEST_F(ResumptionTest, ItGoesOnAloneWhileThePeerTakesACopyFirst) {
  begin_with_something_to_send();
  meet(false, false);
  node_->run(kSecond_ns);
  ASSERT_EQ(node_->engine->inside().phase(), Phase::kMarking);
  ASSERT_FALSE(serves()) << "clients would read what a promotion there could take back";
  say_not_yet();
  node_->run(100 * kMillisecond_ns);
  EXPECT_TRUE(serves());
  EXPECT_TRUE(stands());
  EXPECT_NE(on_record().generations.current, record_.generations.current) << "a promotion there would show as a split";
  EXPECT_EQ(on_record().generations.base, record_.generations.current);
  EXPECT_EQ(node_->engine->status().mine.term, 2u) << "by the same promotion";
}

TEST_F(ResumptionTest, WhereClientsWaitForALostPeerTheyWaitForItsCopy) {
  config_.on_peer_loss = OnPeerLoss::kFreeze;
  begin_with_something_to_send();
  meet(false, false);
  node_->run(kSecond_ns);
  say_not_yet();
  node_->run(kSecond_ns);
  EXPECT_FALSE(serves());
  EXPECT_EQ(on_record().generations.current, record_.generations.current);
  node_->engine->orders().go_on_alone(false, [](const Result<std::string>&) {});
  say_not_yet();
  node_->run(kSecond_ns);
  EXPECT_TRUE(serves()) << "the operator lets it go on";
}

TEST_F(ResumptionTest, WhereThereIsAWitnessItConsentsBefore) {
  const auto entry = [this](uint64_t generation, const std::string& holder) {
    return WitnessEntry{metadata::format_uuid(record_.volume_uuid), generation, holder};
  };
  config_.witness.kind = WitnessKind::kEtcd;
  config_.witness.endpoints = {"http://10.0.0.3:2379"};
  witness_ = std::make_unique<WrittenWitness>();
  begin_with_something_to_send();
  witness_->reading = {entry(77, "beta"), 5};
  meet(false, false);
  node_->run(kSecond_ns);
  ASSERT_EQ(node_->engine->inside().phase(), Phase::kMarking);
  EXPECT_EQ(witness_->reads, 0) << "it may not be needed";
  say_not_yet();
  node_->run(kSecond_ns);
  EXPECT_GT(witness_->reads, 0);
  EXPECT_FALSE(serves()) << "it has not consented";
  witness_->reading = {entry(record_.generations.current, ""), 6};
  node_->run(5 * kSecond_ns);
  say_not_yet();
  node_->run(kSecond_ns);
  EXPECT_TRUE(serves());
  ASSERT_EQ(witness_->replacements.size(), 1u);
  EXPECT_EQ(on_record().generations.current, witness_->replacements[0].entry.generation);
}

// They would wait for it all the same, and it could not go on any more in this node's place.
TEST_F(ResumptionTest, WhereClientsWaitForALostPeerNoWitnessIsAskedInItsPlace) {
  config_.on_peer_loss = OnPeerLoss::kFreeze;
  begin_beside_register();
  node_->run(60 * kSecond_ns);
  EXPECT_TRUE(witness_->replacements.empty());
  EXPECT_EQ(on_record().claim, 0u);
  EXPECT_FALSE(serves());
  EXPECT_TRUE(node_->engine->status().mine.resumes);
  EXPECT_TRUE(node_->engine->status().resumes_with_peer);
  EXPECT_EQ(order_promotion(), "") << "an operator's order asks it";
  EXPECT_TRUE(serves());
  EXPECT_EQ(node_->engine->status().mine.term, 2u) << "by the same promotion";
}

// Clients were let go on there already, and what was acknowledged is nowhere else.
TEST_F(ResumptionTest, WhereClientsWaitForALostPeerTheWitnessIsAskedByWhoHadGoneOnAlone) {
  config_.on_peer_loss = OnPeerLoss::kFreeze;
  record_.generations.current = 12;
  record_.dirty = record_.all_dirty = true;
  begin_beside_register();
  for (int i = 0; i < 100 && !serves(); ++i) node_->run(kSecond_ns);
  EXPECT_TRUE(serves());
}

TEST_F(ResumptionTest, WhereClientsWaitForALostPeerItIsNotFenced) {
  config_.on_peer_loss = OnPeerLoss::kFreeze;
  begin_beside_fence();
  node_->run(60 * kSecond_ns);
  EXPECT_EQ(fence_.calls, 0);
  EXPECT_FALSE(serves());
}

// It hangs in the kernel, say, also when it has been killed. That it can't be run again yet is no word about the peer.
TEST_F(ResumptionTest, AFenceCommandThatStillRunsIsAskedAgain) {
  begin_beside_fence();
  for (int i = 0; i < 100 && fence_.calls < 3; ++i) node_->run(kSecond_ns);
  ASSERT_GE(fence_.calls, 3);
  EXPECT_FALSE(given_up_);
  fence_.says = 7;
  for (int i = 0; i < 100 && !serves(); ++i) node_->run(kSecond_ns);
  EXPECT_TRUE(serves());
  EXPECT_EQ(node_->engine->status().mine.term, 2u);
}

// Its replica may be the one that counts: nobody was served here, and nothing says that this one's flush is done.
TEST_F(ResumptionTest, APeerThatIsLostBeforeItSaysThatItWaitsIsNotPartedFrom) {
  begin_with_something_to_send();
  meet(false, false);
  node_->run(kSecond_ns);
  ASSERT_EQ(node_->engine->inside().phase(), Phase::kMarking);
  part();
  node_->run(2 * config_.peer_timeout_ns);
  EXPECT_FALSE(serves());
  EXPECT_EQ(on_record().generations.current, record_.generations.current);
}

// It has served nobody: its next process is to go on.
TEST_F(ResumptionTest, AProcessThatIsStoppedBeforeItServesGivesNothingUp) {
  meet(false, false);
  node_->run(kSecond_ns);
  ASSERT_FALSE(serves());
  stop(false);
  EXPECT_FALSE(given_up_);
}

// Nobody was promoted over this replica by a peer that knows nothing of it; but the one before may have been, so that an
// operator is waited for. The device goes on then.
TEST_F(ResumptionTest, APeerWithoutDataSaysNothingOfAPromotion) {
  peer_ = std::make_unique<HostilePeer>(*node_, "beta", record_);
  peer_->joins = false;
  peer_->take(HostilePeer::Stance::kBlank, 0, 0);
  node_->run(2 * config_.peer_timeout_ns);
  ASSERT_EQ(node_->engine->status().verdict, Verdict::kPeerNotJoinable);
  EXPECT_FALSE(serves());
  EXPECT_FALSE(given_up_);
  EXPECT_TRUE(node_->engine->status().mine.resumes);
  EXPECT_EQ(order_promotion(), "");
  EXPECT_TRUE(serves());
  EXPECT_EQ(node_->engine->status().mine.term, 2u) << "by the same promotion";
}

// Else it would confirm, in a later session, what it does not know.
TEST_F(ResumptionTest, OneThatIsFilledHereEndsIt) {
  meet_newcomer();
  EXPECT_TRUE(given_up_);
  EXPECT_FALSE(node_->engine->status().mine.resumes);
  EXPECT_EQ(on_record().promoted_boot, 0u) << "nor does a later process go on";
}

// What it had acknowledged alone is nowhere else.
TEST_F(ResumptionTest, BesideANewcomerItGoesOnIfItWasAlone) {
  begin_alone();
  meet_newcomer();
  node_->run(2 * config_.peer_timeout_ns);
  EXPECT_TRUE(serves());
  EXPECT_EQ(node_->engine->status().mine.term, 2u);
}

// Nor has a newcomer anything of it that was gone before it was marked.
TEST_F(ResumptionTest, WithoutANewcomerThatIsGoneItGoesOnIfItWasAlone) {
  begin_alone();
  meet_newcomer(false);
  peer_->vanish();
  node_->run(4 * config_.peer_timeout_ns);
  EXPECT_TRUE(serves());
}

TEST_F(ResumptionTest, ANewcomerThatIsPromotedEndsIt) {
  begin_alone();
  meet_newcomer();
  EXPECT_FALSE(given_up_);
  EXPECT_TRUE(node_->engine->status().mine.resumes);
  wire::FrameHeader ask = wire::to_header(wire::PromoteAskFrame{.question = 1, .term = 3});
  wire::set_order(ask, ++*peer_->control());
  peer_->send(0, wire::seal(ask, {}));
  node_->run(kSecond_ns);
  EXPECT_TRUE(given_up_);
  EXPECT_FALSE(node_->engine->status().mine.resumes);
}

// What was begun by itself is no promotion that anybody ordered.
TEST_F(ResumptionTest, ADemotionEndsWhatWasJustToGoOn) {
  begin_alone();
  peer_ = std::make_unique<HostilePeer>(*node_, "beta", record_);
  peer_->agrees = false;
  peer_->take(HostilePeer::Stance::kBlank, 0, 0);
  for (int i = 0; i < 100 && !node_->engine->inside().session_stands(); ++i) node_->run(100 * kMillisecond_ns);
  for (int i = 0; i < 200 && node_->engine->status().role != Role::kPromoting; ++i) node_->run(100 * kMillisecond_ns);
  ASSERT_EQ(node_->engine->status().role, Role::kPromoting);
  std::optional<bool> demoted;
  node_->engine->orders().demote([&demoted](const Result<std::string>& said) { demoted = said.ok(); });
  peer_->agree_to_promotion(0, 0);
  node_->run(kSecond_ns);
  EXPECT_EQ(demoted, true);
  EXPECT_EQ(node_->engine->status().role, Role::kSecondary);
  EXPECT_EQ(node_->engine->status().mine.term, 2u) << "no other promotion has begun";
}

// An attached device may need a while to find its node again, and the next process comes meanwhile.
TEST_F(ResumptionTest, AStopBeforeItsClientsAreBackIsNotForGood) {
  go_on();
  expect_that_a_stop_is_for_good(false);
}

TEST_F(ResumptionTest, AStopAfterItsClientsHaveLeftIsForGood) {
  go_on();
  come_and_go(record_.term);
  expect_that_a_stop_is_for_good(true);
}

TEST_F(ResumptionTest, WhoWritesIsAClientThatIsBackThoughItKnowsNoPromotion) {
  for (const ClientOp op : {ClientOp::kWrite, ClientOp::kZero}) {
    go_on();
    come_and_go(0, op);
    expect_that_a_stop_is_for_good(true);
    node_->engine.reset();
    peer_.reset();
    begin();
  }
}

// A monitor, nbdinfo, or a copy that is read: the device, or the guest, that waits may still come.
TEST_F(ResumptionTest, AClientThatKnowsNoPromotionIsNoneThatIsWaitedFor) {
  go_on();
  come_and_go(0);
  come_and_go(0, ClientOp::kRead);
  come_and_go(0, ClientOp::kFlush);
  expect_that_a_stop_is_for_good(false);
}

// They were there, and are to come back: a device that grows, say.
TEST_F(ResumptionTest, AStopBeforeThoseAreBackWhoWereHungUpOnIsNotForGood) {
  go_on();
  come_and_go(record_.term, ClientOp::kWrite);
  node_->engine->clients().hung_up_on();
  come_and_go(0, ClientOp::kWrite);  // another one, which works on
  expect_that_a_stop_is_for_good(false);
}

// Their device was taken away instead.
TEST_F(ResumptionTest, AStopLongAfterSomeWereHungUpOnIsForGood) {
  go_on();
  come_and_go(record_.term, ClientOp::kWrite);
  node_->engine->clients().hung_up_on();
  node_->run(limits::kHungUpAwaited_ns);
  expect_that_a_stop_is_for_good(true);
}

TEST_F(ResumptionTest, AStopAfterThoseHaveLeftWhoWereHungUpOnIsForGood) {
  go_on();
  node_->engine->clients().hung_up_on();
  come_and_go(record_.term);
  expect_that_a_stop_is_for_good(true);
}

// The process that finds it lost does not go on. The one after it finds nothing on record of a flush that failed.
TEST_F(ResumptionTest, WhatAFailedFlushLostLetsNoLaterProcessGoOnEither) {
  node_->engine.reset();
  record_.flush_failed = true;
  record_.generations.current = 12;
  record_.dirty = record_.all_dirty = true;
  begin(true);
  meet_newcomer();
  record_ = on_record();
  ASSERT_FALSE(record_.flush_failed);
  EXPECT_EQ(record_.promoted_boot, 0u);
  node_->engine.reset();
  peer_.reset();
  begin();
  node_->run(2 * config_.peer_timeout_ns);
  EXPECT_FALSE(serves());
}

// Nor is one of them promoted without a word, or tells the peer that it has all: that one may hold what was lost
// here, though this host has run all the time.
TEST_F(ResumptionTest, WhatAFailedFlushLostIsKnownToLaterProcesses) {
  for (const bool lost : {false, true}) {
    node_->engine.reset();
    record_.promoted_boot = kBoot;
    record_.peer_instance = 9;
    record_.flush_failed = lost;
    begin(true);
    node_->engine->orders().demote([](const Result<std::string>& said) { EXPECT_TRUE(said.ok()); });
    node_->run(kSecond_ns);
    record_ = on_record();
    ASSERT_TRUE(record_.primary && !record_.flush_failed);
    node_->engine.reset();
    begin();
    EXPECT_EQ(node_->engine->status().mine.rebooted, lost);
    EXPECT_EQ(node_->engine->status().promotion.forgot, lost);
    EXPECT_EQ(order_promotion().empty(), !lost);
  }
}

// It had followed the peer on this boot, and has lost some of that all the same.
TEST_F(ResumptionTest, AFollowerWhoseFailedFlushLostSomethingIsNotPromotedWithoutAWord) {
  for (const bool lost : {false, true}) {
    node_->engine.reset();
    record_.primary = false;
    record_.peer_primary = true;
    record_.followed_boot = kBoot;
    record_.flush_failed = lost;
    begin_beside_register();
    node_->engine.reset();
    begin(true);
    node_->run(limits::kLeaseMax_ns + config_.peer_timeout_ns);
    EXPECT_EQ(node_->engine->status().promotion.forgot, lost);
    EXPECT_EQ(order_promotion().empty(), !lost);
  }
}

TEST_F(ResumptionTest, ADemotionOfOneThatDoesNotGoOnIsKeptByTheNextProcess) {
  node_->engine.reset();
  config_.on_restart = OnRestart::kSecondary;
  begin();
  std::optional<Result<std::string>> said;
  node_->engine->orders().demote([&said](const Result<std::string>& result) { said = result; });
  node_->run(kSecond_ns);
  ASSERT_TRUE(said && said->ok());
  EXPECT_EQ(on_record().promoted_boot, 0u);
}

// It was frozen, say, while this node was promoted by the witness' consent.
TEST_F(ResumptionTest, AnOlderPrimaryThatIsAboutToYieldEndsNothing) {
  begin_alone();
  peer_ = std::make_unique<HostilePeer>(*node_, "beta", record_);
  peer_->take(HostilePeer::Stance::kOlder, 1, 1);
  for (int i = 0; i < 100 && node_->engine->status().verdict != Verdict::kPeerOutdated; ++i) node_->run(10 * kMillisecond_ns);
  ASSERT_EQ(node_->engine->status().verdict, Verdict::kPeerOutdated);
  node_->run(kSecond_ns);
  EXPECT_FALSE(given_up_);
  EXPECT_EQ(on_record().promoted_boot, kBoot);
  node_->run(60 * kSecond_ns);
  EXPECT_FALSE(serves()) << "there is no witness by which it would yield";
}

TEST_F(ResumptionTest, WhatThePeerSaysAgainstItHoldsForTheNextProcess) {
  begin_alone();
  peer_ = std::make_unique<HostilePeer>(*node_, "beta", record_);
  peer_->take(HostilePeer::Stance::kDiverged, 1, 3);
  for (int i = 0; i < 100 && !given_up_; ++i) node_->run(100 * kMillisecond_ns);
  ASSERT_TRUE(given_up_);
  node_->run(kSecond_ns);
  EXPECT_EQ(on_record().promoted_boot, 0u);
}

}  // namespace
}  // namespace twinblock::fuzz
