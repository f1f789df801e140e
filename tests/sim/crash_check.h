// What a crash of both nodes, or of one, at this moment would leave, and whether the next handshake
// would make that good: checker (d), and (b) for crashes that do not happen.
//
// Invariant 3, as it can be checked from outside at any instant: let each node die now, by kill or
// by loss of power, so that its two disks hold one of the states that they may be in. Both metadata
// files are read as a starting node reads them, and decide() is asked with what the two would say.
//   in sync       both data disks are identical: nobody would copy anything
//   by the map    each block that differs is in the set that one of the two loads: its snapshot, or
//                 all, or the regions of its intents. The target's set counts, as it tells it to
//                 the source before anything is copied
//   all           nothing is left to chance
//   refused       a pair that could work before may not end up here, but with a split brain that
//                 is one. There each side has writes that the other does not have, and the union
//                 must cover all that differs for the moment when an operator resolves it.
// The source, or either node that is in sync, must hold all that is flushed. Where the host of one
// that is whole goes on, it must hold all that was acknowledged: that is what a mirror is for. Of a
// node that lives, its engine is asked what it would say and what it would take for dirty.
#pragma once

#include <string>
#include <vector>

#include "metadata/load.h"
#include "mirror/generation.h"
#include "random.h"
#include "sim_node.h"

namespace twinblock::sim {

// What one node leaves.
struct Remains {
  DiskImage data;
  SyncFacts facts;
  BlockMap own;      // what it would tell to differ
  std::string fate;  // for reports
  bool remembers = false;  // its host keeps its page cache
  bool peer_primary = false;  // it would remember that its peer was primary
  std::vector<size_t> deceiving{};  // sectors that its cache shows and its medium does not hold
  bool forgets_failed_flush = false;  // it would have to find out from them that a flush failed
  bool sessions_on_record = false;  // those of its past
};
Remains remains_of(SimNode& node, const SimNode& peer, Random& random);
// The same of a node that runs on while its peer dies.
Remains survivor(SimNode& node, Random& random);

// The first block that differs and is in neither set.
std::optional<uint64_t> first_uncovered(const Remains& a, const Remains& b);

}  // namespace twinblock::sim
