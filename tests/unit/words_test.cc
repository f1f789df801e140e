// What users are told in more than one place: of verdicts, and of a backing without data.
#include <gtest/gtest.h>

#include <utility>

#include "words/backing_words.h"
#include "words/verdict_words.h"

namespace twinblock {
namespace {

TEST(VerdictWords, SayOfEachWhatItIsAndWhatToDo) {
  for (uint32_t code = wire::kVerdictFirst; code <= wire::kVerdictLast; ++code) {
    const auto verdict = static_cast<Verdict>(code);
    EXPECT_FALSE(explain(verdict, "beta").empty());
    EXPECT_EQ(explain(verdict, "beta").find('%'), std::string::npos);
    EXPECT_EQ(advise(verdict, "r0", "beta").find('%'), std::string::npos);
    if (!is_usable(verdict)) {
      EXPECT_FALSE(advise(verdict, "r0", "beta").empty()) << code;
    }
    if (is_split_brain(verdict)) {
      EXPECT_NE(explain(verdict, "beta").find("split brain"), std::string::npos) << code;
    }
  }
}

// The two nodes' verdicts on one trouble send the operator to the same host.
TEST(VerdictWords, NameTheNodeOnWhichItIsToBeDone) {
  for (const auto& [of_peer, own] : {std::pair(Verdict::kPeerNotJoinable, Verdict::kNotJoinable),
                                     std::pair(Verdict::kPeerOutdated, Verdict::kOutdated),
                                     std::pair(Verdict::kPeerDiskFailed, Verdict::kDiskFailed),
                                     std::pair(Verdict::kPeerMustDemote, Verdict::kMustDemote),
                                     std::pair(Verdict::kPeerJoinVoid, Verdict::kJoinVoid)}) {
    const std::string there = advise(of_peer, "r0", "beta");
    const std::string here = advise(own, "r0", "beta");
    EXPECT_NE(there.find("on beta"), std::string::npos) << there;
    EXPECT_EQ(there.find(" here"), std::string::npos) << there;
    EXPECT_NE(here.find(" here"), std::string::npos) << here;
    EXPECT_EQ(here.find("on beta"), std::string::npos) << here;
  }
}

// Whoever stopped the other one would stop the only node with a disk.
TEST(VerdictWords, WhoCanNotGoOnIsStoppedAndTheOtherOnePromoted) {
  EXPECT_TRUE(advise(Verdict::kCantGoOn, "r0", "beta")
                  .starts_with("stop twinblockd here, then run `twinblock promote r0 --peer-is-dead` on beta"));
  EXPECT_TRUE(advise(Verdict::kPeerCantGoOn, "r0", "beta")
                  .starts_with("stop twinblockd on beta, then run `twinblock promote r0 --peer-is-dead` here"));
}

// Whoever replaced it as advised would throw away what nobody else has.
TEST(VerdictWords, ADiskThatFailsIsKeptWhereItAloneHoldsWhatCounts) {
  SyncFacts whole, fails;
  for (SyncFacts* each : {&whole, &fails}) {
    each->volume_uuid[0] = 1;
    each->map_valid = true;
    each->generations.current = each->generations.history[0] = 7;
  }
  fails.disk_failed = true;
  const auto advice = [&](bool here) {
    const SyncFacts &mine = here ? fails : whole, &theirs = here ? whole : fails;
    const Verdict verdict = decide(mine, theirs);
    EXPECT_EQ(verdict, here ? Verdict::kDiskFailed : Verdict::kPeerDiskFailed);
    const std::string said = explain(verdict, mine, theirs, "beta") + "; " + advise(verdict, mine, theirs, "r0", "beta");
    EXPECT_EQ(said.find('%'), said.npos) << said;
    return said;
  };
  for (const bool here : {true, false}) {
    EXPECT_NE(advice(here).find("replace the disk"), std::string::npos) << advice(here);
    // Its data's, or its metadata's: a hello does not tell.
    EXPECT_NE(advice(here).find(here ? "`twinblock status r0` here" : "`twinblock status r0` on beta"), std::string::npos)
        << advice(here);
  }
  fails.primary = fails.dirty = true;
  for (const bool here : {true, false}) {
    EXPECT_EQ(advice(here).find("replace the disk"), std::string::npos) << advice(here);
    EXPECT_NE(advice(here).find(here ? "keep this disk" : "keep the disk of beta"), std::string::npos) << advice(here);
    EXPECT_NE(advice(here).find("--peer-is-dead"), std::string::npos) << advice(here);
  }
  whole.asks_register = true;
  EXPECT_EQ(advice(true).find("--without-witness"), std::string::npos) << "only one of them asks: " << advice(true);
  fails.asks_register = true;  // an etcd, which names the one whose disk fails
  for (const bool here : {true, false})
    EXPECT_NE(advice(here).find("`twinblock promote r0 --peer-is-dead --without-witness`"), std::string::npos) << advice(here);
  whole.inconsistent = true;  // in the middle of a copy
  for (const bool here : {true, false}) {
    EXPECT_NE(advice(here).find(here ? "beta is half-copied" : "this node is half-copied"), std::string::npos) << advice(here);
    EXPECT_NE(advice(here).find(here ? "keep this disk" : "keep the disk of beta"), std::string::npos) << advice(here);
    EXPECT_EQ(advice(here).find("promote"), std::string::npos) << "it would be refused: " << advice(here);
  }
}

// A primary gave its disk up, and the peer's failed before it could stand in: nobody is half-copied, nor is a backup needed.
TEST(VerdictWords, OfTwoDisksThatFailedTogetherSayThatBothAreToBeKept) {
  SyncFacts primary, other;
  for (SyncFacts* each : {&primary, &other}) {
    each->volume_uuid[0] = 1;
    each->map_valid = each->disk_failed = true;
    each->generations.current = each->generations.history[0] = 7;
  }
  primary.primary = primary.inconsistent = true;
  const auto said = [&](bool here) {
    const SyncFacts &mine = here ? primary : other, &theirs = here ? other : primary;
    const Verdict verdict = decide(mine, theirs);
    EXPECT_EQ(verdict, here ? Verdict::kPeerDiskFailed : Verdict::kDiskFailed);
    return explain(verdict, mine, theirs, "beta") + "; " + advise(verdict, mine, theirs, "r0", "beta");
  };
  for (const bool here : {true, false}) {
    EXPECT_NE(said(here).find("the disks of both nodes fail"), std::string::npos) << said(here);
    EXPECT_NE(said(here).find("keep the disks of both nodes"), std::string::npos) << said(here);
    EXPECT_EQ(said(here).find("half-copied"), std::string::npos) << said(here);
    EXPECT_EQ(said(here).find("backup"), std::string::npos) << said(here);
  }
  other.generations.advance(8);  // it has recorded that it stands in
  for (const bool here : {true, false}) {
    const std::string first = here ? "restart twinblockd on beta first" : "restart twinblockd here first";
    EXPECT_NE(said(here).find("keep the disks of both nodes"), std::string::npos) << said(here);
    EXPECT_NE(said(here).find(first), std::string::npos) << said(here);
    EXPECT_EQ(said(here).find("half-copied"), std::string::npos) << said(here);
  }
  other.term = primary.term + 1;  // it was promoted: the first one has to follow it
  for (const bool here : {true, false}) EXPECT_EQ(said(here).find("first"), std::string::npos) << said(here);
}

TEST(VerdictWords, OfASplitBrainNameTheCommandThatEndsIt) {
  const std::string advice = advise(Verdict::kSplitBrain, "r0", "beta");
  EXPECT_NE(advice.find("twinblock resolve r0 --keep local"), std::string::npos) << advice;
  EXPECT_NE(advice.find("--keep peer"), std::string::npos) << advice;
}

TEST(BackingWords, SayWhatIsKnown) {
  EXPECT_EQ(lost_words(DataFound::kNone, "/d"), "/d holds nothing but zeroes although it held data");
  EXPECT_NE(lost_words(DataFound::kUnknown, "/d").find("as far as it was read in 10"), std::string::npos);
  EXPECT_NE(unseen_words("/d").find("not all of it was read"), std::string::npos);
}

TEST(BackingWords, AReplicaWhoseDataAreGoneIsNotThrownAwayFirst) {
  SyncFacts lost, other;
  lost.backing_lost = true;
  for (const bool here : {true, false}) {
    const SyncFacts &mine = here ? lost : other, &theirs = here ? other : lost;
    const std::string said = explain(Verdict::kNoGoodCopy, mine, theirs, "beta");
    const std::string advice = advise(Verdict::kNoGoodCopy, mine, theirs, "r0", "beta");
    EXPECT_NE(said.find(here ? "this node's backing holds" : "beta's backing holds"), std::string::npos) << said;
    EXPECT_LT(advice.find("right disk"), advice.find("metadata")) << advice;
    EXPECT_LT(advice.find("--peer-is-dead"), advice.find("metadata")) << advice;
    EXPECT_EQ(said.find('%'), std::string::npos);
    EXPECT_EQ(advice.find('%'), std::string::npos);
  }
  SyncFacts half_copied = lost;
  half_copied.inconsistent = true;
  EXPECT_EQ(explain(Verdict::kNoGoodCopy, half_copied, other, "beta"), explain(Verdict::kNoGoodCopy, "beta"));
  EXPECT_EQ(explain(Verdict::kUnrelated, lost, other, "beta"), explain(Verdict::kUnrelated, "beta"));
  EXPECT_NE(explain(Verdict::kNoGoodCopy, lost, lost, "beta").find("backings of both nodes hold nothing"), std::string::npos);
}

TEST(BackingWords, OneWhoseRecordIsAboutAnotherBackingIsToldHowItCounts) {
  SyncFacts doubted, whole, half_copied, blank;
  doubted.other_backing = true;
  half_copied.inconsistent = true;
  blank.blank = true;
  for (const SyncFacts& other : {whole, half_copied, blank, doubted})
    for (const bool here : {true, false}) {
      const SyncFacts &mine = here ? doubted : other, &theirs = here ? other : doubted;
      const std::string said = explain(Verdict::kNoGoodCopy, mine, theirs, "beta");
      const std::string advice = advise(Verdict::kNoGoodCopy, mine, theirs, "r0", "beta");
      EXPECT_TRUE(said.starts_with(other.other_backing ? "the backings of both nodes are other"
                                   : here              ? "this node's backing is another"
                                                       : "beta's backing is another"))
          << said;
      EXPECT_LT(advice.find("right disk"), advice.find("twinblock promote r0 --peer-is-dead")) << advice;
      const bool can_be_filled = !other.inconsistent && !other.blank && !other.other_backing;
      EXPECT_EQ(advice.find("init r0 --join") != std::string::npos, can_be_filled) << advice;
      EXPECT_EQ((said + advice).find('%'), std::string::npos);
    }
}

}  // namespace
}  // namespace twinblock
