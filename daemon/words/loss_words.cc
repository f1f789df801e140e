#include "words/loss_words.h"

#include "base/units.h"

namespace twinblock {

std::string named(uint64_t dirty_bytes, uint64_t generation, uint64_t term) {
  return format_size(dirty_bytes) + " (generation " + metadata::format_generation(generation) +
         ", term " + std::to_string(term) + ")";
}

namespace {

bool has_a_set(const SyncFacts& node, const SyncFacts& other) {
  return node.map_valid && relation_of(node, other) == Relation::kDivergedFromBase;
}

// One that crashed may have written lately in every region, and says "at most" of that.
bool is_of_all(const SyncFacts& node, uint64_t volume_bytes) {
  return !node.crashed && node.dirty_bytes >= volume_bytes;
}

bool either_is_of_all(const SyncFacts& node, const SyncFacts& other, uint64_t volume_bytes) {
  return is_of_all(node, volume_bytes) || is_of_all(other, volume_bytes);
}

}  // namespace

bool knows_the_loss(const SyncFacts& node, const SyncFacts& other, uint64_t volume_bytes) {
  return has_a_set(node, other) && !either_is_of_all(node, other, volume_bytes);
}

std::string written(const SyncFacts& node, const SyncFacts& other, uint64_t volume_bytes) {
  const std::string state = "generation " +
                            metadata::format_generation(node.generations.current) + ", term " +
                            std::to_string(node.term);
  if (has_a_set(node, other) && either_is_of_all(node, other, volume_bytes))
    return "writes, if any, in blocks that differ, at most " + format_size(volume_bytes) + " (" + state + ")";
  if (!has_a_set(node, other))
    return "writes of unknown extent, perhaps all over the volume (" + state + ")";
  return (node.crashed ? "at most " : "") + format_size(node.dirty_bytes) +
         " in blocks written since " + format_time(node.since_s) + " (" + state + ")";
}

}  // namespace twinblock
