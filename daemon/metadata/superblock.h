// What a node knows about itself for good, and its coding. Pure; any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"
#include "metadata/disk_format.h"

namespace twinblock::metadata {

using Uuid = std::array<uint8_t, 16>;

// The identity of a history of writes (design, section 6). 0 is no generation.
struct Generations {
  uint64_t current = 0;
  uint64_t base = 0;  // the last one that both nodes shared; equals current while they still do
  std::array<uint64_t, kHistoryEntries> history{};  // older ones, latest first; 0: none

  bool operator==(const Generations&) const = default;
  [[nodiscard]] bool knows(uint64_t generation) const;  // current, base or history
  // A new history begins: `fresh` becomes current; what was current stays the base.
  void advance(uint64_t fresh);
  // Both nodes share the current generation from now on: it becomes the base, too.
  void settle();
};

struct NodeRecord {
  Uuid volume_uuid{};
  std::string volume;
  std::string node;
  uint64_t size_bytes = 0;
  Generations generations;
  bool primary = false;
  bool peer_primary = false;
  bool inconsistent = false;
  bool dirty = false;
  bool shared = false;  // the peer may have recorded the current generation as its own

  bool operator==(const NodeRecord&) const = default;
};

// One 4 KiB copy.
std::array<std::byte, sizeof(Superblock)> encode(const NodeRecord& record, uint64_t sequence);

struct Loaded {
  bool blank = false;  // an empty or all-zero file: no `init` yet
  NodeRecord record;
  uint64_t sequence = 0;
  std::string warning;  // one copy was damaged and the other is used
};
// Reads both copies from the whole metadata file. Refuses, and never re-creates, when neither copy
// is good but something is there: the error says so and what to do.
Result<Loaded> load(std::span<const std::byte> file, const std::string& path);

std::string format_generation(uint64_t generation);  // 16 hex digits
std::string format_uuid(const Uuid& uuid);

}  // namespace twinblock::metadata
