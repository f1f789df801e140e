// What one side of a split brain holds that the other one lacks, in words: of that speak the answers
// to `resolve`, `status` and `why`. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "mirror/generation.h"

namespace twinblock {

// A replica's state, as an order names it.
std::string named(uint64_t dirty_bytes, uint64_t generation, uint64_t term);

// Whether a node's set says what the other one lacks. Where its partner was another replica than the
// one that is there (a disk that was put back), it says little of that.
// Nor where either one's set is of every block, as after a rollback: then neither set tells what was written.
bool knows_the_loss(const SyncFacts& node, const SyncFacts& other, uint64_t volume_bytes);

// What a node wrote alone. After a crash it knows regions, not blocks.
std::string written(const SyncFacts& node, const SyncFacts& other, uint64_t volume_bytes);

}  // namespace twinblock
