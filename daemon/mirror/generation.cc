#include "mirror/generation.h"

#include <array>

#include "base/checks.h"

namespace twinblock {
namespace {

enum class Source : uint8_t { kNobody, kMe, kPeer, kLater, kNoGoodCopy, kBothPrimary };

// Who bits: of whom each statement is true.
struct SameGeneration {
  uint8_t inconsistent, primary, lost, doubtful, died, dirty;
};
struct SameGenerationRow {
  SameGeneration accepted;
  Source source;
};

// The same current generation on both sides: whose data counts? Exactly one row fits each input.
constexpr std::array<SameGenerationRow, 18> kSameGeneration{{
    //  half-copied  primary  lost  doubtful  died  dirty
    {{kBoth, kAnyone, kAnyone, kAnyone, kAnyone, kAnyone}, Source::kNoGoodCopy},
    {{kMe, kAnyone, kAnyone, kAnyone, kAnyone, kAnyone}, Source::kPeer},
    {{kPeer, kAnyone, kAnyone, kAnyone, kAnyone, kAnyone}, Source::kMe},
    // Clients have seen the data of a node that is primary now, whatever happened before.
    {{kNobody, kBoth, kAnyone, kAnyone, kAnyone, kAnyone}, Source::kBothPrimary},
    {{kNobody, kMe, kAnyone, kAnyone, kAnyone, kAnyone}, Source::kMe},
    {{kNobody, kPeer, kAnyone, kAnyone, kAnyone, kAnyone}, Source::kPeer},
    // Nobody is primary: one whose backing is empty all of a sudden has nothing to give.
    {{kNobody, kNobody, kMe, kAnyone, kAnyone, kAnyone}, Source::kPeer},
    {{kNobody, kNobody, kPeer, kAnyone, kAnyone, kAnyone}, Source::kMe},
    // One whose flush failed may show what its disk does not hold, and one whose record is about another backing may lack
    // anything; what was promised is on the other.
    {{kNobody, kNobody, kNobody | kBoth, kMe, kAnyone, kAnyone}, Source::kPeer},
    {{kNobody, kNobody, kNobody | kBoth, kPeer, kAnyone, kAnyone}, Source::kMe},
    // The survivor of a primary that died counts: it holds all that was acknowledged. When both
    // died, the one that was primary last.
    {{kNobody, kNobody, kNobody | kBoth, kNobody | kBoth, kMe, kAnyone}, Source::kPeer},
    {{kNobody, kNobody, kNobody | kBoth, kNobody | kBoth, kPeer, kAnyone}, Source::kMe},
    {{kNobody, kNobody, kNobody | kBoth, kNobody | kBoth, kBoth, kAnyone}, Source::kLater},
    // Orderly demotions: who still holds writes that the other misses?
    {{kNobody, kNobody, kNobody | kBoth, kNobody | kBoth, kNobody, kMe}, Source::kMe},
    {{kNobody, kNobody, kNobody | kBoth, kNobody | kBoth, kNobody, kPeer}, Source::kPeer},
    {{kNobody, kNobody, kNobody | kBoth, kNobody | kBoth, kNobody, kBoth}, Source::kLater},
    // Both are doubtful. (If flushes failed, one is copied without a comparison, and then the other.)
    {{kNobody, kNobody, kNobody | kBoth, kBoth, kNobody, kNobody}, Source::kLater},
    {{kNobody, kNobody, kNobody | kBoth, kNobody, kNobody, kNobody}, Source::kNobody},
}};

constexpr bool fits(const SameGeneration& row, const SameGeneration& said) {
  return (row.inconsistent & said.inconsistent) != 0 && (row.primary & said.primary) != 0 &&
         (row.lost & said.lost) != 0 && (row.doubtful & said.doubtful) != 0 &&
         (row.died & said.died) != 0 && (row.dirty & said.dirty) != 0;
}

constexpr bool exactly_one_row_fits() {
  constexpr std::array<uint8_t, 4> kEach{kNobody, kMe, kPeer, kBoth};
  for (unsigned n = 0; n < 4 * 4 * 4 * 4 * 4 * 4; ++n) {
    const SameGeneration said{kEach[n % 4],      kEach[n / 4 % 4],   kEach[n / 16 % 4],
                              kEach[n / 64 % 4], kEach[n / 256 % 4], kEach[n / 1024]};
    int found = 0;
    for (const SameGenerationRow& row : kSameGeneration)
      if (fits(row.accepted, said)) ++found;
    if (found != 1) return false;
  }
  return true;
}
static_assert(exactly_one_row_fits());

bool doubtful(const SyncFacts& node) { return node.flush_failed || node.other_backing; }

// Whoever finds another backing than its record is about may hold all that was acknowledged (the record's backing was copied),
// or nothing of it: only one that has it for sure is copied over that without the operator's word, a promotion. (One whose
// process alone was started again has it.)
bool nobody_is_sure(const SyncFacts& node, const SyncFacts& other) {
  if (!node.other_backing) return false;
  return doubtful(other) || (died(other, node) && (other.crashed || !keeps_its_memory(other, node)));
}

Source source_of_same(const SyncFacts& mine, const SyncFacts& theirs) {
  const bool settled = who(mine.inconsistent, theirs.inconsistent) != kNobody || who(mine.primary, theirs.primary) != kNobody ||
                       who(mine.backing_lost, theirs.backing_lost) != kNobody;
  if (!settled && (nobody_is_sure(mine, theirs) || nobody_is_sure(theirs, mine))) return Source::kNoGoodCopy;
  const SameGeneration said{who(mine.inconsistent, theirs.inconsistent),
                            who(mine.primary, theirs.primary),
                            who(mine.backing_lost, theirs.backing_lost),
                            who(doubtful(mine), doubtful(theirs)),
                            who(died(mine, theirs), died(theirs, mine)), who(mine.dirty, theirs.dirty)};
  for (const SameGenerationRow& row : kSameGeneration)
    if (fits(row.accepted, said)) return row.source;
  TB_CHECK(false, "every input has a row");
  return Source::kNoGoodCopy;
}

// Whether I was primary later than the peer.
bool i_am_later(const SyncFacts& mine, const SyncFacts& theirs) {
  return mine.term != theirs.term ? mine.term > theirs.term : mine.preferred;
}

// How a source and a target were settled.
enum class Settled : uint8_t {
  kFromShared,         // both sets begin at the same generation: their union holds all differences
  kFromOlder,          // … begin at different ones
  kByOrderFromShared,  // both moved on from the same one, and an order says whose writes count
  kByOrderFromOlder,   // … from different ones
};

bool knows_its_set(const SyncFacts& node) {
  return node.map_valid && !node.backing_lost && !node.other_backing;
}

}  // namespace

bool keeps_its_memory(const SyncFacts& node, const SyncFacts& primary) {
  if (node.instance != 0 && node.instance == primary.peer_instance) return true;
  return node.boot != 0 && node.boot == primary.peer_boot && !node.forgot;
}

namespace {

// The primary's host has acknowledged what the peer had in memory only, and the peer's host has lost
// its memory since: clients would read what they had replaced. (A process that ends loses nothing.)
bool forgot_what_it_acknowledged(const SyncFacts& peer, const SyncFacts& primary) {
  return primary.dirty && !keeps_its_memory(peer, primary);
}

// Of a primary that has given its replica up, and of the peer that has gone on in the generation of the sole copy: whose
// clients saw what is there? Its own, but where the peer was promoted meanwhile, and may have served others.
bool was_promoted_since(const SyncFacts& peer, const SyncFacts& primary) { return peer.term > primary.term; }

// A source and a target are settled: can a session stand on that, and what must travel?
Verdict from_source(const SyncFacts& source, const SyncFacts& target, bool i_am_source,
                    Settled settled) {
  const auto pick = [i_am_source](Verdict if_source, Verdict if_target) {
    return i_am_source ? if_source : if_target;
  };
  const bool by_order =
      settled == Settled::kByOrderFromShared || settled == Settled::kByOrderFromOlder;
  const bool nothing_to_give = source.backing_lost && !source.primary;
  const bool something_to_lose = !target.blank && !target.backing_lost;
  if (source.inconsistent || (nothing_to_give && something_to_lose)) return Verdict::kNoGoodCopy;
  if (source.disk_failed) return pick(Verdict::kDiskFailed, Verdict::kPeerDiskFailed);
  // Not even with a failed disk does a primary go on with the peer's data here: its clients have
  // seen other ones.
  if (target.primary && by_order) return pick(Verdict::kPeerMustDemote, Verdict::kMustDemote);
  // Those of one that has given its replica up have not. (They can't go on with a source whose flush
  // failed: what they flush may cover less than they think. Nor with another backing than the one that was current.)
  if (target.primary && target.disk_failed && target.inconsistent && !source.primary &&
      !doubtful(source) && !was_promoted_since(source, target))
    return forgot_what_it_acknowledged(source, target)
               ? pick(Verdict::kPeerCantGoOn, Verdict::kCantGoOn)
               : pick(Verdict::kSoleCopy, Verdict::kDiskless);
  if (target.primary) return pick(Verdict::kPeerOutdated, Verdict::kOutdated);
  // Whoever is copied from it takes it for what the record is about. (A promotion says that it is.)
  if (source.other_backing && !source.primary) return Verdict::kNoGoodCopy;
  if (target.disk_failed) return pick(Verdict::kPeerDiskFailed, Verdict::kDiskFailed);
  // A target tells its own set when the resync begins, so that also what it wrote or lost alone is
  // known, unless one of the two does not know its set.
  const bool from_shared =
      settled == Settled::kFromShared || settled == Settled::kByOrderFromShared;
  return from_shared && knows_its_set(source) && knows_its_set(target)
             ? pick(Verdict::kSourceOfMap, Verdict::kTargetOfMap)
             : pick(Verdict::kSourceOfAll, Verdict::kTargetOfAll);
}

Verdict settle(const SyncFacts& mine, const SyncFacts& theirs, bool i_am_source, Settled settled) {
  return i_am_source ? from_source(mine, theirs, true, settled)
                     : from_source(theirs, mine, false, settled);
}

Verdict decide_same(const SyncFacts& mine, const SyncFacts& theirs) {
  switch (source_of_same(mine, theirs)) {
    case Source::kNoGoodCopy:
      return Verdict::kNoGoodCopy;
    case Source::kBothPrimary:
      return Verdict::kBothPrimary;
    case Source::kMe:
      return settle(mine, theirs, true, Settled::kFromShared);
    case Source::kPeer:
      return settle(mine, theirs, false, Settled::kFromShared);
    case Source::kLater:
      return settle(mine, theirs, i_am_later(mine, theirs), Settled::kFromShared);
    case Source::kNobody:
      break;
  }
  if (mine.disk_failed && theirs.disk_failed) return Verdict::kNoGoodCopy;
  if (mine.disk_failed) return Verdict::kDiskFailed;
  return theirs.disk_failed ? Verdict::kPeerDiskFailed : Verdict::kInSync;
}

// Only an order of the operator gives up writes (invariant 6), and only those that it named
// (invariant 13).
Verdict decide_diverged(const SyncFacts& mine, const SyncFacts& theirs, Settled by_order) {
  const bool give_up_mine = gives_itself_up(mine) || gives_up(theirs, mine);
  const bool give_up_theirs = gives_itself_up(theirs) || gives_up(mine, theirs);
  if (give_up_mine && give_up_theirs) return Verdict::kOrdersContradict;
  if (give_up_mine || give_up_theirs) return settle(mine, theirs, give_up_theirs, by_order);
  const bool ordered = mine.discard || mine.keep || theirs.discard || theirs.keep;
  return ordered ? Verdict::kOrderVoid : Verdict::kSplitBrain;
}

Verdict decide_blank(const SyncFacts& mine, const SyncFacts& theirs) {
  if (mine.blank && theirs.blank) return Verdict::kWaitForInit;
  const SyncFacts &joins = mine.blank ? mine : theirs, &source = mine.blank ? theirs : mine;
  if (!joins.joinable) return mine.blank ? Verdict::kNotJoinable : Verdict::kPeerNotJoinable;
  // The order named another volume than the one that is there now.
  if (joins.volume_uuid != metadata::Uuid{} && joins.volume_uuid != source.volume_uuid)
    return mine.blank ? Verdict::kJoinVoid : Verdict::kPeerJoinVoid;
  return settle(mine, theirs, !mine.blank, Settled::kFromOlder);
}

SyncFacts as_primary(SyncFacts node) {
  node.primary = true;
  return node;
}

struct VerdictRow {
  Verdict verdict;
  Verdict mirrored;
  bool usable;
};

constexpr std::array<VerdictRow, wire::kVerdictLast> kVerdicts{{
    {Verdict::kInSync, Verdict::kInSync, true},
    {Verdict::kSourceOfMap, Verdict::kTargetOfMap, true},
    {Verdict::kTargetOfMap, Verdict::kSourceOfMap, true},
    {Verdict::kSourceOfAll, Verdict::kTargetOfAll, true},
    {Verdict::kTargetOfAll, Verdict::kSourceOfAll, true},
    {Verdict::kWaitForInit, Verdict::kWaitForInit, false},
    {Verdict::kPeerNotJoinable, Verdict::kNotJoinable, false},
    {Verdict::kNotJoinable, Verdict::kPeerNotJoinable, false},
    {Verdict::kUnrelated, Verdict::kUnrelated, false},
    {Verdict::kSplitBrain, Verdict::kSplitBrain, false},
    {Verdict::kBothPrimary, Verdict::kBothPrimary, false},
    {Verdict::kPeerOutdated, Verdict::kOutdated, false},
    {Verdict::kOutdated, Verdict::kPeerOutdated, false},
    {Verdict::kNoGoodCopy, Verdict::kNoGoodCopy, false},
    {Verdict::kPeerDiskFailed, Verdict::kDiskFailed, false},
    {Verdict::kDiskFailed, Verdict::kPeerDiskFailed, false},
    {Verdict::kSoleCopy, Verdict::kDiskless, true},
    {Verdict::kDiskless, Verdict::kSoleCopy, true},
    {Verdict::kPeerCantGoOn, Verdict::kCantGoOn, false},
    {Verdict::kCantGoOn, Verdict::kPeerCantGoOn, false},
    {Verdict::kPeerMustDemote, Verdict::kMustDemote, false},
    {Verdict::kMustDemote, Verdict::kPeerMustDemote, false},
    {Verdict::kOrdersContradict, Verdict::kOrdersContradict, false},
    {Verdict::kOrderVoid, Verdict::kOrderVoid, false},
    {Verdict::kPeerJoinVoid, Verdict::kJoinVoid, false},
    {Verdict::kJoinVoid, Verdict::kPeerJoinVoid, false},
}};

constexpr const VerdictRow& row_of(Verdict verdict) {
  return kVerdicts[static_cast<size_t>(verdict) - wire::kVerdictFirst];
}

// Every code has its row, and what one side says the other one's mirrors.
constexpr bool verdicts_are_complete() {
  for (size_t i = 0; i < kVerdicts.size(); ++i) {
    const VerdictRow& row = kVerdicts[i];
    if (static_cast<size_t>(row.verdict) != i + wire::kVerdictFirst) return false;
    const VerdictRow& other = row_of(row.mirrored);
    if (other.mirrored != row.verdict || other.usable != row.usable) return false;
  }
  return true;
}
static_assert(verdicts_are_complete());

uint8_t who_missed(const SyncFacts& mine, const SyncFacts& theirs) {
  return who(missed_a_session(mine, theirs), missed_a_session(theirs, mine));
}

// Of two who have not been in the same sessions. Whoever wrote alone after it had been put back does not have what the
// other one wrote before that.
Relation parted_relation(Relation by_generations, uint8_t missed) {
  switch (by_generations) {
    case Relation::kOtherVolume:
    case Relation::kUnrelated:
      return by_generations;
    case Relation::kSame:
      if (missed == kBoth) return Relation::kDiverged;
      return missed == kMe ? Relation::kPeerIsMuchNewer : Relation::kIAmMuchNewer;
    case Relation::kIAmNewer:
    case Relation::kIAmMuchNewer:
      return missed == kPeer ? Relation::kIAmMuchNewer : Relation::kDiverged;
    case Relation::kPeerIsNewer:
    case Relation::kPeerIsMuchNewer:
      return missed == kMe ? Relation::kPeerIsMuchNewer : Relation::kDiverged;
    default:
      return Relation::kDiverged;
  }
}

}  // namespace

// One that has begun at the other node only may have been in vain: then nothing was written in it.
bool missed_a_session(const SyncFacts& node, const SyncFacts& other) {
  return !node.sessions.knows(other.sessions.stood.front());
}

Relation relation_of(const SyncFacts& mine, const SyncFacts& theirs) {
  const Relation relation =
      relate(kinship(mine.generations, theirs.generations, mine.volume_uuid == theirs.volume_uuid));
  const uint8_t missed = who_missed(mine, theirs);
  return missed == kNobody ? relation : parted_relation(relation, missed);
}

// A process that runs since before the primary's end has all that was acknowledged. One that was
// started again has it as long as its host was not, which matters where the primary's host was;
// otherwise the primary's disk has it, too, and may have more.
bool died_too(const SyncFacts& node, const SyncFacts& primary_that_died) {
  const SyncFacts& primary = primary_that_died;
  if (!primary.crashed || node.instance == primary.peer_instance) return false;
  return !(primary.rebooted && keeps_its_memory(node, primary));
}

// Where both stopped while primary, the later one was promoted alone and has acknowledged nothing, or it
// would be in another generation. So a host that kept its memory has all that was acknowledged.
bool died(const SyncFacts& node, const SyncFacts& other) {
  if (node.crashed && other.crashed && !node.rebooted && other.rebooted) return false;
  return node.crashed || died_too(node, other);
}

bool knows_of(const SyncFacts& node, const SyncFacts& other) {
  return !other.blank && relation_of(node, other) != Relation::kOtherVolume;
}

// A promotion has a higher term than all that the other node had told of: with a lower one, the other
// node was not promoted since. (It was told of this one's, unless it was away all the time; then it is
// in an older generation, and a promotion there shows as a split.) In the same generation nothing was
// acknowledged since a promotion without the peer: where that was of a host which had lost what its memory
// held, and the other one holds it, the other one counts, as if nobody had been promoted.
bool goes_on(const SyncFacts& node, const SyncFacts& other) {
  if (!node.resumes || node.blank || node.other_backing || other.blank || other.primary || other.term >= node.term)
    return false;
  Source source = Source::kNobody;
  switch (relation_of(node, other)) {
    case Relation::kSame:
      if (!node.rebooted) return true;
      source = source_of_same(node, other);
      return source != Source::kPeer && source != Source::kNoGoodCopy;
    case Relation::kIAmNewer:
    case Relation::kIAmMuchNewer:
      return true;
    default:
      return false;
  }
}

bool goes_on_later(const SyncFacts& node, const SyncFacts& other) {
  // Of the same generation the primary counts, unless it has given its replica up.
  const bool counts = relation_of(node, other) == Relation::kSame && !(other.disk_failed && other.inconsistent);
  SyncFacts yielded = other;
  yielded.primary = false;
  return other.primary && !counts && goes_on(node, yielded);
}

// Where both nodes' disks were copied with their records neither is more in doubt than the other: their records say who is the
// source as ever, and only not of which blocks.
SyncFacts as_recorded(SyncFacts node) {
  node.other_backing = node.moved_together = node.map_valid = false;
  return node;
}

Verdict decide(const SyncFacts& mine, const SyncFacts& theirs) {
  if (mine.moved_together && theirs.moved_together) return decide(as_recorded(mine), as_recorded(theirs));
  if (mine.blank || theirs.blank) return decide_blank(mine, theirs);
  if (!mine.primary && goes_on(mine, theirs)) return decide(as_primary(mine), theirs);
  if (!theirs.primary && goes_on(theirs, mine)) return decide(mine, as_primary(theirs));
  switch (relation_of(mine, theirs)) {
    case Relation::kOtherVolume:
    case Relation::kUnrelated:
      return Verdict::kUnrelated;
    case Relation::kSame:
      return decide_same(mine, theirs);
    case Relation::kIAmNewer:
      return settle(mine, theirs, true, Settled::kFromShared);
    case Relation::kPeerIsNewer:
      return settle(mine, theirs, false, Settled::kFromShared);
    case Relation::kIAmMuchNewer:
      return settle(mine, theirs, true, Settled::kFromOlder);
    case Relation::kPeerIsMuchNewer:
      return settle(mine, theirs, false, Settled::kFromOlder);
    case Relation::kDivergedFromBase:
      return decide_diverged(mine, theirs, Settled::kByOrderFromShared);
    case Relation::kDiverged:
      return decide_diverged(mine, theirs, Settled::kByOrderFromOlder);
  }
  TB_CHECK(false, "every relation is handled");
  return Verdict::kUnrelated;
}

bool diverged(const SyncFacts& mine, const SyncFacts& theirs) {
  if (mine.blank || theirs.blank) return false;
  const Relation relation = relation_of(mine, theirs);
  return relation == Relation::kDivergedFromBase || relation == Relation::kDiverged;
}

Verdict mirrored(Verdict verdict) { return row_of(verdict).mirrored; }
bool is_usable(Verdict verdict) { return row_of(verdict).usable; }
bool is_source(Verdict verdict) {
  return verdict == Verdict::kSourceOfMap || verdict == Verdict::kSourceOfAll;
}
bool is_target(Verdict verdict) {
  return verdict == Verdict::kTargetOfMap || verdict == Verdict::kTargetOfAll;
}

bool is_split_brain(Verdict verdict) {
  return verdict == Verdict::kSplitBrain || verdict == Verdict::kMustDemote ||
         verdict == Verdict::kPeerMustDemote || verdict == Verdict::kOrdersContradict ||
         verdict == Verdict::kOrderVoid;
}

bool is_overtaken(Verdict verdict) { return verdict == Verdict::kOutdated || verdict == Verdict::kBothPrimary; }

bool gives_itself_up(const SyncFacts& giver) {
  return giver.discard && giver.gives_up != 0 && giver.gives_up == giver.state_id;
}

bool gives_up(const SyncFacts& giver, const SyncFacts& loser) {
  return giver.keep && giver.gives_up != 0 && giver.gives_up == loser.state_id;
}

}  // namespace twinblock
