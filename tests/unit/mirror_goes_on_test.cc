// goes_on(): who was primary when its process ended, and may go on as that.
#include <gtest/gtest.h>

#include <array>

#include "mirror/generation.h"
#include "mirror/relation.h"

namespace twinblock {
namespace {

// Current, base, and one older.
using Three = std::array<uint64_t, 3>;

metadata::Generations history(const Three& from) {
  metadata::Generations g;
  g.current = from[0];
  g.base = from[1];
  g.history[0] = from[2];
  return g;
}

struct Pair {
  const char* name;
  Three mine, theirs;
  Relation relation;
};
constexpr std::array<Pair, 8> kPairs{{
    {"same", {7, 7, 0}, {7, 7, 0}, Relation::kSame},
    {"I am newer", {7, 5, 0}, {5, 5, 0}, Relation::kIAmNewer},
    {"I am much newer", {9, 8, 5}, {5, 5, 0}, Relation::kIAmMuchNewer},
    {"the peer is newer", {5, 4, 0}, {7, 5, 4}, Relation::kPeerIsNewer},
    {"the peer is much newer", {5, 4, 0}, {9, 8, 5}, Relation::kPeerIsMuchNewer},
    {"both moved on", {7, 5, 0}, {8, 5, 0}, Relation::kDivergedFromBase},
    {"nothing in common", {7, 6, 0}, {9, 8, 0}, Relation::kUnrelated},
    {"other volumes", {7, 7, 0}, {7, 7, 0}, Relation::kOtherVolume},
}};

// Every combination of what the rule looks at. Who goes on counts as primary; both sides see the same.
TEST(GoesOn, WhoWasPrimaryGoesOnOnlyWhereNobodyWasPromotedSince) {
  for (const Pair& pair : kPairs) {
    for (unsigned bits = 0; bits < 1024; ++bits) {
      SyncFacts a, b;
      a.generations = history(pair.mine);
      b.generations = history(pair.theirs);
      a.volume_uuid[0] = 1;
      b.volume_uuid[0] = pair.relation == Relation::kOtherVolume ? 2 : 1;
      a.preferred = true;
      a.map_valid = b.map_valid = true;
      a.crashed = a.resumes = bits & 1u;
      b.crashed = b.resumes = bits & 2u;
      a.primary = (bits & 4u) && !a.resumes;
      b.primary = (bits & 8u) && !b.resumes;
      b.inconsistent = bits & 16u;
      b.blank = bits & 32u;
      b.dirty = bits & 64u;
      a.term = 5;
      b.term = 4 + (bits >> 7u & 3u);  // 4 to 7
      // The hosts of both: this one's was started anew since, the other one's was not.
      a.rebooted = a.crashed && (bits & 512u);
      a.peer_boot = b.boot = 9;
      b.instance = 3;
      const bool peer_holds_more =
          a.rebooted && pair.relation == Relation::kSame && !b.inconsistent;
      const bool older_or_same = pair.relation == Relation::kSame ||
                                 pair.relation == Relation::kIAmNewer ||
                                 pair.relation == Relation::kIAmMuchNewer;
      EXPECT_EQ(goes_on(a, b),
                a.resumes && !b.blank && !b.primary && b.term < 5 && older_or_same && !peer_holds_more)
          << pair.name << bits;
      EXPECT_FALSE(goes_on(a, b) && goes_on(b, a)) << pair.name << bits;
      const Verdict verdict = decide(a, b);
      EXPECT_EQ(mirrored(verdict), decide(b, a)) << pair.name << bits;
      if (!goes_on(a, b)) continue;
      EXPECT_TRUE(is_source(verdict)) << pair.name << bits << " verdict " << static_cast<uint32_t>(verdict);
      SyncFacts as_primary = a;
      as_primary.primary = true;
      EXPECT_EQ(verdict, decide(as_primary, b)) << pair.name << bits;
    }
  }
}

// A primary whose host had lost its memory was promoted again without its peer, and its process ended before
// it had acknowledged anything: what the peer's memory still holds is not given up for that.
TEST(GoesOn, WhoseHostForgotGoesOnOnlyWhereThePeerHoldsNoMore) {
  const auto answer = [](const auto& change) {
    SyncFacts a, b;
    a.generations = b.generations = history({7, 7, 0});
    a.volume_uuid[0] = b.volume_uuid[0] = 1;
    a.map_valid = b.map_valid = true;
    a.crashed = a.resumes = a.rebooted = a.dirty = true;
    a.instance = 1;
    a.boot = 8;
    a.peer_instance = 2;  // its process has ended since
    a.peer_boot = b.boot = 9;
    b.instance = 3;
    a.term = 5;
    b.term = 4;
    change(a, b);
    const Verdict verdict = decide(a, b);
    EXPECT_EQ(mirrored(verdict), decide(b, a));
    EXPECT_TRUE(goes_on(a, b) ? is_source(verdict) : is_target(verdict));
    return goes_on(a, b);
  };
  EXPECT_FALSE(answer([](SyncFacts&, SyncFacts&) {}));
  EXPECT_FALSE(answer([](SyncFacts&, SyncFacts& b) { b.instance = 2; }));
  EXPECT_FALSE(answer([](SyncFacts&, SyncFacts& b) { b.crashed = b.resumes = true; }))
      << "the peer was the primary that died, and its host has all";
  EXPECT_TRUE(answer([](SyncFacts& a, SyncFacts&) { a.rebooted = false; }));
  EXPECT_TRUE(answer([](SyncFacts&, SyncFacts& b) { b.boot = 10; })) << "both forgot";
  EXPECT_TRUE(answer([](SyncFacts&, SyncFacts& b) { b.crashed = b.rebooted = true; }));
  EXPECT_TRUE(answer([](SyncFacts&, SyncFacts& b) { b.forgot = true; }));
  EXPECT_TRUE(answer([](SyncFacts&, SyncFacts& b) { b.inconsistent = true; }));
  EXPECT_TRUE(answer([](SyncFacts&, SyncFacts& b) { b.flush_failed = true; }));
  EXPECT_TRUE(answer([](SyncFacts&, SyncFacts& b) { b.backing_lost = true; }));
  EXPECT_TRUE(answer([](SyncFacts& a, SyncFacts&) { a.generations = history({8, 7, 0}); }))
      << "it has acknowledged something since";
}

}  // namespace
}  // namespace twinblock
