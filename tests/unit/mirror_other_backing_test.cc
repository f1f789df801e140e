// A node whose record is about another backing than the one that it has: it is judged as one whose flush failed and that does
// not know its set, which mirror_generation_test.cc has looked at in all cases.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>

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

TEST(OtherBacking, CountsAsOneThatMayLackAnythingWhereverThatMatters) {
  constexpr unsigned kAll = 1u << kFlags.size();
  for (const uint64_t mine : {7, 8})
    for (const uint64_t theirs : {7, 8, 9})
      for (unsigned flags = 0; flags < kAll * kAll; ++flags) {
        SyncFacts me = node(flags % kAll, mine, 7), peer = node(flags / kAll, theirs, 7);
        peer.preferred = true;
        SyncFacts as_failed = me;
        me.other_backing = true;
        as_failed.flush_failed = true;
        as_failed.map_valid = false;
        ASSERT_EQ(decide(me, peer), decide(as_failed, peer)) << mine << " " << theirs << " " << flags;
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
  EXPECT_EQ(decide(me, peer), Verdict::kSourceOfAll);
}

// What it acknowledged alone nobody else has, if it is a copy.
TEST(OtherBacking, OneOfANewerGenerationIsTheSourceOfAll) {
  SyncFacts me = node(0, 8, 7), peer = node(0, 7, 7);
  me.map_valid = peer.map_valid = me.other_backing = true;
  EXPECT_EQ(decide(me, peer), Verdict::kSourceOfAll);
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
