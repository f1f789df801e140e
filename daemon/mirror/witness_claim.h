// What a witness' entry means for a node that wants to go on without its peer. Pure; any thread.
//
// The entry names the generation of the one who was let go on alone last, or the one that both nodes shared
// when they were last together. Who knows that generation holds all that was acknowledged by its holder
// before the two met again, and may replace the entry; who does not has missed something. Only one of
// two that both know it can replace it, since the other one's generation is unknown to him then. Where
// nothing stands, the witness was not told yet, or has lost it, with the name of one who may be going on:
// the first entry is made when both are together, or while there has never been another replica.
#pragma once

#include "io/witness.h"
#include "metadata/superblock.h"

namespace twinblock {

enum class ClaimVerdict {
  kReplace,    // it may be replaced
  kOvertaken,  // it names a generation that this node does not know: its holder was let go on
  kLost,       // nothing stands there, and there is another replica
};

// A claim that this node has on record, and has not spent, is known as well: the answer to an earlier
// request was lost.
ClaimVerdict judge_claim(const WitnessReading& reading, const metadata::NodeRecord& record);

}  // namespace twinblock
