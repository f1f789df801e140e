// A node whose record is about another backing than the one that it has: it is judged as one whose flush failed and that does
// not know its set, which mirror_generation_test.cc has looked at in all cases, and has nothing to give without a word.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <utility>

#include "mirror/generation.h"

namespace twinblock {
namespace {

constexpr std::array kFlags{&SyncFacts::primary,     &SyncFacts::crashed,     &SyncFacts::backing_lost, &SyncFacts::inconsistent,
                            &SyncFacts::disk_failed, &SyncFacts::flush_failed, &SyncFacts::dirty,       &SyncFacts::map_valid};

SyncFacts node(unsigned flags, uint64_t current, uint64_t base) {
  SyncFacts facts;
  for (size_t i = 0; i < kFlags.size(); ++i) facts.*kFlags[i] = (flags >> i & 1u) != 0;
  facts.volume_uuid[0] = 1;
  facts.generations.current = current;
  facts.generations.base = base;
  if (current != base) facts.generations.history[0] = base;
  return facts;
}

bool may_lack_what_it_acknowledged(const SyncFacts& node, const SyncFacts& other) {
  return node.flush_failed || node.other_backing || died(node, other);
}

// What is judged of one whose flush failed, but for what nobody may decide without the operator.
Verdict expected(const SyncFacts& me, const SyncFacts& peer) {
  SyncFacts as_failed = me;
  as_failed.other_backing = false;
  as_failed.flush_failed = true;
  as_failed.map_valid = false;
  const bool same = me.generations.current == peer.generations.current;
  const bool by_doubt = same && !me.inconsistent && !peer.inconsistent && !me.primary && !peer.primary && !me.backing_lost &&
                        !peer.backing_lost;
  if (by_doubt && may_lack_what_it_acknowledged(peer, me)) return Verdict::kNoGoodCopy;
  const Verdict verdict = decide(as_failed, peer);
  if (me.primary) return verdict;
  const bool disk_of_target = verdict == Verdict::kPeerDiskFailed && !me.disk_failed;
  const bool is_the_source = is_source(decide(as_failed, [&] {
    SyncFacts with_disk = peer;
    with_disk.disk_failed = false;
    return with_disk;
  }()));
  return is_source(verdict) || (disk_of_target && is_the_source) ? Verdict::kNoGoodCopy : verdict;
}

TEST(OtherBacking, CountsAsOneThatMayLackAnythingWhereverThatMattersAndIsNoSource) {
  constexpr unsigned kAll = 1u << kFlags.size();
  for (const uint64_t mine : {7, 8})
    for (const uint64_t theirs : {7, 8, 9})
      for (unsigned flags = 0; flags < kAll * kAll; ++flags) {
        SyncFacts me = node(flags % kAll, mine, 7), peer = node(flags / kAll, theirs, 7);
        peer.preferred = true;
        me.other_backing = true;
        ASSERT_EQ(decide(me, peer), expected(me, peer)) << mine << " " << theirs << " " << flags;
        ASSERT_EQ(decide(peer, me), mirrored(decide(me, peer))) << mine << " " << theirs << " " << flags;
      }
}

TEST(OtherBacking, WhoseRecordIsAboutWhatItHasIsTheSourceInTheSameGeneration) {
  SyncFacts me = node(0, 7, 7), peer = node(0, 7, 7);
  me.map_valid = peer.map_valid = me.dirty = true;
  peer.preferred = true;
  EXPECT_EQ(decide(me, peer), Verdict::kSourceOfMap);
  me.other_backing = true;
  EXPECT_EQ(decide(me, peer), Verdict::kTargetOfAll);
  peer.other_backing = true;  // both hosts' disks were replaced by copies
  EXPECT_EQ(decide(me, peer), Verdict::kNoGoodCopy);
  me.primary = true;  // by the operator's word
  me.other_backing = false;
  EXPECT_EQ(decide(me, peer), Verdict::kSourceOfAll);
}

// Copied from, it would pass for what the record is about: what was acknowledged is on the right one.
TEST(OtherBacking, HasNothingToGiveWithoutAWord) {
  SyncFacts me = node(0, 8, 7), older = node(0, 7, 7), half_copied = node(0, 8, 7), blank;
  me.map_valid = older.map_valid = half_copied.map_valid = half_copied.inconsistent = true;
  blank.blank = blank.joinable = true;
  SyncFacts given_up = node(0, 9, 7);
  given_up.state_id = 5;
  SyncFacts keeps = me;
  keeps.keep = true;
  keeps.gives_up = given_up.state_id;
  for (const auto& [node, target] : {std::pair{me, older}, {me, half_copied}, {me, blank}, {keeps, given_up}}) {
    EXPECT_TRUE(is_source(decide(node, target)));
    SyncFacts doubted = node;
    doubted.other_backing = true;
    EXPECT_EQ(decide(doubted, target), Verdict::kNoGoodCopy);
    doubted.primary = true;
    EXPECT_TRUE(is_source(decide(doubted, target)));
  }
}

// Both hosts' files were moved, or copied: nobody is in doubt more than the other one, and nobody knows any set.
TEST(OtherBacking, WhereBothWereCopiedWithTheirRecordsTheseSayWhoIsTheSource) {
  constexpr unsigned kAll = 1u << kFlags.size();
  for (const uint64_t theirs : {7, 8})
    for (unsigned flags = 0; flags < kAll * kAll; ++flags) {
      SyncFacts me = node(flags % kAll, 8, 7), peer = node(flags / kAll, theirs, 7);
      me.map_valid = peer.map_valid = false;
      peer.preferred = true;
      const Verdict verdict = decide(me, peer);
      me.other_backing = peer.other_backing = me.moved_together = peer.moved_together = true;
      ASSERT_EQ(decide(me, peer), verdict) << theirs << " " << flags;
      ASSERT_EQ(decide(peer, me), mirrored(verdict)) << theirs << " " << flags;
    }
  SyncFacts me = node(0, 7, 7), peer = node(0, 7, 7);
  me.other_backing = peer.other_backing = peer.moved_together = true;
  EXPECT_EQ(decide(me, peer), Verdict::kNoGoodCopy) << "one of them alone";
}

// What is here may be a copy of what was current, with all that a primary has acknowledged before its host died.
TEST(OtherBacking, IsNotOverwrittenByOneThatMayLackWhatItAcknowledged) {
  SyncFacts me = node(0, 7, 7);
  me.other_backing = true;
  for (const auto flag : {&SyncFacts::crashed, &SyncFacts::flush_failed, &SyncFacts::other_backing}) {
    SyncFacts peer = node(0, 7, 7);
    EXPECT_EQ(decide(me, peer), Verdict::kTargetOfAll);
    peer.*flag = true;
    EXPECT_EQ(decide(me, peer), Verdict::kNoGoodCopy);
    me.dirty = true;
    EXPECT_EQ(decide(me, peer), Verdict::kNoGoodCopy);
    peer.primary = true;
    EXPECT_EQ(decide(me, peer), Verdict::kTargetOfAll) << "clients have seen its data";
  }
}

// A primary's process was killed, and its peer's was started again: the disks and the memory of that one hold all of it.
TEST(OtherBacking, IsTheTargetOfOneWhoseProcessAloneWasStartedAgain) {
  SyncFacts me = node(0, 7, 7), peer = node(0, 7, 7);
  me.crashed = me.other_backing = true;
  me.peer_instance = 8;
  me.peer_boot = peer.boot = 3;
  peer.instance = 9;
  EXPECT_EQ(decide(me, peer), Verdict::kTargetOfAll);
  peer.boot = 4;
  EXPECT_EQ(decide(me, peer), Verdict::kNoGoodCopy);
}

// Its host has lost what it acknowledged, and what holds that may be the other one's copy.
TEST(OtherBacking, NobodyWhoseHostWasStartedAnewGoesOnBesideIt) {
  SyncFacts me = node(0, 7, 7), peer = node(0, 7, 7);
  me.crashed = me.resumes = me.rebooted = true;
  me.term = 5;
  me.boot = 3;
  peer.instance = 8;
  EXPECT_TRUE(goes_on(me, peer)) << "both hosts";
  peer.other_backing = true;
  EXPECT_FALSE(goes_on(me, peer));
}

TEST(OtherBacking, NoPrimaryGoesOnWithWhatItDidNotWrite) {
  SyncFacts me = node(0, 7, 7), peer = node(0, 7, 7);
  me.crashed = me.resumes = me.map_valid = peer.map_valid = true;
  me.term = 5;
  EXPECT_TRUE(goes_on(me, peer));
  me.other_backing = true;
  EXPECT_FALSE(goes_on(me, peer));
  EXPECT_EQ(decide(me, peer), Verdict::kTargetOfAll);
}

}  // namespace
}  // namespace twinblock
