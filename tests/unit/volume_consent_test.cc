// A node that is promoted without its peer asks the witness: an engine on virtual parts, and an entry that is told and
// replaced by hand.
#include <cerrno>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "volume_consent_support.h"

namespace twinblock::fuzz {
namespace {

TEST_F(ConsentTest, AKnownEntryIsReplacedByTheClaim) {
  begin();
  order();
  EXPECT_TRUE(promoted());
  ASSERT_EQ(witness_.replacements.size(), 1u);
  EXPECT_EQ(witness_.replacements[0].revision, 5);
  EXPECT_EQ(witness_.replacements[0].entry.holder, "alpha");
  EXPECT_NE(witness_.replacements[0].entry.generation, kGeneration);
}

TEST_F(ConsentTest, AnEntryOfTheOtherOneRefuses) {
  witness_.reading = {entry(kClaim, "beta"), 5};
  begin();
  order();
  EXPECT_FALSE(promoted());
  EXPECT_TRUE(witness_.replacements.empty());
}

// What is to be done about its answer changes when the peer comes, and the answer stays.
TEST_F(ConsentTest, WhoIsConnectedIsNotToBeStartedByAnOldAnswer) {
  record_.generations.history[0] = kGeneration - 1;  // it has had a partner
  witness_.reading = {std::nullopt, 5};
  begin();
  order();
  EXPECT_FALSE(promoted());
  EXPECT_EQ(node_->engine->status().witness.action,
            "start twinblockd on beta or mend the link; the witness is told when both nodes hold the same");
  witness_.replaces = false;
  meet();
  ASSERT_EQ(node_->engine->status().witness.standing, WitnessStanding::kLost) << "it was not told yet";
  EXPECT_EQ(node_->engine->status().witness.action, "");
}

// The answer to an earlier question was lost. The peer may have read that entry as well, and have its own replacement
// under way: by the new revision it comes too late.
TEST_F(ConsentTest, ItsOwnClaimIsPutThereAnew) {
  record_.claim = kClaim;
  witness_.reading = {entry(kClaim, "alpha"), 5};
  begin();
  order();
  EXPECT_TRUE(promoted());
  ASSERT_EQ(witness_.replacements.size(), 1u);
  EXPECT_EQ(witness_.replacements[0].revision, 5);
  EXPECT_EQ(witness_.replacements[0].entry, entry(kClaim, "alpha"));
  EXPECT_EQ(witness_.reading.revision, 6);
}

// Asked is the peer then, not the witness.
TEST_F(ConsentTest, AQuestionForAPromotionEndsWhenThePeerIsBack) {
  begin();
  witness_.answers_after_ns = kLong_ns;
  order();
  node_->run(kSecond_ns);
  EXPECT_FALSE(promoted_.has_value()) << "it waits for the witness";
  meet();
  EXPECT_FALSE(promoted());
  EXPECT_GT(heard_[wire::FrameType::kSettings], 0) << "the peer hears what it is told";
  EXPECT_EQ(heard_[wire::FrameType::kRole], 0) << "of a promotion that the peer was never told of";
  witness_.answers_after_ns = kMillisecond_ns;
  node_->run(2 * kLong_ns);
  // Nor is it asked again for that promotion when the peer is lost.
  witness_.replaces = false;
  peer_->vanish();
  node_->run(2 * kLong_ns);
  EXPECT_FALSE(node_->engine->is_primary());
  for (const auto& each : witness_.replacements) EXPECT_EQ(each.entry.holder, "") << "the right to go on alone";
}

// What is recorded of a promotion that was given up says nothing of the next one.
TEST_F(ConsentTest, TheRecordOfAnotherPromotionMakesNobodyPrimary) {
  name_ = "beta";  // of two that are being promoted, the other one's counts
  begin();
  witness_.asked_to_replace = [this] { node_->metadata.hung_until_ns = node_->scheduler.now_ns() + kLong_ns; };
  order();
  node_->run(kSecond_ns);
  ASSERT_FALSE(witness_.replacements.empty());
  EXPECT_FALSE(promoted_.has_value()) << "the metadata disk hangs";
  meet();
  peer_asks();
  EXPECT_FALSE(promoted());
  part();
  witness_.answers_after_ns = 100 * kLong_ns;
  promoted_.reset();
  order({true});  // by the operator's word that the peer is dead: of the witness it says nothing
  node_->run(2 * kLong_ns);
  EXPECT_FALSE(node_->engine->is_primary()) << "the witness has not answered";
  EXPECT_FALSE(promoted_.value_or(false));
}

// That both are together is put there only beside what was read just before: what stood there long ago may be gone, and
// its revision may come again.
TEST_F(ConsentTest, WhatWasReadLongAgoIsReadAnew) {
  witness_.reading = {entry(kClaim, "beta"), 5};  // which had gone on alone, and is back
  config_.peer_timeout_ns = config_.link_timeout_ns = 10 * kSecond_ns;
  begin();
  meet([](HostilePeer& peer) {
    peer.beats = false;
    peer.settings.reset();
  });
  node_->run(100 * kMillisecond_ns);
  ASSERT_EQ(witness_.reads, 1);
  witness_.reading = {std::nullopt, 0};  // it has lost all that it knew
  node_->run(2 * kSecond_ns);
  ASSERT_TRUE(node_->engine->inside().session_stands());
  EXPECT_TRUE(witness_.replacements.empty()) << "the peer has not said that it is there";
  peer_->beats = true;
  node_->run(5 * kSecond_ns);
  ASSERT_FALSE(witness_.replacements.empty());
  for (const auto& each : witness_.replacements) EXPECT_EQ(each.revision, 0);
}

// This node reads by itself for as long as the peer has told that it waits.
TEST_F(ConsentTest, WhoDoesNotTellHowLongItWaitsIsPartedFrom) {
  begin();
  meet([](HostilePeer& peer) { peer.settings.reset(); });
  for (uint64_t ns = 0; ns < 2 * config_.disk_timeout_ns && node_->engine->inside().session_stands(); ns += kMillisecond_ns)
    node_->run(kMillisecond_ns);
  EXPECT_FALSE(node_->engine->inside().session_stands());
  EXPECT_NE(node_->engine->status().session_error.find("has not told its peer_timeout"), std::string::npos);
}

TEST_F(ConsentTest, WhoHasToldHowLongItWaitsIsKept) {
  begin();
  meet();
  for (uint64_t ns = 0; ns < 2 * config_.disk_timeout_ns; ns += 100 * kMillisecond_ns) {
    node_->run(100 * kMillisecond_ns);
    ASSERT_TRUE(node_->engine->inside().session_stands());
  }
}

// A promotion that the peer has agreed to waits for nothing but its own record.
TEST_F(ConsentTest, WhatALostSessionHadBroughtIsNothingToAPromotionThatIsBeingRecorded) {
  begin();
  meet();
  node_->run(kSecond_ns);
  const auto flush = [this](uint64_t request) {
    peer_->send(0, wire::seal(wire::to_header(wire::FlushFrame{request}), {}));
    node_->run(10 * kMillisecond_ns);
  };
  flush(1);  // that there is flushed data is on record from then on
  node_->data.hung_until_ns = node_->scheduler.now_ns() + kLong_ns / 2;
  flush(2);
  node_->metadata.hung_until_ns = node_->scheduler.now_ns() + kLong_ns;
  order();
  node_->run(kSecond_ns);
  ASSERT_GT(heard_[wire::FrameType::kPromoteAsk], 0);
  part();
  witness_.answers_after_ns = 100 * kLong_ns;
  node_->run(kLong_ns / 2);
  meet();
  EXPECT_FALSE(promoted_.has_value()) << "the metadata disk hangs";
  node_->run(kLong_ns);
  ASSERT_TRUE(promoted());
  EXPECT_TRUE(node_->engine->is_primary());
}

// The operator's word for a promotion that has come to nothing is recorded late.
TEST_F(ConsentTest, TheWordForAnotherPromotionSaysNothingOfThisOne) {
  begin();
  node_->metadata.hung_until_ns = node_->scheduler.now_ns() + kLong_ns;
  order({true, true});
  node_->run(kSecond_ns);
  EXPECT_FALSE(promoted_.has_value()) << "the metadata disk hangs";
  meet();
  EXPECT_FALSE(promoted());
  part();
  witness_.answers_after_ns = 2 * kLong_ns;
  promoted_.reset();
  order({true});
  node_->run(kLong_ns);
  EXPECT_FALSE(promoted_.has_value()) << "the witness has not answered yet";
  node_->run(4 * kLong_ns);
  EXPECT_TRUE(promoted());
}

// Nor does a witness that could not be asked then.
TEST_F(ConsentTest, AnEarlierQuestionThatFailsIsNoAnswerToThisOne) {
  begin();
  witness_.fails = true;
  witness_.answers_after_ns = kLong_ns;
  order();
  node_->run(kSecond_ns);
  meet();
  EXPECT_FALSE(promoted());
  part();
  witness_.fails = false;
  witness_.answers_after_ns = kMillisecond_ns;
  promoted_.reset();
  order({true});
  node_->run(2 * kLong_ns);
  EXPECT_TRUE(promoted());
}

// The word counts until the witness was told of it, and not of one before it.
TEST_F(ConsentTest, WhatWasToldOfAnEarlierWordIsNotToldOfThisOne) {
  begin();
  witness_.asked_to_replace = [this] { witness_.answers_after_ns = kLong_ns; };
  order({true, true});
  ASSERT_TRUE(promoted());
  write();  // in the generation that the witness is about to be told
  ASSERT_EQ(written_, 0);
  meet();
  node_->run(5 * kSecond_ns);
  part();
  written_.reset();
  write();
  node_->engine->orders().go_on_alone(true, [](const Result<std::string>& said) { EXPECT_TRUE(said.ok()); });
  node_->run(kSecond_ns);
  ASSERT_EQ(written_, 0);
  ASSERT_EQ(witness_.replacements.size(), 1u) << "it has not answered the first question";
  witness_.asked_to_replace = nullptr;
  witness_.answers_after_ns = kMillisecond_ns;
  node_->run(2 * kLong_ns);
  ASSERT_GT(witness_.replacements.size(), 1u);
  EXPECT_EQ(witness_.reading.entry->holder, "alpha");
  EXPECT_NE(witness_.reading.entry->generation, witness_.replacements[0].entry.generation) << "which the peer has";
}

// A node that can't record it itself has the witness know who holds the only copy, before it goes on with that.
TEST_F(ConsentTest, AnEarlierQuestionThatFailsLetsNobodyGoOnWithThePeersCopy) {
  ASSERT_NO_FATAL_FAILURE(become_primary());
  witness_.fails = true;
  witness_.answers_after_ns = kLong_ns;
  node_->data.error = node_->metadata.error = EIO;
  node_->data.failures = node_->metadata.failures = 1000;
  write();
  EXPECT_FALSE(written_.has_value()) << "the witness has not answered";
  part();
  meet();
  node_->run(kSecond_ns);
  witness_.fails = false;
  witness_.answers_after_ns = 2 * kLong_ns;
  written_.reset();
  write();
  node_->run(kLong_ns);
  EXPECT_FALSE(written_.has_value()) << "what the witness was asked now it has not answered";
  node_->run(10 * kLong_ns);
  EXPECT_EQ(written_, 0);
}

// A primary whose disk stands still promises nothing: the peer may go on in its place, so that it is in nobody's way.
TEST_F(ConsentTest, WhoWaitsForItsDiskLeavesTheWitnessToThePeer) {
  ASSERT_NO_FATAL_FAILURE(become_primary());
  ASSERT_EQ(witness_.reading.entry, entry(kGeneration, ""));
  node_->data.tells = true;
  node_->data.hung_until_ns = node_->scheduler.now_ns() + 2 * kLong_ns;
  write();
  node_->run(config_.disk_timeout_ns - 5 * kSecond_ns);
  EXPECT_TRUE(node_->engine->inside().session_stands()) << "it has its time";
  node_->run(10 * kSecond_ns);
  EXPECT_FALSE(node_->engine->inside().session_stands());
  node_->run(kLong_ns);
  EXPECT_FALSE(node_->engine->inside().session_stands()) << "the peer could not be promoted beside it";
  EXPECT_EQ(witness_.reading.entry, entry(kGeneration, "")) << "the peer may have it";
  EXPECT_FALSE(written_.has_value());
  node_->run(kLong_ns);
  EXPECT_TRUE(node_->engine->inside().session_stands()) << "its disk gets on";
  EXPECT_EQ(written_, 0);
}

// What was put there in an earlier session may have been replaced since, by a peer that wanted to go on and did not.
TEST_F(ConsentTest, WhatWasAgreedOnInAnEarlierSessionIsLookedAtAnew) {
  witness_.reading = {entry(kClaim, "beta"), 5};
  witness_.at_once = true;
  uint64_t answered_ns = 0;
  witness_.asked_to_replace = [&] {
    witness_.answers_after_ns = kLong_ns / 2;
    answered_ns = node_->scheduler.now_ns() + kLong_ns / 2;
  };
  begin();
  meet();
  node_->run(2 * kSecond_ns);
  ASSERT_EQ(witness_.reading.entry, entry(kGeneration, ""));
  part();
  witness_.reading = {entry(kClaim, "beta"), witness_.reading.revision + 1};
  witness_.asked_to_replace = nullptr;
  witness_.answers_after_ns = kMillisecond_ns;
  meet();
  ASSERT_GT(answered_ns, node_->scheduler.now_ns());
  node_->run(answered_ns + 3 * kSecond_ns - node_->scheduler.now_ns());
  EXPECT_EQ(witness_.reading.entry, entry(kGeneration, "")) << "if beta died now, this node could not go on";
}

// It asks for no consent, and the peer may get it and be promoted: also what reads from its disk beside the loop waits,
// until the peer is back.
TEST_F(ConsentTest, AFrozenPrimaryReadsNothingThatThePeerMayHaveReplaced) {
  config_.on_peer_loss = OnPeerLoss::kFreeze;
  begin();
  meet();
  order();
  ASSERT_TRUE(promoted());
  const auto may_read = [this] { return node_->engine->worker_view().local_reads(*node_->clock); };
  EXPECT_TRUE(may_read());
  EXPECT_FALSE(node_->engine->status().reads_wait);
  part();
  EXPECT_FALSE(may_read());
  node_->run(kLong_ns);
  EXPECT_FALSE(may_read());
  EXPECT_TRUE(node_->engine->status().reads_wait);
  meet();
  node_->run(kSecond_ns);
  EXPECT_TRUE(may_read());
}

// It has no replica to go on with itself, and its peer went on: what its clients wait for does not come any more.
TEST_F(ConsentTest, APrimaryWithoutItsDiskYieldsToThePeerThatWentOn) {
  ASSERT_NO_FATAL_FAILURE(become_primary());
  node_->data.error = EIO;
  node_->data.failures = 1000000;
  write();
  node_->run(kLong_ns);
  ASSERT_EQ(node_->engine->volume_state(), VolumeState::kDiskless);
  part();
  written_.reset();
  write();
  node_->run(kLong_ns);
  EXPECT_FALSE(written_.has_value()) << "the peer may be back with all that it had";
  // Nor has it anything to go on with by an operator's word, which would only keep that peer from going on.
  const size_t told = witness_.replacements.size();
  for (const bool without_witness : {false, true})
    node_->engine->orders().go_on_alone(without_witness, [](const Result<std::string>& said) { EXPECT_FALSE(said.ok()); });
  node_->run(kLong_ns);
  EXPECT_EQ(witness_.replacements.size(), told);
  record_.generations = node_->engine->status().mine.generations;
  record_.generations.advance(kClaim);  // … but that was promoted, by the witness' consent
  peer_.reset();
  peer_ = std::make_unique<HostilePeer>(*node_, "beta", record_);
  peer_->asks_register = true;
  peer_->take(HostilePeer::Stance::kNewer, 1, 5);
  node_->run(kLong_ns);
  EXPECT_FALSE(node_->engine->is_primary());
  EXPECT_NE(written_.value_or(0), 0) << "its clients are cut off";
}

// Nobody else lets clients go on when the peer is gone.
TEST_F(ConsentTest, AWitnessThatWasAwayForLongIsAskedSoon) {
  ASSERT_NO_FATAL_FAILURE(become_primary());
  witness_.fails = true;
  part();
  write();
  node_->run(10 * kLong_ns);
  ASSERT_FALSE(written_.has_value());
  witness_.fails = false;
  node_->run(limits::kWitnessPauseMax_ns + 2 * kSecond_ns);
  EXPECT_EQ(written_, 0);
}

TEST_F(ConsentTest, OthersWhoAreAlwaysQuickerAreNotRacedForEver) {
  witness_.asked_to_replace = [this] { ++witness_.reading.revision; };
  begin();
  order();
  EXPECT_FALSE(promoted());
  EXPECT_EQ(witness_.replacements.size(), size_t{limits::kWitnessRacesMax});
}

TEST_F(ConsentTest, AWitnessThatRefusesIsLeftAloneForAWhile) {
  ASSERT_NO_FATAL_FAILURE(become_primary());
  witness_.reading = {entry(kClaim, "beta"), 7};  // which has gone on
  part();
  node_->run(kSecond_ns);
  ASSERT_EQ(node_->engine->status().witness.standing, WitnessStanding::kRefused);
  const int before = witness_.reads;
  node_->run(kLong_ns);
  EXPECT_GT(witness_.reads, before);
  EXPECT_LE(witness_.reads - before, static_cast<int>(kLong_ns / limits::kWitnessRefusedPause_ns));
}

// The word lasts until the witness was told, in this process. A later one does not know who has asked the witness
// meanwhile, which still names what the peer has, too.
TEST_F(ConsentTest, AWordThatTheWitnessWasNotToldIsNoConsentForALaterProcess) {
  begin();
  witness_.fails = true;
  const auto restart = [this] {
    record_ = on_record();
    node_->engine.reset();
    begin();
    promoted_.reset();
  };
  order({true, true});
  ASSERT_TRUE(promoted());
  write();
  ASSERT_EQ(written_, 0);
  node_->run(kLong_ns);
  written_.reset();
  write();
  ASSERT_EQ(written_, 0) << "as long as this process lives";
  restart();
  order({true, false});
  EXPECT_FALSE(promoted());
  promoted_.reset();
  order({true, true});
  ASSERT_TRUE(promoted());
  witness_.fails = false;
  node_->run(kLong_ns);
  EXPECT_EQ(witness_.reading.entry, entry(node_->engine->status().mine.generations.current, "alpha")) << "it is told";
  witness_.fails = true;
  restart();
  order({true, false});
  EXPECT_TRUE(promoted()) << "whom the witness names needs nobody";
}

// It went on alone by consent, and then lost its power: the peer has nothing of what was acknowledged since.
TEST_F(ConsentTest, WhoWentOnAloneNeedsNoWordAboutThePeersMemory) {
  record_.generations.advance(kClaim);
  record_.named = kClaim;
  record_.primary = record_.dirty = true;
  record_.boot = 1;
  record_.peer_instance = 7;
  witness_.reading = {entry(kClaim, "alpha"), 6};
  begin();
  order();
  EXPECT_TRUE(promoted());
}

// A claim that nobody could record would be taken for the peer's later on, and nothing could be promised by it. The peer has
// all, and may be promoted.
TEST_F(ConsentTest, WhoseMetadataDiskFailsIsInNobodysWay) {
  ASSERT_NO_FATAL_FAILURE(become_primary());
  witness_.replacements.clear();
  node_->metadata.error = EIO;
  node_->metadata.failures = 1000000;
  part();
  write();
  node_->run(kLong_ns);
  for (const auto& each : witness_.replacements) EXPECT_NE(each.entry.holder, "alpha");
  EXPECT_FALSE(written_.has_value()) << "what the peer has is good, and it may come back";
}

TEST_F(ConsentTest, AWordThatCanNotBeRecordedIsRefusedForGood) {
  begin();
  node_->metadata.error = EIO;
  node_->metadata.failures = 1000000;
  std::optional<Retry> refused;
  node_->engine->orders().promote({true, true}, [&refused](const Result<std::string>& said) {
    if (!said.ok()) refused = said.error().retry;
  });
  node_->run(kSecond_ns);
  EXPECT_EQ(refused, Retry::kWhenMended);
}

// A promoter asks again and again, and a witness that is gone answers none of it.
TEST_F(ConsentTest, AWordWithoutTheWitnessWaitsForNoQuestionToIt) {
  begin();
  witness_.answers_after_ns = 100 * kLong_ns;
  std::optional<std::string> refused;
  node_->engine->orders().promote({}, [&refused](const Result<std::string>& said) {
    refused = said.ok() ? "" : said.error().what;
  });
  node_->run(kSecond_ns);
  ASSERT_FALSE(refused) << "it waits for the witness";
  order({true, true});
  EXPECT_TRUE(promoted());
  EXPECT_EQ(refused, "an order that does without the witness took its place");
  write();
  EXPECT_EQ(written_, 0);
}

// Whoever says it twice gets two answers, and is primary.
TEST_F(ConsentTest, AWordWithoutTheWitnessDoesNotTakeThePlaceOfAnother) {
  begin();
  node_->metadata.hung_until_ns = node_->scheduler.now_ns() + kSecond_ns;
  order({true, true});
  node_->run(100 * kMillisecond_ns);
  ASSERT_FALSE(promoted_.has_value()) << "the metadata disk hangs";
  std::optional<bool> second;
  node_->engine->orders().promote({true, true}, [&second](const Result<std::string>& said) { second = said.ok(); });
  EXPECT_EQ(second, false);
  EXPECT_TRUE(promoted());
}

}  // namespace
}  // namespace twinblock::fuzz
