// decide(): what must hold, asked of every combination of what two nodes can say of themselves, for
// each relation that two histories can have.
#include <gtest/gtest.h>

#include <array>
#include <fstream>
#include <string>
#include <vector>

#include "mirror/generation.h"
#include "mirror/relation.h"

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
  Relation relation;
};

const std::vector<Pair>& pairs() {
  static const std::vector<Pair> all{
      {"same", history(7, 7), history(7, 7), Relation::kSame},
      {"same, one not settled", history(7, 5), history(7, 7, {5}), Relation::kSame},
      {"I am newer", history(7, 5), history(5, 5), Relation::kIAmNewer},
      {"I am newer, twice alone", history(9, 5, {7}), history(5, 5), Relation::kIAmNewer},
      {"the peer is newer", history(5, 4), history(7, 5, {4}), Relation::kPeerIsNewer},
      {"I am much newer", history(9, 8, {7, 5}), history(5, 5), Relation::kIAmMuchNewer},
      {"the peer is much newer", history(5, 4), history(9, 8, {7, 5}), Relation::kPeerIsMuchNewer},
      {"both moved on", history(7, 5), history(8, 5), Relation::kDivergedFromBase},
      {"both moved on, one twice", history(9, 5, {7}), history(8, 5), Relation::kDivergedFromBase},
      {"both moved on long ago", history(17, 16, {5}), history(18, 15, {5}), Relation::kDiverged},
      {"each is the other's base", history(7, 5), history(5, 7), Relation::kDiverged},
      {"each is in the other's history", history(7, 6, {5}), history(5, 4, {7}),
       Relation::kDiverged},
      {"my base, but I am its history", history(7, 5), history(5, 5, {7}), Relation::kDiverged},
      {"nothing in common", history(7, 6), history(9, 8), Relation::kUnrelated},
      {"no generation at all", history(0, 0), history(0, 0), Relation::kUnrelated},
      {"other volumes", history(7, 7), history(7, 7), Relation::kOtherVolume},
  };
  return all;
}

struct Flag {
  const char* name;
  bool SyncFacts::*field;
};
// The last two come last, so that all combinations without them are the first ones.
constexpr std::array<Flag, 12> kFlags{{{"primary", &SyncFacts::primary},
                                       {"crashed", &SyncFacts::crashed},
                                       {"lost", &SyncFacts::backing_lost},
                                       {"half-copied", &SyncFacts::inconsistent},
                                       {"disk-failed", &SyncFacts::disk_failed},
                                       {"flush-failed", &SyncFacts::flush_failed},
                                       {"dirty", &SyncFacts::dirty},
                                       {"knows-its-set", &SyncFacts::map_valid},
                                       {"discard", &SyncFacts::discard},
                                       {"keep", &SyncFacts::keep},
                                       {"blank", &SyncFacts::blank},
                                       {"joinable", &SyncFacts::joinable}}};
constexpr unsigned kCombinations = 1u << kFlags.size();
constexpr unsigned kCombinationsWithMetadata = kCombinations / 4;

// (But for a failed flush beside orders, which have nothing to do with each other: for time's sake.)
std::vector<SyncFacts> all_flags(unsigned combinations) {
  std::vector<SyncFacts> all;
  for (unsigned bits = 0; bits < combinations; ++bits) {
    SyncFacts facts;
    for (size_t i = 0; i < kFlags.size(); ++i) facts.*kFlags[i].field = (bits >> i & 1u) != 0;
    facts.volume_uuid[0] = 1;
    if (!facts.flush_failed || (!facts.discard && !facts.keep)) all.push_back(facts);
  }
  return all;
}

// One side's view of one input.
struct View {
  const SyncFacts& me;
  const SyncFacts& peer;
  Relation relation;  // as this side sees it
  Verdict verdict, theirs;

  bool blank() const { return me.blank || peer.blank; }
  bool diverged() const {
    return !blank() && (relation == Relation::kDiverged || relation == Relation::kDivergedFromBase);
  }
  // I am blank, and was ordered to join a volume that is not the peer's.
  bool joins_another() const {
    return me.volume_uuid != metadata::Uuid{} && me.volume_uuid != peer.volume_uuid;
  }
  bool same() const { return !blank() && relation == Relation::kSame; }
  bool disks_work() const { return !me.disk_failed && !peer.disk_failed; }
  bool give_up_mine() const { return gives_itself_up(me) || gives_up(peer, me); }
  bool give_up_theirs() const { return gives_itself_up(peer) || gives_up(me, peer); }
  bool ordered() const { return me.discard || me.keep || peer.discard || peer.keep; }
  // Nobody is primary, half-copied, or lost, and neither is believed more than the other.
  bool both_whole() const {
    return same() && disks_work() && !me.primary && !peer.primary && !me.inconsistent &&
           !peer.inconsistent && !me.backing_lost && !peer.backing_lost &&
           me.flush_failed == peer.flush_failed;
  }
  bool i_died() const { return died(me, peer); }
  bool peer_died() const { return died(peer, me); }
  bool i_am_later() const { return me.term != peer.term ? me.term > peer.term : me.preferred; }
};

bool gave_its_replica_up(const SyncFacts& node) { return node.primary && node.disk_failed && node.inconsistent; }

// What the verdict becomes when one side's statement is another one.
Verdict without(const View& v, void (*change)(SyncFacts&)) {
  SyncFacts me = v.me, peer = v.peer;
  change(me);
  change(peer);
  return decide(me, peer);
}

Verdict as_all(Verdict verdict) {
  if (verdict == Verdict::kSourceOfMap) return Verdict::kSourceOfAll;
  return verdict == Verdict::kTargetOfMap ? Verdict::kTargetOfAll : verdict;
}

struct Property {
  const char* sentence;
  bool (*applies)(const View&);
  bool (*holds)(const View&);
};

const Property kProperties[] = {
    {"both sides reach mirrored verdicts", [](const View&) { return true; },
     [](const View& v) {
       return mirrored(v.verdict) == v.theirs && is_usable(v.verdict) == is_usable(v.theirs) &&
              is_source(v.verdict) == is_target(v.theirs);
     }},
    {"a source is whole and can be read",
     [](const View& v) { return is_source(v.verdict) || v.verdict == Verdict::kSoleCopy; },
     [](const View& v) { return !v.me.inconsistent && !v.me.disk_failed && !v.me.blank; }},
    {"an empty backing is not copied over data",
     [](const View& v) { return is_source(v.verdict) && v.me.backing_lost && !v.me.primary; },
     [](const View& v) { return v.peer.blank || v.peer.backing_lost; }},
    {"a primary is never overwritten", [](const View& v) { return is_target(v.verdict); },
     [](const View& v) { return !v.me.primary; }},
    {"a target's disk works", [](const View& v) { return is_target(v.verdict); },
     [](const View& v) { return !v.me.disk_failed; }},
    {"two primaries never meet",
     [](const View& v) { return !v.blank() && v.me.primary && v.peer.primary; },
     [](const View& v) { return !is_usable(v.verdict); }},
    {"in sync means that nobody knows of a difference",
     [](const View& v) { return v.verdict == Verdict::kInSync; },
     [](const View& v) {
       for (const SyncFacts* f : {&v.me, &v.peer})
         if (f->crashed || f->inconsistent || f->dirty || f->disk_failed || f->primary ||
             f->flush_failed)
           return false;
       return v.same() && v.me.backing_lost == v.peer.backing_lost;
     }},
    {"nodes without a difference are in sync",
     [](const View& v) {
       return v.both_whole() && !v.me.crashed && !v.peer.crashed && !v.me.dirty &&
              !v.peer.dirty && !v.me.flush_failed;
     },
     [](const View& v) { return v.verdict == Verdict::kInSync; }},
    {"two sets suffice where both are complete and begin at the same generation",
     [](const View& v) { return is_source(v.verdict); },
     [](const View& v) {
       const bool same_start = v.relation == Relation::kSame || v.relation == Relation::kIAmNewer ||
                               v.relation == Relation::kDivergedFromBase;
       bool complete = true;
       for (const SyncFacts* f : {&v.me, &v.peer})
         complete = complete && f->map_valid && !f->backing_lost && !f->blank;
       return (v.verdict == Verdict::kSourceOfMap) == (same_start && complete);
     }},
    {"a lost set makes everything travel, and changes nothing else",
     [](const View& v) { return v.me.map_valid || v.peer.map_valid; },
     [](const View& v) {
       return without(v, [](SyncFacts& f) { f.map_valid = false; }) == as_all(v.verdict);
     }},
    {"the newer history is never overwritten",
     [](const View& v) {
       return !v.blank() &&
              (v.relation == Relation::kIAmNewer || v.relation == Relation::kIAmMuchNewer);
     },
     [](const View& v) {
       return !is_target(v.verdict) && !is_split_brain(v.verdict) &&
              v.verdict != Verdict::kInSync && v.verdict != Verdict::kUnrelated;
     }},
    {"a newer node without faults is the source of an older one",
     [](const View& v) {
       return !v.blank() && v.disks_work() && !v.me.inconsistent && !v.me.backing_lost &&
              !v.peer.primary &&
              (v.relation == Relation::kIAmNewer || v.relation == Relation::kIAmMuchNewer);
     },
     [](const View& v) { return is_source(v.verdict); }},
    {"histories that diverged never meet without an order",
     [](const View& v) { return v.verdict == Verdict::kSplitBrain || v.diverged(); },
     [](const View& v) {
       return (v.verdict == Verdict::kSplitBrain) ==
              (v.diverged() && !v.give_up_mine() && !v.give_up_theirs() && !v.ordered());
     }},
    {"an order that names another state is void",
     [](const View& v) { return v.verdict == Verdict::kOrderVoid || v.diverged(); },
     [](const View& v) {
       return (v.verdict == Verdict::kOrderVoid) ==
              (v.diverged() && !v.give_up_mine() && !v.give_up_theirs() && v.ordered());
     }},
    {"orders that contradict each other are not followed",
     [](const View& v) { return v.verdict == Verdict::kOrdersContradict || v.diverged(); },
     [](const View& v) {
       return (v.verdict == Verdict::kOrdersContradict) ==
              (v.diverged() && v.give_up_mine() && v.give_up_theirs());
     }},
    {"an order makes its victim the target, and nobody else",
     [](const View& v) { return v.diverged() && v.give_up_mine() && !v.give_up_theirs(); },
     [](const View& v) {
       if (v.peer.inconsistent || (v.peer.backing_lost && !v.peer.primary && !v.me.backing_lost))
         return v.verdict == Verdict::kNoGoodCopy;
       if (v.peer.disk_failed) return v.verdict == Verdict::kPeerDiskFailed;
       if (v.me.primary) return v.verdict == Verdict::kMustDemote;
       if (v.me.disk_failed) return v.verdict == Verdict::kDiskFailed;
       return is_target(v.verdict);
     }},
    {"demotion is asked of the victim of an order only",
     [](const View& v) { return v.verdict == Verdict::kMustDemote; },
     [](const View& v) {
       return v.diverged() && v.me.primary && v.give_up_mine() && !v.give_up_theirs();
     }},
    {"orders decide nothing but a split brain", [](const View& v) { return !v.diverged(); },
     [](const View& v) {
       return without(v, [](SyncFacts& f) { f.discard = f.keep = false; }) == v.verdict;
     }},
    {"volumes without a common past never meet",
     [](const View& v) {
       return !v.blank() &&
              (v.relation == Relation::kUnrelated || v.relation == Relation::kOtherVolume);
     },
     [](const View& v) { return v.verdict == Verdict::kUnrelated; }},
    {"the survivor of a crash is the source",
     [](const View& v) { return v.both_whole() && !v.i_died() && v.peer_died(); },
     [](const View& v) { return is_source(v.verdict); }},
    {"one whose flush failed is not believed where the other one can be",
     [](const View& v) {
       return v.same() && !v.me.flush_failed && v.peer.flush_failed && !v.peer.primary &&
              !v.me.inconsistent && !v.me.backing_lost && v.disks_work();
     },
     [](const View& v) { return is_source(v.verdict); }},
    {"nobody works on the replica of one whose flush failed",
     [](const View& v) { return v.verdict == Verdict::kSoleCopy; },
     [](const View& v) { return !v.me.flush_failed; }},
    {"a primary that gave up its disk does not go on with a peer that forgot what was acknowledged",
     [](const View& v) {
       return v.verdict == Verdict::kDiskless || v.verdict == Verdict::kCantGoOn;
     },
     [](const View& v) {
       const bool lives = v.peer.instance != 0 && v.peer.instance == v.me.peer_instance;
       const bool forgot = !lives && (v.peer.boot == 0 || v.peer.boot != v.me.peer_boot);
       return v.me.primary && v.me.disk_failed && v.me.inconsistent && !v.peer.disk_failed &&
              (v.verdict == Verdict::kCantGoOn) == (v.me.dirty && forgot);
     }},
    {"of two whose flush failed, one is copied to the other",
     [](const View& v) { return v.both_whole() && v.me.flush_failed; },
     [](const View& v) { return is_source(v.verdict) || is_target(v.verdict); }},
    {"when both died, the last primary is the source",
     [](const View& v) { return v.both_whole() && v.i_died() && v.peer_died(); },
     [](const View& v) { return v.i_am_later() ? is_source(v.verdict) : is_target(v.verdict); }},
    {"nobody died with a node that was not primary",
     [](const View& v) { return !v.me.crashed && !v.peer.crashed; },
     [](const View& v) { return !v.i_died() && !v.peer_died(); }},
    {"when both hold writes that the other misses, the last primary is the source",
     [](const View& v) {
       return v.both_whole() && !v.me.crashed && !v.peer.crashed && v.me.dirty && v.peer.dirty;
     },
     [](const View& v) { return v.i_am_later() ? is_source(v.verdict) : is_target(v.verdict); }},
    {"of two nodes that nobody uses, the one that holds more writes is the source",
     [](const View& v) {
       return v.both_whole() && !v.me.crashed && !v.peer.crashed && v.me.dirty && !v.peer.dirty;
     },
     [](const View& v) { return is_source(v.verdict); }},
    {"a primary that has given its replica up does not go on with a peer that was promoted since",
     [](const View& v) { return gave_its_replica_up(v.me) && v.peer.term > v.me.term; },
     [](const View& v) { return v.verdict != Verdict::kDiskless; }},
    {"terms decide nothing else",
     [](const View& v) {
       return !gave_its_replica_up(v.me) && !gave_its_replica_up(v.peer) &&
              !(v.same() && ((v.i_died() && v.peer_died()) || (v.me.dirty && v.peer.dirty) ||
                             (v.me.flush_failed && v.peer.flush_failed)));
     },
     [](const View& v) {
       return without(v, [](SyncFacts& f) { f.term = f.preferred ? 1 : 9; }) == v.verdict;
     }},
    {"what is only told to users decides nothing", [](const View&) { return true; },
     [](const View& v) {
       return without(v, [](SyncFacts& f) {
                f.dirty_bytes = f.preferred ? 5 : 0;
                f.since_s = f.preferred ? 0 : 9;
              }) == v.verdict;
     }},
    {"a half-copied target goes on where it was",
     [](const View& v) {
       return v.same() && v.disks_work() && v.peer.inconsistent && !v.peer.primary &&
              !v.peer.backing_lost && v.peer.map_valid && !v.me.inconsistent &&
              !v.me.backing_lost && v.me.map_valid;
     },
     [](const View& v) { return v.verdict == Verdict::kSourceOfMap; }},
    {"two blank nodes wait for init", [](const View& v) { return v.me.blank && v.peer.blank; },
     [](const View& v) { return v.verdict == Verdict::kWaitForInit; }},
    {"a blank node joins only with permission",
     [](const View& v) { return v.me.blank && !v.peer.blank; },
     [](const View& v) {
       if (!v.me.joinable) return v.verdict == Verdict::kNotJoinable;
       if (v.joins_another()) return v.verdict == Verdict::kJoinVoid;
       return !is_usable(v.verdict) || v.verdict == Verdict::kTargetOfAll ||
              v.verdict == Verdict::kDiskless;
     }},
    {"a blank node that may be overwritten receives everything",
     [](const View& v) {
       return v.me.blank && !v.peer.blank && v.me.joinable && v.disks_work() && !v.me.primary &&
              !v.peer.inconsistent && !v.joins_another();
     },
     [](const View& v) { return v.verdict == Verdict::kTargetOfAll; }},
};

std::string show(const SyncFacts& f) {
  std::string text = "[ term " + std::to_string(f.term) + (f.preferred ? " preferred" : "");
  for (const Flag& flag : kFlags)
    if (f.*flag.field) text += std::string(" ") + flag.name;
  return text + " ]";
}

class AllInputs : public testing::Test {
 protected:
  void check(SyncFacts& a, SyncFacts& b, const Pair& pair) {
    a.preferred = true;
    b.preferred = false;
    a.generations = pair.mine;
    b.generations = pair.theirs;
    b.volume_uuid[0] = pair.relation == Relation::kOtherVolume ? 2 : 1;
    a.state_id = 11;
    b.state_id = 22;
    // Both orders at once is nothing that a record can say: then it is the first.
    a.gives_up = a.discard ? 11 : 22;
    b.gives_up = b.discard ? 22 : 11;
    check_both(a, b, pair);
    if (pair.relation != Relation::kDiverged && pair.relation != Relation::kDivergedFromBase) return;
    a.gives_up = 33;  // it has moved on
    check_both(a, b, pair);
    b.gives_up = 0;
    check_both(a, b, pair);
  }

  void check_both(SyncFacts& a, SyncFacts& b, const Pair& pair) {
    const Verdict mine = decide(a, b), theirs = decide(b, a);
    check({a, b, pair.relation, mine, theirs}, pair);
    check({b, a, relate(kinship(b.generations, a.generations, a.volume_uuid == b.volume_uuid)),
           theirs, mine},
          pair);
  }

  void check(const View& view, const Pair& pair) {
    for (size_t i = 0; i < std::size(kProperties); ++i) {
      if (!kProperties[i].applies(view)) continue;
      ++applied_[i];
      if (!kProperties[i].holds(view) && failures_++ < 10)
        ADD_FAILURE() << kProperties[i].sentence << ": but " << pair.name << ", me "
                      << show(view.me) << ", the peer " << show(view.peer) << ": "
                      << "verdict " << static_cast<uint32_t>(view.verdict);
    }
  }

  std::array<uint64_t, std::size(kProperties)> applied_{};
  unsigned failures_ = 0;
};

TEST_F(AllInputs, HaveVerdictsThatHoldEveryProperty) {
  // With metadata: every relation, every flag; who was started anew since a crash matters between equals only, terms beside a
  // primary that has given its replica up as well.
  std::vector<SyncFacts> mine = all_flags(kCombinationsWithMetadata), theirs = mine;
  for (const Pair& pair : pairs())
    for (const uint64_t my_term : {3u, 2u, 4u})
      for (const unsigned started_anew : {0u, 1u, 2u, 3u}) {
        const bool same = pair.relation == Relation::kSame;
        const bool newer = pair.relation == Relation::kIAmNewer || pair.relation == Relation::kPeerIsNewer;
        if ((my_term != 3 && !same && !newer) || (started_anew != 0 && !same)) continue;
        for (SyncFacts& a : mine) {
          a.term = my_term;
          a.instance = 5 + (started_anew & 1u);
          a.peer_instance = 7;
          for (SyncFacts& b : theirs) {
            b.term = 3;
            b.instance = 7 + (started_anew >> 1u);
            b.peer_instance = 5;
            check(a, b, pair);
          }
        }
      }
  // At least one blank: then generations mean nothing.
  mine = theirs = all_flags(kCombinations);
  for (SyncFacts& a : mine)
    for (SyncFacts& b : theirs)
      if (a.blank || b.blank) {
        check(a, b, pairs().front());
        if (a.blank && b.blank) continue;
        // The order to join named another volume, or none.
        SyncFacts& blank = a.blank ? a : b;
        for (const uint8_t volume : {uint8_t{2}, uint8_t{0}}) {
          blank.volume_uuid[0] = volume;
          check_both(a, b, pairs().front());
        }
        blank.volume_uuid[0] = 1;
      }
  for (size_t i = 0; i < std::size(kProperties); ++i)
    EXPECT_GT(applied_[i], 0u) << "never put to the test: " << kProperties[i].sentence;
}

// Every combination of what is known of the secondary of a primary that died.
TEST(Generation, WhoDiesWithAPrimaryHasLostWhatOnlyItsMemoryHeld) {
  for (unsigned bits = 0; bits < 64; ++bits) {
    const bool crashed = bits & 1u, same_process = bits & 2u, same_boot = bits & 4u;
    const bool rebooted = bits & 8u, boots_known = bits & 16u;
    const bool forgot = bits & 32u;
    SyncFacts primary, secondary;
    primary.crashed = crashed;
    primary.rebooted = rebooted;
    primary.peer_instance = 1;
    secondary.forgot = forgot;
    secondary.instance = same_process ? 1 : 2;
    primary.peer_boot = boots_known ? 3 : 0;
    secondary.boot = boots_known ? (same_boot ? 3 : 4) : 0;
    bool expected = false;
    if (crashed && !same_process) {
      // Started anew on a host that has all in its page cache, while the primary's host has not.
      const bool has_more = rebooted && same_boot && boots_known && !forgot;
      expected = !has_more;
    }
    EXPECT_EQ(died_too(secondary, primary), expected) << bits;
    EXPECT_FALSE(died_too(primary, secondary)) << "a secondary takes nobody along";
  }
}

TEST(Generation, PairsAreWhatTheirNamesSay) {
  for (const Pair& pair : pairs()) {
    const bool same_volume = pair.relation != Relation::kOtherVolume;
    EXPECT_EQ(relate(kinship(pair.mine, pair.theirs, same_volume)), pair.relation) << pair.name;
  }
}

TEST(Generation, WhatOneSideSaysTheOtherOneMirrors) {
  for (uint32_t code = wire::kVerdictFirst; code <= wire::kVerdictLast; ++code) {
    const auto verdict = static_cast<Verdict>(code);
    EXPECT_EQ(mirrored(mirrored(verdict)), verdict) << code;
    EXPECT_FALSE(is_split_brain(verdict) && is_usable(verdict)) << code;
  }
}

// PROTOCOL.md's rows: | code | verdict | the other side's | session |.
TEST(Verdicts, HaveTheCodesOfTheProtocol) {
  std::ifstream file(TWINBLOCK_PROTOCOL);
  uint32_t next = wire::kVerdictFirst;
  bool inside = false;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("#")) inside = line == "### Verdicts";
    if (!inside || !line.starts_with("| ") || line.starts_with("| code")) continue;
    std::vector<std::string> cells;
    for (size_t at = 2; at < line.size();) {
      const size_t end = line.find(" |", at);
      cells.push_back(line.substr(at, end - at));
      at = end + 3;
    }
    ASSERT_EQ(cells.size(), 4u) << line;
    const auto verdict = static_cast<Verdict>(next);
    EXPECT_EQ(cells[0], std::to_string(next)) << line;
    EXPECT_EQ(cells[2], std::to_string(static_cast<uint32_t>(mirrored(verdict)))) << line;
    EXPECT_EQ(cells[3], is_usable(verdict) ? "yes" : "no") << line;
    ++next;
  }
  EXPECT_EQ(next, wire::kVerdictLast + 1);
}

}  // namespace
}  // namespace twinblock
