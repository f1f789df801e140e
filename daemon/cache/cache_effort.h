// How much the cache of reads may cost. Two questions, which the plugin's workers ask: is it worth asking for a read, and
// is there time left to learn what was read or written? Owned by ContentCache; any thread. Atomics, no lock: what gets lost
// between two threads is a figure that the next one mends.
//
// Worth asking: where the page cache answers, a read costs little more than the copy of the data, and a hit would save
// nothing. So the time is kept that a block has lately taken that was read from the disk. While it is short, the cache is left
// alone but for one request in some, which tells when that changes.
//
// Time to learn: a digest and a copy cost a processor about a microsecond a block, which is nothing beside a disk that is
// waited for, and much beside clients that stream. So all learning together gets a part of one processor's time and no more; what
// is not learned now is when it is read again.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/units.h"

namespace twinblock {

class CacheEffort {
 public:
  // Less than that for a block of what was read is the page cache, or as good as that; …
  static constexpr uint64_t kWorthReading_ns = 2'000;
  // … which is not believed before so many have been read.
  static constexpr uint64_t kBlocksBelieved = 16'384;
  static constexpr uint64_t kAskEvery = 32;
  // What learning a block costs, about; the part of the time that all of it may take; and how much of that is saved up.
  static constexpr int64_t kLearnBlock_ns = 1'000;
  static constexpr int64_t kLearnPart = 40;
  static constexpr int64_t kSavedMax_ns = static_cast<int64_t>(50 * kMillisecond_ns);

  [[nodiscard]] bool pays() const {
    return blocks_read_.load(std::memory_order_relaxed) < kBlocksBelieved ||
           block_ns_.load(std::memory_order_relaxed) >= kWorthReading_ns;
  }
  // For each read once.
  [[nodiscard]] bool asks() { return pays() || asked_.fetch_add(1, std::memory_order_relaxed) % kAskEvery == 0; }
  // So many blocks were read from the disk.
  void disk_took(uint64_t blocks, uint64_t ns);
  // Takes the time from what is left, which one that is long may overdraw.
  [[nodiscard]] bool may_learn(uint64_t blocks, uint64_t now_ns);

 private:
  std::atomic<uint64_t> blocks_read_{0};
  std::atomic<uint64_t> block_ns_{0};
  std::atomic<uint64_t> asked_{0};
  std::atomic<int64_t> saved_ns_{kSavedMax_ns};
  std::atomic<uint64_t> saved_at_ns_{0};
};

}  // namespace twinblock
