// How the peer takes part in what this node holds and writes: the phases of a session, what each
// allows, and which may follow which. Pure; any thread.
//
//   kApart ─▶ kEqual ◀──────────────────────┬─▶ kDuplex ─▶ kLeaving ─▶ kDiskless    (this node writes)
//          ─▶ kIdle ─▶ kMarking ─▶ kCopying ┤
//                   └▶ kConcluding ─────────┘
//          ─▶ kBehind ─▶ kFilled ─▶ kEqual ─▶ kSoleCopy                             (the peer writes)
//
// From each the loss of the session leads to kApart.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/steps.h"

namespace twinblock {

enum class Phase : uint8_t {
  kApart,       // there is no session
  kIdle,        // neither sends the other any data: not yet, or not any more
  kMarking,     // source: the target tells its own set, and records that it is half-copied
  kCopying,     // source: the peer receives every write, and is not whole yet
  kConcluding,  // source, with nothing to send: the peer receives every write, and records that it is
                // whole
  kDuplex,      // this node writes; the peer receives it, and is whole
  kEqual,       // both are whole, and this one does not write: it takes what the peer writes
  kBehind,      // target: it is to be sent what it lacks, or is being sent it
  kFilled,      // target: it has all, and records that
  kLeaving,     // the local disk failed; the peer, which is whole, is told that it holds the only copy
  kDiskless,    // … and has it on record
  kSoleCopy,    // the peer's disk failed: it works on this node's replica
};
constexpr size_t kPhases = 12;
const char* phase_name(Phase phase);

// What this node writes goes to the peer …
enum class Attachment : uint8_t {
  kNone,      // not at all
  kResync,    // all of it, but the peer is not whole yet
  kDuplex,    // all of it, and the peer is whole
  kDiskless,  // all of it, and the peer holds the only good replica
};

struct PhaseRules {
  Phase phase;
  Attachment attachment;
  bool receives;       // the peer may send writes (this node's are its own, so it has none)
  bool both_whole;     // … and both know
  bool hears_its_set;  // the peer may tell its own set of blocks that may differ
  uint16_t next;       // the phases that may follow, by bits; kApart always may
};
const PhaseRules& rules_of(Phase phase);
bool may_follow(Phase from, Phase to);

using PhaseSteps = Steps<Phase, kPhases>;

}  // namespace twinblock
