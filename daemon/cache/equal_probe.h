// Whether equal blocks have come lately, for next to nothing: of all blocks one in 64 is looked at, chosen by what it holds,
// so that of equal ones all are chosen or none, and whether its hash is in a small table. What it says is about how many are
// equal, and nobody relies on any of them: no keyed digest is needed. Owned by ContentCache; any thread. Atomics, no lock: a
// hash that gets lost between two threads is one that was not seen.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace twinblock {

class EqualProbe {
 public:
  static constexpr uint64_t kEvery = 64;

  // Remembers so many times that many blocks, at most a million in all.
  explicit EqualProbe(uint64_t hashes) : hashes_(std::clamp<uint64_t>(hashes, 1, kHashesMax)) {}

  // Of these whole blocks, about how many have equals among the last that were asked about.
  uint64_t equal(std::span<const std::byte> blocks);
  [[nodiscard]] uint64_t memory_bytes() const { return hashes_.size() * sizeof hashes_[0]; }

 private:
  static constexpr uint64_t kHashesMax = 16'384;
  std::vector<std::atomic<uint32_t>> hashes_;  // 0: none
};

}  // namespace twinblock
