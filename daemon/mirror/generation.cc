#include "mirror/generation.h"

#include <array>

#include "base/checks.h"

namespace twinblock {
namespace {

// How the two histories relate.
enum class Relation {
  kOtherVolume,      // different volume ids
  kSame,             // same current generation
  kIAmNewer,         // my base is the peer's current
  kPeerIsNewer,      // … the other way round
  kIAmMuchNewer,     // the peer's current is in my history
  kPeerIsMuchNewer,  // … the other way round
  kDiverged,         // both moved on, with something in common
  kUnrelated,        // same volume id, nothing in common
};

bool in_history(const metadata::Generations& g, uint64_t generation) {
  return g.knows(generation) && generation != g.current && generation != g.base;
}

bool share_anything(const metadata::Generations& a, const metadata::Generations& b) {
  if (b.knows(a.current) || b.knows(a.base)) return true;
  for (const uint64_t old : a.history)
    if (b.knows(old)) return true;
  return false;
}

Relation relate(const SyncFacts& mine, const SyncFacts& theirs) {
  if (mine.volume_uuid != theirs.volume_uuid) return Relation::kOtherVolume;
  const metadata::Generations& a = mine.generations;
  const metadata::Generations& b = theirs.generations;
  if (a.current == b.current) return Relation::kSame;
  if (a.base == b.current && b.base != a.current) return Relation::kIAmNewer;
  if (b.base == a.current && a.base != b.current) return Relation::kPeerIsNewer;
  if (in_history(a, b.current) && !in_history(b, a.current)) return Relation::kIAmMuchNewer;
  if (in_history(b, a.current) && !in_history(a, b.current)) return Relation::kPeerIsMuchNewer;
  return share_anything(a, b) ? Relation::kDiverged : Relation::kUnrelated;
}

// Of whom a statement is true. Bits, so that a row can accept several.
enum Who : uint8_t { kNobody = 1, kMe = 2, kPeer = 4, kBoth = 8, kAnyone = 15 };
uint8_t who(bool mine, bool theirs) {
  if (mine) return theirs ? kBoth : kMe;
  return theirs ? kPeer : kNobody;
}

enum class Source { kNobody, kMe, kPeer, kPreferred, kNoGoodCopy, kBothPrimary };

struct SameGenerationRow {
  uint8_t inconsistent, primary, crashed, dirty;  // Who bits
  Source source;
};

// The same current generation on both sides: whose data counts? Exactly one row fits each input.
constexpr std::array<SameGenerationRow, 13> kSameGeneration{{
    //  half-copied  primary   crashed   dirty
    {kBoth, kAnyone, kAnyone, kAnyone, Source::kNoGoodCopy},
    {kMe, kAnyone, kAnyone, kAnyone, Source::kPeer},
    {kPeer, kAnyone, kAnyone, kAnyone, Source::kMe},
    // Clients have seen the data of a node that is primary now, whatever happened before.
    {kNobody, kBoth, kAnyone, kAnyone, Source::kBothPrimary},
    {kNobody, kMe, kAnyone, kAnyone, Source::kMe},
    {kNobody, kPeer, kAnyone, kAnyone, Source::kPeer},
    // Nobody is primary: the survivor counts. What was promised is on both.
    {kNobody, kNobody, kMe, kAnyone, Source::kPeer},
    {kNobody, kNobody, kPeer, kAnyone, Source::kMe},
    {kNobody, kNobody, kBoth, kAnyone, Source::kPreferred},
    // Orderly demotions: who still holds writes that the other misses?
    {kNobody, kNobody, kNobody, kMe, Source::kMe},
    {kNobody, kNobody, kNobody, kPeer, Source::kPeer},
    {kNobody, kNobody, kNobody, kBoth, Source::kPreferred},
    {kNobody, kNobody, kNobody, kNobody, Source::kNobody},
}};

Source source_of_same(const SyncFacts& mine, const SyncFacts& theirs) {
  const uint8_t inconsistent = who(mine.inconsistent, theirs.inconsistent);
  const uint8_t primary = who(mine.primary, theirs.primary);
  const uint8_t crashed = who(mine.crashed, theirs.crashed);
  const uint8_t dirty = who(mine.dirty, theirs.dirty);
  const SameGenerationRow* found = nullptr;
  for (const SameGenerationRow& row : kSameGeneration) {
    if ((row.inconsistent & inconsistent) == 0 || (row.primary & primary) == 0 ||
        (row.crashed & crashed) == 0 || (row.dirty & dirty) == 0)
      continue;
    TB_CHECK(found == nullptr, "exactly one row fits");
    found = &row;
  }
  TB_CHECK(found != nullptr, "exactly one row fits");
  return found->source;
}

// A source and a target are settled: can a session stand on that, and what must travel? What the
// target wrote or lost on its own is not in the source's map, so that then everything travels.
Verdict from_source(const SyncFacts& source, const SyncFacts& target, bool i_am_source,
                    bool map_suffices) {
  const auto pick = [i_am_source](Verdict if_source, Verdict if_target) {
    return i_am_source ? if_source : if_target;
  };
  if (source.inconsistent) return Verdict::kNoGoodCopy;
  if (source.disk_failed) return pick(Verdict::kDiskFailed, Verdict::kPeerDiskFailed);
  if (target.primary && target.disk_failed && !source.primary)
    return pick(Verdict::kSoleCopy, Verdict::kDiskless);
  if (target.primary) return pick(Verdict::kPeerOutdated, Verdict::kOutdated);
  if (target.disk_failed) return pick(Verdict::kPeerDiskFailed, Verdict::kDiskFailed);
  if (map_suffices && source.map_valid && !source.crashed && !target.crashed && !target.dirty)
    return pick(Verdict::kSourceOfMap, Verdict::kTargetOfMap);
  return pick(Verdict::kSourceOfAll, Verdict::kTargetOfAll);
}

Verdict decide_same(const SyncFacts& mine, const SyncFacts& theirs) {
  switch (source_of_same(mine, theirs)) {
    case Source::kNoGoodCopy:
      return Verdict::kNoGoodCopy;
    case Source::kBothPrimary:
      return Verdict::kBothPrimary;
    case Source::kMe:
      return from_source(mine, theirs, true, true);
    case Source::kPeer:
      return from_source(theirs, mine, false, true);
    case Source::kPreferred:
      return mine.preferred ? from_source(mine, theirs, true, false)
                            : from_source(theirs, mine, false, false);
    case Source::kNobody:
      break;
  }
  if (mine.disk_failed && theirs.disk_failed) return Verdict::kNoGoodCopy;
  if (mine.disk_failed) return Verdict::kDiskFailed;
  return theirs.disk_failed ? Verdict::kPeerDiskFailed : Verdict::kInSync;
}

Verdict decide_blank(const SyncFacts& mine, const SyncFacts& theirs) {
  if (mine.blank && theirs.blank) return Verdict::kWaitForInit;
  if (mine.blank)
    return mine.joinable ? from_source(theirs, mine, false, false) : Verdict::kNotJoinable;
  return theirs.joinable ? from_source(mine, theirs, true, false) : Verdict::kPeerNotJoinable;
}

struct VerdictRow {
  Verdict verdict;
  Verdict mirrored;
  bool usable;
  const char* sentence;  // %P stands for the peer's name
  const char* advice;    // %V for the volume's
};

constexpr std::array<VerdictRow, 21> kVerdicts{{
    {Verdict::kInSync, Verdict::kInSync, true, "both replicas are the same", ""},
    {Verdict::kSourceOfMap, Verdict::kTargetOfMap, true, "%P is sent the blocks that it missed",
     ""},
    {Verdict::kTargetOfMap, Verdict::kSourceOfMap, true,
     "this node receives the blocks that it missed from %P", ""},
    {Verdict::kSourceOfAll, Verdict::kTargetOfAll, true, "%P is sent the whole volume", ""},
    {Verdict::kTargetOfAll, Verdict::kSourceOfAll, true,
     "this node receives the whole volume from %P", ""},
    {Verdict::kWaitForInit, Verdict::kWaitForInit, false, "neither node has been initialised",
     "run `twinblock init %V` on the node whose data is to be kept"},
    {Verdict::kPeerNotJoinable, Verdict::kNotJoinable, false,
     "%P has no metadata, but its backing holds data, which joining would overwrite",
     "on %P run `twinblock init %V --join` to let its data be overwritten"},
    {Verdict::kNotJoinable, Verdict::kPeerNotJoinable, false,
     "this node has no metadata, but its backing holds data, which joining would overwrite",
     "run `twinblock init %V --join` here to let this node's data be overwritten by %P's"},
    {Verdict::kUnrelated, Verdict::kUnrelated, false,
     "%P holds another volume: the two have no history in common",
     "check that both nodes use the right backing and metadata; to throw one replica away, stop "
     "that node, move its metadata file away and run `twinblock init %V --join` there"},
    {Verdict::kSplitBrain, Verdict::kSplitBrain, false,
     "split brain: this node and %P both accepted writes that the other does not have",
     "decide whose writes to give up: `twinblock resolve %V --keep local` keeps this node's, "
     "`--keep peer` %P's; both first say what will be lost"},
    {Verdict::kBothPrimary, Verdict::kBothPrimary, false, "this node and %P are both primary",
     "run `twinblock demote %V` on one of them"},
    {Verdict::kPeerOutdated, Verdict::kOutdated, false,
     "%P is primary on older data than this node's",
     "run `twinblock demote %V` on %P, so that it can be brought up to date"},
    {Verdict::kOutdated, Verdict::kPeerOutdated, false,
     "this node is primary on older data than %P's",
     "run `twinblock demote %V` here, so that this node can be brought up to date"},
    {Verdict::kNoGoodCopy, Verdict::kNoGoodCopy, false,
     "the newer replica is not whole and can't be copied from", "restore the volume from a backup"},
    {Verdict::kPeerDiskFailed, Verdict::kDiskFailed, false, "%P's disk fails",
     "replace the disk on %P, then restart twinblockd there"},
    {Verdict::kDiskFailed, Verdict::kPeerDiskFailed, false, "this node's disk fails",
     "replace the disk, then restart twinblockd here"},
    {Verdict::kSoleCopy, Verdict::kDiskless, true,
     "%P is primary, but its disk failed: it works on this node's replica", ""},
    {Verdict::kDiskless, Verdict::kSoleCopy, true,
     "this node's disk failed: it works on %P's replica", ""},
    {Verdict::kPeerMustDemote, Verdict::kMustDemote, false,
     "split brain: %P's writes are to be given up, but %P is still primary",
     "run `twinblock demote %V` on %P; it is then brought to this node's state"},
    {Verdict::kMustDemote, Verdict::kPeerMustDemote, false,
     "split brain: this node's writes are to be given up, but this node is still primary",
     "run `twinblock demote %V` here; this node is then brought to %P's state"},
    {Verdict::kOrdersContradict, Verdict::kOrdersContradict, false,
     "split brain: the orders to resolve it contradict each other",
     "run `twinblock resolve %V --keep …` again on one of the nodes, so that both mean the same "
     "writes"},
}};

const VerdictRow& row_of(Verdict verdict) {
  for (const VerdictRow& row : kVerdicts)
    if (row.verdict == verdict) return row;
  TB_CHECK(false, "every verdict has a row");
  return kVerdicts[0];
}

std::string fill_in(std::string text, const std::string& mark, const std::string& value) {
  for (size_t at = text.find(mark); at != std::string::npos;
       at = text.find(mark, at + value.size()))
    text.replace(at, mark.size(), value);
  return text;
}

}  // namespace

Verdict decide(const SyncFacts& mine, const SyncFacts& theirs) {
  if (mine.blank || theirs.blank) return decide_blank(mine, theirs);
  switch (relate(mine, theirs)) {
    case Relation::kOtherVolume:
    case Relation::kUnrelated:
      return Verdict::kUnrelated;
    case Relation::kDiverged:
      return Verdict::kSplitBrain;
    case Relation::kSame:
      return decide_same(mine, theirs);
    case Relation::kIAmNewer:
      return from_source(mine, theirs, true, true);
    case Relation::kPeerIsNewer:
      return from_source(theirs, mine, false, true);
    case Relation::kIAmMuchNewer:
      return from_source(mine, theirs, true, false);
    case Relation::kPeerIsMuchNewer:
      return from_source(theirs, mine, false, false);
  }
  TB_CHECK(false, "every relation is handled");
  return Verdict::kUnrelated;
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
         verdict == Verdict::kPeerMustDemote || verdict == Verdict::kOrdersContradict;
}

std::string explain(Verdict verdict, const std::string& peer) {
  return fill_in(row_of(verdict).sentence, "%P", peer);
}

std::string advise(Verdict verdict, const std::string& volume, const std::string& peer) {
  return fill_in(fill_in(row_of(verdict).advice, "%P", peer), "%V", volume);
}

}  // namespace twinblock
