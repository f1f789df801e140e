#include "volume/loss_words.h"

#include "base/units.h"
#include "mirror/relation.h"

namespace twinblock {

std::string named(uint64_t dirty_bytes, uint64_t generation, uint64_t term) {
  return format_size(dirty_bytes) + " (generation " + metadata::format_generation(generation) +
         ", term " + std::to_string(term) + ")";
}

bool knows_the_loss(const SyncFacts& node, const SyncFacts& other) {
  return node.map_valid && relate(kinship(node.generations, other.generations, true)) ==
                               Relation::kDivergedFromBase;
}

std::string written(const SyncFacts& node, const SyncFacts& other) {
  const std::string state = "generation " +
                            metadata::format_generation(node.generations.current) + ", term " +
                            std::to_string(node.term);
  if (!knows_the_loss(node, other))
    return "writes of unknown extent, perhaps all over the volume (" + state + ")";
  return (node.crashed ? "at most " : "") + format_size(node.dirty_bytes) +
         " in blocks written since " + format_time(node.since_s) + " (" + state + ")";
}

}  // namespace twinblock
