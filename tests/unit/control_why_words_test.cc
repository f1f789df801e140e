// What `why` says, and the reasons of resyncs.
#include "control/why_words.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "control/resync_words.h"
#include "status_view_support.h"

namespace twinblock {
namespace {

StatusView alone() { return alpha_in(VolumeState::kWaiting); }

bool says(const StatusView& view, const std::string& words) {
  const std::vector<std::string> lines = why_words(view);
  return std::any_of(lines.begin(), lines.end(), [&words](const std::string& line) {
    return line.find(words) != std::string::npos;
  });
}

TEST(WhyWords, TheStateComesFirstAndWhatToDoLast) {
  const std::vector<std::string> lines = why_words(alone());
  ASSERT_GE(lines.size(), 3u);
  EXPECT_EQ(lines.front(), "Secondary, without a session with beta.");
  EXPECT_TRUE(lines.back().starts_with("Start twinblockd on beta")) << lines.back();
}

TEST(WhyWords, TheEndOfTheLastSessionIsTold) {
  StatusView view = alone();
  EXPECT_TRUE(says(view, "no session with beta since this process started"));
  view.lost_wall_ns = 1;
  view.loss_reason = "beta is silent";
  EXPECT_TRUE(says(view, ": beta is silent."));
}

TEST(WhyWords, ASetOfEveryBlockIsNotTakenForWrites) {
  StatusView view = alone();
  view.size_bytes = 48ull << 20;
  view.verdict = Verdict::kSplitBrain;
  view.mine.map_valid = true;
  view.mine.generations = {.current = 2, .base = 1};
  view.mine.dirty_bytes = 4ull << 20;
  view.peer.facts = view.mine;
  view.peer.facts->generations.current = 3;
  EXPECT_TRUE(says(view, "this node has 4 MiB in blocks written since"));
  view.peer.facts->dirty_bytes = view.size_bytes;  // it was rolled back
  EXPECT_TRUE(says(view, "beta has writes, if any, in blocks that differ, at most 48 MiB"));
  EXPECT_TRUE(says(view, "this node has writes, if any, in blocks that differ, at most 48 MiB"))
      << "nor is what it sent before known any more";
}

// The half-copied one of two nodes of which neither is primary is refused a promotion, the other one is not.
TEST(WhyWords, InAResyncEachNodeIsToldWhenItMayBePromoted) {
  for (const bool target : {false, true}) {
    StatusView view = alone();
    view.state = VolumeState::kResync;
    view.role = Role::kSecondary;
    view.peer.role = PeerRole::kSecondary;
    view.peer.connected = true;
    view.resync.active = true;
    (target ? view.resync.target : view.resync.source) = true;
    view.promotable = !target;
    EXPECT_EQ(says(view, "to promote this node afterwards, `twinblock wait r0 --for promotable"), target);
    EXPECT_EQ(says(view, "may be promoted meanwhile"), !target);
  }
}

// It counts for nothing until both nodes know it.
TEST(WhyWords, AWitnessThatIsOffIsNotSaidToBeAsked) {
  StatusView view = alone();
  view.promotion.peer_is_primary = true;
  view.witness.kind = WitnessKind::kEtcd;
  view.witness.standing = WitnessStanding::kUnasked;
  ASSERT_TRUE(says(view, "asks the witness"));
  view.witness.standing = WitnessStanding::kOff;
  EXPECT_FALSE(says(view, "asks the witness"));
  EXPECT_TRUE(says(view, "(--peer-is-dead) would lose nothing that both nodes acknowledged, but every write"));
}

TEST(WhyWords, WhatAPromotionWouldLoseIsTold) {
  StatusView view = alone();
  EXPECT_TRUE(says(view, "would lose nothing that it knows of."));
  view.mine.crashed = true;
  EXPECT_TRUE(says(view, "beta may have been promoted since"));
  view.promotion.forgot = true;
  EXPECT_TRUE(says(view, "(--peer-is-dead) would lose what it had acknowledged as primary"));
  view.promotion.peer_is_primary = true;
  EXPECT_TRUE(says(view, "every write that beta accepted alone"));
  view.verdict = Verdict::kSplitBrain;
  view.peer.facts.emplace();
  EXPECT_TRUE(says(view, "its own side of the split brain"));
  view.promotion.refusal = "this replica is half-copied";
  EXPECT_TRUE(says(view, "can't be promoted now: this replica is half-copied."));
  view.role = Role::kPrimary;
  EXPECT_TRUE(says(view, "This node is primary"));
}

// Both nodes had acknowledged it, and this one has it no more.
TEST(WhyWords, WhatASecondarysHostForgotIsNotSaidToBeKept) {
  StatusView view = alone();
  view.promotion.forgot = view.promotion.peer_is_primary = true;
  EXPECT_TRUE(says(view, "(--peer-is-dead) would lose what beta had acknowledged and not flushed"));
  EXPECT_TRUE(says(view, "and every write that beta accepted alone since"));
  EXPECT_FALSE(says(view, "would lose nothing"));
  // It is asked by that order, too, and does not agree where there were any.
  view.witness.kind = WitnessKind::kEtcd;
  view.witness.standing = WitnessStanding::kUnasked;
  EXPECT_TRUE(says(view, "would lose what beta had acknowledged and not flushed"));
  EXPECT_FALSE(says(view, "accepted alone"));
}

// It shoots the host that holds them.
TEST(WhyWords, AFenceCommandKnowsNothingOfWhatWasWrittenAlone) {
  StatusView view = alone();
  view.promotion.peer_is_primary = true;
  view.witness.kind = WitnessKind::kCommand;
  view.witness.name = "/usr/local/bin/power-off";
  view.witness.standing = WitnessStanding::kUnasked;
  for (const bool forgot : {false, true}) {
    view.promotion.forgot = forgot;
    EXPECT_FALSE(says(view, "nothing that was acknowledged would be lost"));
    EXPECT_TRUE(says(view, "every write that beta accepted alone"));
    EXPECT_TRUE(says(view, "the fence command /usr/local/bin/power-off is run first, against beta) would lose"));
    EXPECT_EQ(says(view, "(--peer-is-dead; the fence command"), forgot) << "else no word is needed";
  }
  view.witness.standing = WitnessStanding::kOff;
  EXPECT_FALSE(says(view, "fence command"));
}

TEST(WhyWords, WhoWasRolledBackIsPromotedByAWordThatWorks) {
  StatusView view = alone();
  view.way_back.rolled_back_to_s = 1'795'637'463;
  EXPECT_TRUE(says(view, "(--peer-is-dead) would serve what it was at"));
  view.witness.kind = WitnessKind::kEtcd;
  view.witness.standing = WitnessStanding::kRefused;
  EXPECT_TRUE(says(view, "(--peer-is-dead --without-witness) would serve what it was at"));
  view.witness.standing = WitnessStanding::kOff;
  EXPECT_TRUE(says(view, "(--peer-is-dead) would serve what it was at"));
}

TEST(WhyWords, ABlankNodeIsNotSpokenOfAsPromotable) {
  StatusView view = alone();
  view.state = VolumeState::kBlank;
  view.mine.blank = true;
  EXPECT_FALSE(says(view, "Promoting"));
}

SyncFacts holds(uint64_t dirty_bytes) {
  SyncFacts facts;
  facts.dirty_bytes = dirty_bytes;
  return facts;
}

TEST(ResyncWords, TheTargetIsNamedOnBothNodes) {
  SyncFacts source = holds(8192), target = holds(4096);
  target.crashed = true;
  const std::string said = "beta stopped as primary without demotion. 8 KiB is on the source's "
                           "record of what may differ, 4 KiB on beta's; regions known only "
                           "coarsely are compared before they are copied.";
  EXPECT_EQ(resync_words(cause_of(Verdict::kSourceOfMap, source, target), "alpha", "beta"), said);
  EXPECT_EQ(resync_words(cause_of(Verdict::kTargetOfMap, target, source), "beta", "alpha"), said);
}

TEST(ResyncWords, WhatHoldsNothingIsNotCompared) {
  SyncFacts target = holds(0);
  EXPECT_TRUE(cause_of(Verdict::kSourceOfAll, holds(0), target).compared);
  target.flush_failed = true;
  EXPECT_FALSE(cause_of(Verdict::kSourceOfMap, holds(0), target).compared);
  EXPECT_FALSE(cause_of(Verdict::kSourceOfAll, holds(0), target).compared);
  target.blank = true;
  EXPECT_EQ(resync_words(cause_of(Verdict::kSourceOfAll, holds(0), target), "alpha", "beta"),
            "beta is new. The whole volume is copied.");
}

TEST(ResyncWords, TheFirstCauseThatHoldsIsNamed) {
  SyncFacts source, target;
  const auto why = [&] { return cause_of(Verdict::kSourceOfMap, source, target).why; };
  EXPECT_EQ(why(), ResyncCause::Why::kTargetWasAway);
  source.crashed = true;
  EXPECT_EQ(why(), ResyncCause::Why::kSourceCrashed);
  target.crashed = true;
  EXPECT_EQ(why(), ResyncCause::Why::kTargetCrashed);
  target.inconsistent = true;
  EXPECT_EQ(why(), ResyncCause::Why::kTargetIsUnfinished);
  target.flush_failed = true;
  EXPECT_EQ(why(), ResyncCause::Why::kTargetFlushFailed);
  source.keep = true;
  EXPECT_EQ(why(), ResyncCause::Why::kSplitBrainResolved);
  target.backing_lost = true;
  EXPECT_EQ(why(), ResyncCause::Why::kTargetFoundEmpty);
  target.blank = true;
  EXPECT_EQ(why(), ResyncCause::Why::kTargetIsNew);
}

TEST(WhyWords, APromotionBesideAPrimaryIsSaidToBeOne) {
  StatusView view = alone();
  view.verdict = Verdict::kSplitBrain;
  view.peer.facts.emplace();
  EXPECT_TRUE(says(view, "without what beta wrote."));
  view.peer.facts->primary = true;
  EXPECT_TRUE(says(view, "without what beta wrote, and beside beta, which is primary."));
}

// With the peer away nothing else would keep an operator, or a cluster manager, from serving a wrong disk.
TEST(WhyWords, AnotherBackingThanTheRecordsIsNotPromotedForNothing) {
  StatusView view = alone();
  EXPECT_FALSE(says(view, "--peer-is-dead"));
  view.mine.other_backing = view.promotion.forgot = true;
  view.backing = "/d";
  const std::vector<std::string> lines = why_words(view);
  EXPECT_NE(lines.front().find("/d is another file or disk"), std::string::npos) << lines.front();
  EXPECT_EQ(lines.front().find("started anew"), std::string::npos) << lines.front();
  EXPECT_TRUE(says(view, "Promoting this node now (--peer-is-dead) would serve what is here"));
  EXPECT_FALSE(says(view, "would lose nothing"));
  EXPECT_NE(lines.back().find("--peer-is-dead: twinblock promote r0"), std::string::npos) << lines.back();
}

}  // namespace
}  // namespace twinblock
