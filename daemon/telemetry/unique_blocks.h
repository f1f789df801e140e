// How many different blocks clients have written lately: what a resync would have to carry after an
// outage of so long, where writing a block twice counts once. An estimate, by HyperLogLog (Flajolet,
// Fusy, Gandouet, Meunier: "HyperLogLog: the analysis of a near-optimal cardinality estimation
// algorithm", 2007), off by some 2%: one sketch a minute, and the greatest of the last ones. Fixed
// memory, 250 KiB. Loop thread only.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/units.h"

namespace twinblock {

class UniqueBlocks {
 public:
  static constexpr uint64_t kBlock_bytes = 4 * kKiB;
  static constexpr size_t kMinutesMax = 60;

  UniqueBlocks() : minutes_(kMinutesMax + 1) {}
  void record(uint64_t offset_bytes, uint64_t length_bytes, uint64_t now_ns);
  // Of the last so many minutes, at most kMinutesMax, and of the one that has begun.
  [[nodiscard]] uint64_t bytes(size_t minutes, uint64_t now_ns) const;

 private:
  static constexpr unsigned kIndexBits = 12;
  using Sketch = std::array<uint8_t, size_t{1} << kIndexBits>;
  struct Minute {
    uint64_t number = 0;  // since the clock's zero, plus one; 0: nothing was recorded
    Sketch sketch{};
  };

  std::vector<Minute> minutes_;  // by its number
};

}  // namespace twinblock
