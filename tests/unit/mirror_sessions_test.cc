// decide() where a replica was put back to what it held before a session with the other one: what must hold, asked of
// every combination of what two nodes can say of themselves, but for orders.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <vector>

#include "mirror/generation.h"

namespace twinblock {
namespace {

constexpr uint64_t id(uint64_t n, uint64_t line = 0) { return n + 100 * line; }

struct Case {
  const char* name;
  metadata::Sessions mine, theirs;
  bool i_missed, both = false;
};
const std::array<Case, 10> kCases{{
    {"both were in the last one", {{id(4), id(3)}, 0}, {{id(4), id(3)}, 0}, false},
    {"one has begun on this side only", {{id(4), id(3)}, id(5)}, {{id(4), id(3)}, 0}, false},
    {"… again and again", {{id(4), id(3)}, id(9)}, {{id(4), id(3)}, 0}, false},
    {"the peer knows that it stood", {{id(3)}, id(4)}, {{id(4), id(3)}, 0}, false},
    {"neither knows that it stood", {{id(3)}, id(4)}, {{id(3)}, id(4)}, false},
    {"I was put back", {{id(3)}, 0}, {{id(4), id(3)}, 0}, true},
    {"… to when one had just begun", {{id(2)}, id(3)}, {{id(4), id(3), id(2)}, id(5)}, true},
    {"… to before all that the peer knows still", {{id(3)}, 0}, {{id(7), id(6)}, 0}, true, true},
    {"both were put back, and the peer got again what it had", {{id(4, 1), id(3)}, 0}, {{id(4), id(3)}, 0}, true, true},
    {"… and more", {{id(5, 1), id(4, 1), id(3)}, 0}, {{id(4), id(3)}, 0}, true, true},
}};

struct Histories {
  metadata::Generations mine, theirs;
  Relation relation;
};
const std::array<Histories, 6> kHistories{{{{7, 7, {}}, {7, 7, {}}, Relation::kSame},
                                          {{7, 5, {}}, {5, 5, {}}, Relation::kIAmNewer},
                                          {{5, 5, {}}, {7, 5, {}}, Relation::kPeerIsNewer},
                                          {{9, 8, {5}}, {5, 5, {}}, Relation::kIAmMuchNewer},
                                          {{5, 5, {}}, {9, 8, {5}}, Relation::kPeerIsMuchNewer},
                                          {{7, 5, {}}, {8, 5, {}}, Relation::kDivergedFromBase}}};

constexpr std::array kFlags{&SyncFacts::primary,     &SyncFacts::crashed,      &SyncFacts::backing_lost,
                            &SyncFacts::inconsistent, &SyncFacts::disk_failed, &SyncFacts::flush_failed,
                            &SyncFacts::dirty,        &SyncFacts::map_valid,   &SyncFacts::resumes};

std::vector<SyncFacts> all_flags() {
  std::vector<SyncFacts> all(size_t{1} << kFlags.size());
  for (size_t bits = 0; bits < all.size(); ++bits)
    for (size_t i = 0; i < kFlags.size(); ++i) all[bits].*kFlags[i] = (bits >> i & 1u) != 0;
  return all;
}

bool whole(const SyncFacts& node) {
  return !node.inconsistent && !node.backing_lost && !node.flush_failed && !node.disk_failed;
}

// Me, who was put back, and a peer that was not.
void check_put_back(const SyncFacts& me, const SyncFacts& peer, Relation by_generations) {
  const Verdict verdict = decide(me, peer);
  EXPECT_NE(verdict, Verdict::kInSync);
  EXPECT_NE(verdict, Verdict::kSourceOfMap) << "no set says what I lack";
  EXPECT_NE(verdict, Verdict::kTargetOfMap);
  EXPECT_FALSE(goes_on(me, peer));
  if (by_generations == Relation::kIAmNewer || by_generations == Relation::kIAmMuchNewer ||
      by_generations == Relation::kDivergedFromBase) {
    EXPECT_EQ(verdict, Verdict::kSplitBrain) << "I wrote alone without what the peer has acknowledged";
    EXPECT_TRUE(diverged(me, peer));
  }
  EXPECT_FALSE(is_source(verdict)) << "what I lack is nowhere but at the peer";
  const bool i_can_be_target = whole(peer) && !me.primary && !me.disk_failed;
  if (i_can_be_target && (by_generations == Relation::kSame || by_generations == Relation::kPeerIsNewer)) {
    EXPECT_EQ(verdict, Verdict::kTargetOfAll);
  }
}

TEST(Sessions, WhoWasPutBackIsComparedInFullAndIsNoSource) {
  const std::vector<SyncFacts> all = all_flags();
  for (const Case& sessions : kCases)
    for (const Histories& histories : kHistories)
      for (SyncFacts me : all) {
        me.generations = histories.mine;
        me.term = 2;
        me.instance = 5;
        me.preferred = true;
        for (SyncFacts peer : all) {
          peer.generations = histories.theirs;
          peer.term = 1;
          peer.instance = 6;
          me.sessions = peer.sessions = {};
          const Verdict without = decide(me, peer);
          me.sessions = sessions.mine;
          peer.sessions = sessions.theirs;
          ASSERT_EQ(missed_a_session(me, peer), sessions.i_missed) << sessions.name;
          ASSERT_EQ(missed_a_session(peer, me), sessions.both) << sessions.name;
          ASSERT_EQ(mirrored(decide(me, peer)), decide(peer, me)) << sessions.name;
          if (sessions.both)
            ASSERT_EQ(decide(me, peer), Verdict::kSplitBrain) << sessions.name;
          else if (sessions.i_missed)
            check_put_back(me, peer, histories.relation);
          else
            ASSERT_EQ(decide(me, peer), without) << sessions.name;
          if (testing::Test::HasFailure()) FAIL() << sessions.name << ", relation " << int(histories.relation);
        }
      }
}

TEST(Sessions, WhatThePeerHasOnRecordStood) {
  metadata::Sessions mine, theirs;
  mine.begin(id(1), theirs);
  theirs.begin(id(1), mine);
  theirs.stands(id(1));
  mine.begin(id(2), theirs);  // this node had not heard of it before the first was lost
  EXPECT_EQ(mine.stood[0], id(1));
  EXPECT_EQ(mine.begun, id(2));
  mine.begin(id(3), theirs);  // the second came up on this side only
  EXPECT_EQ(mine.stood[0], id(1));
  EXPECT_TRUE(mine.knows(id(2))) << "it may be about to be on the peer's record";
  mine.stands(id(3));
  mine.stands(id(3));
  EXPECT_EQ(mine.stood[0], id(3));
  EXPECT_EQ(mine.stood[1], id(1));
  EXPECT_EQ(mine.begun, 0u);
}

// The peer had recorded it, and was replaced before this node had heard so. Then it comes back.
TEST(Sessions, WhatStoodAtAReplicaThatIsAwayIsKnown) {
  metadata::Sessions mine{{id(1)}, id(2)};
  const metadata::Sessions away{{id(2), id(1)}, 0};
  mine.begin(id(3), {});
  mine.stands(id(3));
  EXPECT_EQ(mine.stood[0], id(3));
  EXPECT_TRUE(mine.knows(away.stood[0]));
  EXPECT_TRUE(mine.knows(id(1)));
  mine.begin(id(4), away);
  EXPECT_EQ(mine.stood[0], id(3)) << "it is older";
  mine.begin(id(5), away);
  mine.begin(id(6), away);
  EXPECT_TRUE(mine.knows(id(4))) << "it may have stood where somebody else is";
}

// A link that comes and goes, and nobody writes.
TEST(Sessions, InWhichNothingStoodTheyTakeNoRoomOfThoseThatDid) {
  metadata::Sessions mine, old{{id(1)}, 0}, theirs{{id(metadata::kSessionsStood)}, 0};
  for (uint64_t n = 1; n <= metadata::kSessionsStood; ++n) mine.stands(id(n));
  for (uint64_t n = 100; n < 200; ++n) mine.begin(id(n), theirs);
  EXPECT_TRUE(mine.knows(old.stood[0]));
  EXPECT_TRUE(mine.knows(id(198)));
  EXPECT_FALSE(mine.knows(id(150)));
  mine.begin(id(200), {{id(195)}, 0});
  for (uint64_t n = 201; n < 300; ++n) mine.begin(id(n), theirs);
  EXPECT_TRUE(mine.knows(id(195))) << "it did stand";
  EXPECT_EQ(mine.stood[0], id(metadata::kSessionsStood));
  mine.stands(id(195));
  EXPECT_EQ(mine.stood[0], id(195));
  EXPECT_EQ(mine.stood[1], id(metadata::kSessionsStood));
  EXPECT_EQ(mine.stood[2], id(199)) << "which may have stood at another replica; and each is there once";
}

// The target takes the list over as the source will have it: it has heeded what this node told of an earlier one.
TEST(Sessions, ACopyOfThePeersListIsWhatThePeerMakesOfIt) {
  const metadata::Sessions source{{id(1)}, id(2)}, target{{id(2), id(1)}, 0};
  metadata::Sessions at_source = source, at_target = source;
  at_source.begin(id(3), target);
  at_target.begin(id(3), target);
  at_target.stands(id(3));
  EXPECT_EQ(at_source.stood[0], id(2));
  EXPECT_TRUE(at_target.knows(at_source.stood[0]));
  EXPECT_TRUE(at_source.knows(at_target.stood[0]));
}

}  // namespace
}  // namespace twinblock
