// Why there is a resync, and of what. Codes and figures; pure.
#pragma once

#include <cstdint>

#include "mirror/generation.h"

namespace twinblock {

struct ResyncCause {
  enum class Why {
    kTargetIsNew,
    kTargetFoundEmpty,      // its backing, although it was initialised
    kSplitBrainResolved,    // against the target
    kTargetFlushFailed,     // the target can't tell what its disk holds
    kTargetHasOtherBacking,  // than the one that its record is about
    kTargetWasPutBack,      // to what it was before, with its record
    kTargetIsUnfinished,    // it holds a copy that was cut off
    kTargetCrashed,         // it stopped as primary without demotion
    kSourceCrashed,         // the source did
    kTargetWasAway,
  };
  Why why = Why::kTargetWasAway;
  bool to_peer = false;     // the peer is the target
  bool everything = false;  // no record of what differs reaches back far enough
  bool compared = false;    // what may differ is, before it is copied
  // What may differ by the records of both.
  uint64_t source_bytes = 0, target_bytes = 0;
};

// `verdict` is of this node, the source or the target.
ResyncCause cause_of(Verdict verdict, const SyncFacts& mine, const SyncFacts& peer);

}  // namespace twinblock
