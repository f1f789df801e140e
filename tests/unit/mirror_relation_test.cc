// How two histories relate: the table over all its inputs, and what it is asked over all small
// generations.
#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "mirror/relation.h"

namespace twinblock {
namespace {

using metadata::Generations;

Relation mirror_image(Relation relation) {
  switch (relation) {
    case Relation::kIAmNewer:
      return Relation::kPeerIsNewer;
    case Relation::kPeerIsNewer:
      return Relation::kIAmNewer;
    case Relation::kIAmMuchNewer:
      return Relation::kPeerIsMuchNewer;
    case Relation::kPeerIsMuchNewer:
      return Relation::kIAmMuchNewer;
    default:
      return relation;
  }
}

// The same, said as a chain of questions instead of a table.
Relation expected(const Kinship& k) {
  if (k.same_volume == kNo) return Relation::kOtherVolume;
  if (k.same_current == kYes) return Relation::kSame;
  const bool i_know_theirs = ((k.base | k.history) & (kMe | kBoth)) != 0;
  const bool they_know_mine = ((k.base | k.history) & (kPeer | kBoth)) != 0;
  if (i_know_theirs && they_know_mine) return Relation::kDiverged;
  // As base and in the history at once: not so, by their definition.
  const bool twice = k.base != kNobody && k.history != kNobody;
  if (twice) return Relation::kDiverged;
  if (i_know_theirs) return k.base == kMe ? Relation::kIAmNewer : Relation::kIAmMuchNewer;
  if (they_know_mine) return k.base == kPeer ? Relation::kPeerIsNewer : Relation::kPeerIsMuchNewer;
  if (k.past == kSameBase) return Relation::kDivergedFromBase;
  return k.past == kSomePast ? Relation::kDiverged : Relation::kUnrelated;
}

TEST(Relation, EveryInputOfTheTableHasItsAnswer) {
  unsigned count = 0;
  for (const uint8_t volume : {kNo, kYes})
    for (const uint8_t current : {kNo, kYes})
      for (const uint8_t base : {kNobody, kMe, kPeer, kBoth})
        for (const uint8_t history : {kNobody, kMe, kPeer, kBoth})
          for (const uint8_t past : {kNoPast, kSomePast, kSameBase}) {
            const Kinship asked{volume, current, base, history, past};
            ASSERT_EQ(relate(asked), expected(asked))
                << +volume << " " << +current << " " << +base << " " << +history << " " << +past;
            ++count;
          }
  EXPECT_EQ(count, 2u * 2 * 4 * 4 * 3);
}

// All generations out of four numbers and none, with one entry of history.
std::vector<Generations> small_generations() {
  std::vector<Generations> all;
  for (unsigned n = 0; n < 125; ++n) {
    Generations g;
    g.current = n % 5;
    g.base = n / 5 % 5;
    g.history[3] = n / 25;
    all.push_back(g);
  }
  return all;
}

std::set<uint64_t> known(const Generations& g) {
  std::set<uint64_t> all(g.history.begin(), g.history.end());
  all.insert({g.current, g.base});
  all.erase(0);
  return all;
}

// Sets instead of tables. None is none: generation 0 equals nothing.
Relation relation_by_sets(const Generations& a, const Generations& b) {
  if (a.current == b.current && a.current != 0) return Relation::kSame;
  const bool i_know = known(a).contains(b.current);
  const bool they_know = known(b).contains(a.current);
  if (i_know && they_know) return Relation::kDiverged;
  if (i_know) return a.base == b.current ? Relation::kIAmNewer : Relation::kIAmMuchNewer;
  if (they_know) return b.base == a.current ? Relation::kPeerIsNewer : Relation::kPeerIsMuchNewer;
  if (a.base == b.base && a.base != 0) return Relation::kDivergedFromBase;
  for (const uint64_t generation : known(a))
    if (known(b).contains(generation)) return Relation::kDiverged;
  return Relation::kUnrelated;
}

TEST(Relation, OfAllSmallHistoriesIsRightAndMirrored) {
  for (const Generations& a : small_generations())
    for (const Generations& b : small_generations()) {
      const Relation relation = relate(kinship(a, b, true));
      ASSERT_EQ(relation, relation_by_sets(a, b))
          << a.current << "," << a.base << "," << a.history[3] << " and " << b.current << ","
          << b.base << "," << b.history[3];
      ASSERT_EQ(relate(kinship(b, a, true)), mirror_image(relation));
      ASSERT_EQ(relate(kinship(a, b, false)), Relation::kOtherVolume);
    }
}

// Of a node that was rolled back, and the source that had told it `told` (Generations::go_on_without): whatever the two
// knew, and wherever the source has gone since, neither passes for the past of the other, and no past that both
// share is lost.
TEST(Relation, WhoWasRolledBackHasDivergedFromItsSource) {
  for (const uint64_t before_current : {10, 11, 12})
    for (const uint64_t before_base : {9, 10, 11, 12})
      for (const uint64_t source_current : {11, 12, 13})
        for (const uint64_t source_base : {9, 10, 11, 12, 13})
          for (const bool went_on : {false, true}) {
            Generations before{before_current, before_base, {10, 9, 8}};
            Generations source{source_current, source_base, {11, 10, 9, 8}};
            const uint64_t told = source.current;
            if (went_on) source.advance(20);
            before.go_on_without(told, 30);
            EXPECT_EQ(before.current, 30u);
            EXPECT_FALSE(before.knows(told));
            const Relation relation = relate(kinship(before, source, true));
            EXPECT_TRUE(relation == Relation::kDiverged || relation == Relation::kDivergedFromBase)
                << before_current << " " << before_base << " " << source_current << " " << source_base << went_on;
          }
}

TEST(Relation, EveryEntryOfAHistoryCounts) {
  for (size_t i = 0; i < metadata::kHistoryEntries; ++i) {
    Generations mine, theirs;
    mine.current = 20;
    mine.base = 19;
    mine.history[i] = 7;
    theirs.current = 7;
    theirs.base = 6;
    EXPECT_EQ(relate(kinship(mine, theirs, true)), Relation::kIAmMuchNewer) << i;
    theirs.current = 8;
    EXPECT_EQ(relate(kinship(mine, theirs, true)), Relation::kUnrelated) << i;
    theirs.base = 7;
    EXPECT_EQ(relate(kinship(mine, theirs, true)), Relation::kDiverged) << i;
  }
}

}  // namespace
}  // namespace twinblock
