// decide(): over every combination of flags and every relation of two histories.
#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "mirror/generation.h"

namespace twinblock {
namespace {

using metadata::Generations;

Generations history(uint64_t current, uint64_t base, std::vector<uint64_t> older = {}) {
  Generations g;
  g.current = current;
  g.base = base;
  std::copy(older.begin(), older.end(), g.history.begin());
  return g;
}

struct Pair {
  const char* name;
  Generations mine, theirs;
  bool same_volume = true;
};

std::vector<Pair> pairs() {
  return {
      {"same", history(7, 7), history(7, 7)},
      {"same, one not settled", history(7, 5), history(7, 7, {5})},
      {"I am newer", history(7, 5), history(5, 5)},
      {"I am newer, twice alone", history(9, 5, {7}), history(5, 5)},
      {"the peer is newer", history(5, 5), history(7, 5)},
      {"I am much newer", history(9, 8, {7, 5}), history(5, 5)},
      {"the peer is much newer", history(5, 4), history(9, 8, {7, 5})},
      {"both moved on", history(7, 5), history(8, 5)},
      {"both moved on long ago", history(17, 16, {5}), history(18, 15, {5})},
      {"each is the other's base", history(7, 5), history(5, 7)},
      {"each is in the other's history", history(7, 6, {5}), history(5, 4, {7})},
      {"nothing in common", history(7, 6), history(9, 8)},
      {"other volumes", history(7, 7), history(7, 7), false},
  };
}

SyncFacts facts_of(unsigned bits, const Generations& generations, bool preferred) {
  SyncFacts facts;
  facts.blank = (bits & 1) != 0;
  facts.joinable = (bits & 2) != 0;
  facts.primary = (bits & 4) != 0;
  facts.crashed = (bits & 8) != 0;
  facts.inconsistent = (bits & 16) != 0;
  facts.disk_failed = (bits & 32) != 0;
  facts.dirty = (bits & 64) != 0;
  facts.map_valid = (bits & 128) != 0;
  facts.preferred = preferred;
  facts.generations = generations;
  facts.volume_uuid[0] = 1;
  return facts;
}

// Calls `check` for every pair of facts; decide() itself checks that exactly one row fits.
void for_all(
    const std::function<void(const SyncFacts&, const SyncFacts&, Verdict, const Pair&)>& check) {
  for (const Pair& pair : pairs())
    for (unsigned mine = 0; mine < 256; ++mine)
      for (unsigned theirs = 0; theirs < 256; ++theirs) {
        SyncFacts a = facts_of(mine, pair.mine, true);
        SyncFacts b = facts_of(theirs, pair.theirs, false);
        if (!pair.same_volume) b.volume_uuid[0] = 2;
        check(a, b, decide(a, b), pair);
        check(b, a, decide(b, a), pair);
        if (testing::Test::HasFailure()) return;
      }
}

std::string show(const SyncFacts& f) {
  std::string text;
  for (const auto& [set, name] : {std::pair{f.blank, " blank"},
                                  {f.joinable, " joinable"},
                                  {f.primary, " primary"},
                                  {f.crashed, " crashed"},
                                  {f.inconsistent, " inconsistent"},
                                  {f.disk_failed, " failed"},
                                  {f.dirty, " dirty"},
                                  {f.map_valid, " map"},
                                  {f.preferred, " preferred"}})
    if (set) text += name;
  return "[" + text + " ]";
}
#define SHOW pair.name << " me" << show(me) << " peer" << show(peer)

TEST(Generation, BothSidesReachMirroredVerdicts) {
  for_all([](const SyncFacts& me, const SyncFacts& peer, Verdict verdict, const Pair& pair) {
    ASSERT_EQ(mirrored(verdict), decide(peer, me)) << SHOW;
    ASSERT_EQ(mirrored(mirrored(verdict)), verdict);
    ASSERT_EQ(is_usable(verdict), is_usable(mirrored(verdict)));
  });
}

TEST(Generation, ASourceIsWholeAndCanBeRead) {
  for_all([](const SyncFacts& me, const SyncFacts& peer, Verdict verdict, const Pair& pair) {
    if (!is_source(verdict) && verdict != Verdict::kSoleCopy) return;
    ASSERT_FALSE(me.inconsistent || me.disk_failed || me.blank) << SHOW;
  });
}

TEST(Generation, APrimaryIsNeverOverwritten) {
  for_all([](const SyncFacts& me, const SyncFacts& peer, Verdict verdict, const Pair& pair) {
    if (me.primary) {
      ASSERT_FALSE(is_target(verdict) && !me.blank) << SHOW;
    }
    if (me.primary && !me.blank && !me.disk_failed && peer.primary && !peer.blank) {
      ASSERT_FALSE(is_usable(verdict) && verdict != Verdict::kSoleCopy) << SHOW;
    }
  });
}

TEST(Generation, ATargetsDiskWorks) {
  for_all([](const SyncFacts& me, const SyncFacts& peer, Verdict verdict, const Pair& pair) {
    if (is_target(verdict)) {
      ASSERT_FALSE(me.disk_failed) << SHOW;
    }
  });
}

TEST(Generation, InSyncMeansThatNobodyKnowsOfADifference) {
  for_all([](const SyncFacts& me, const SyncFacts& peer, Verdict verdict, const Pair& pair) {
    if (verdict != Verdict::kInSync) return;
    for (const SyncFacts* f : {&me, &peer})
      ASSERT_FALSE(f->blank || f->crashed || f->inconsistent || f->dirty || f->disk_failed ||
                   f->primary)
          << SHOW;
    ASSERT_EQ(me.generations.current, peer.generations.current) << SHOW;
    ASSERT_EQ(me.volume_uuid, peer.volume_uuid) << SHOW;
  });
}

TEST(Generation, AMapSufficesOnlyWhereItHoldsEveryDifference) {
  for_all([](const SyncFacts& me, const SyncFacts& peer, Verdict verdict, const Pair& pair) {
    if (verdict != Verdict::kSourceOfMap) return;
    ASSERT_TRUE(me.map_valid) << SHOW;
    ASSERT_FALSE(me.crashed || peer.crashed || peer.dirty || peer.blank) << SHOW;
    const uint64_t theirs = peer.generations.current;
    ASSERT_TRUE(theirs == me.generations.current || theirs == me.generations.base) << SHOW;
  });
}

TEST(Generation, TheNewerHistoryIsNeverOverwritten) {
  for_all([](const SyncFacts& me, const SyncFacts& peer, Verdict verdict, const Pair& pair) {
    if (me.blank || peer.blank || me.volume_uuid != peer.volume_uuid) return;
    const Generations& mine = me.generations;
    const uint64_t theirs = peer.generations.current;
    const bool i_know_theirs = theirs != mine.current && mine.knows(theirs);
    if (i_know_theirs && !peer.generations.knows(mine.current)) {
      ASSERT_FALSE(is_target(verdict)) << SHOW;
    }
  });
}

TEST(Generation, HistoriesThatDivergedNeverMeet) {
  for_all([](const SyncFacts& me, const SyncFacts& peer, Verdict verdict, const Pair& pair) {
    if (me.blank || peer.blank) return;
    if (!pair.same_volume) {
      ASSERT_EQ(verdict, Verdict::kUnrelated) << SHOW;
    }
    const std::string name = pair.name;
    if (name.starts_with("both moved on") || name.starts_with("each is")) {
      ASSERT_EQ(verdict, Verdict::kSplitBrain) << SHOW;
    }
    if (name == "nothing in common") {
      ASSERT_EQ(verdict, Verdict::kUnrelated) << SHOW;
    }
  });
}

TEST(Generation, TheSurvivorOfACrashIsTheSource) {
  for_all([](const SyncFacts& me, const SyncFacts& peer, Verdict verdict, const Pair& pair) {
    if (std::string(pair.name) != "same" || me.blank || peer.blank) return;
    if (me.inconsistent || peer.inconsistent || me.disk_failed || peer.disk_failed) return;
    if (me.primary || peer.primary || me.crashed || !peer.crashed) return;
    ASSERT_EQ(verdict, Verdict::kSourceOfAll) << SHOW;
  });
}

TEST(Generation, ABlankNodeJoinsOnlyWithPermission) {
  for_all([](const SyncFacts& me, const SyncFacts& peer, Verdict verdict, const Pair& pair) {
    if (me.blank && peer.blank) {
      ASSERT_EQ(verdict, Verdict::kWaitForInit) << SHOW;
    }
    if (me.blank && !peer.blank && !me.joinable) {
      ASSERT_EQ(verdict, Verdict::kNotJoinable) << SHOW;
    }
    if (me.blank && is_usable(verdict) && !me.primary) {
      ASSERT_EQ(verdict, Verdict::kTargetOfAll) << SHOW;
    }
  });
}

TEST(Generation, EveryVerdictIsExplained) {
  for (uint32_t code = 1; code <= static_cast<uint32_t>(Verdict::kOrdersContradict); ++code) {
    const auto verdict = static_cast<Verdict>(code);
    EXPECT_FALSE(explain(verdict, "beta").empty());
    EXPECT_EQ(explain(verdict, "beta").find('%'), std::string::npos);
    EXPECT_EQ(advise(verdict, "r0", "beta").find('%'), std::string::npos);
    if (!is_usable(verdict)) {
      EXPECT_FALSE(advise(verdict, "r0", "beta").empty()) << code;
    }
  }
}

}  // namespace
}  // namespace twinblock
