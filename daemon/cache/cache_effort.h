// How much the cache of reads may cost. Two questions, which the plugin's workers ask: is it worth asking for a read, and
// is there time left to learn what was read or written? Owned by ContentCache; any thread. Atomics, no lock: what gets lost
// between two threads is a figure that the next one mends.
//
// Worth asking: where the page cache answers, a read costs little more than the copy of the data, and a hit would save
// nothing. So the time is kept that a block has lately taken that was read from the disk. While it is short, the cache is left
// alone; one request in some is timed, which tells when that changes.
//
// Time to learn: a digest and a copy cost a processor about a microsecond a block, which is nothing beside a disk that is
// waited for, and much beside clients that stream. So learning gets a part of one processor's time as an advance, which is
// small for writes, as nobody has asked for those blocks yet. What turns out to be worth it earns more: each hit, and each
// block whose equal has been seen lately (EqualProbe), which is known without learning it. Where clients
// write clones all is learned; where nothing is ever equal nor asked for again, next to nothing. What is not learned now is
// when it is read again.
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
  static constexpr uint64_t kTimeEvery = 32;
  // What learning a block costs, about; the part of the time that is advanced for it; and how much of that is saved up.
  static constexpr int64_t kLearnBlock_ns = 1'000;
  static constexpr int64_t kReadsPart = 40;
  static constexpr int64_t kWritesPart = 400;
  static constexpr int64_t kSavedMax_ns = static_cast<int64_t>(50 * kMillisecond_ns);
  // How many blocks may be learned for one that is equal to another: where a quarter is, all are.
  static constexpr uint64_t kLearnForEqual = 4;

  // Whether a read of the disk takes so long that a hit saves anything.
  [[nodiscard]] bool pays() const {
    return blocks_read_.load(std::memory_order_relaxed) < kBlocksBelieved ||
           block_ns_.load(std::memory_order_relaxed) >= kWorthReading_ns;
  }
  // Whether a read is to be timed; for each once.
  [[nodiscard]] bool times() { return pays() || timed_.fetch_add(1, std::memory_order_relaxed) % kTimeEvery == 0; }
  // So many blocks were read from the disk.
  void disk_took(uint64_t blocks, uint64_t ns);
  // Takes the time from what is left, which one that is long may overdraw.
  [[nodiscard]] bool may_learn_read(uint64_t blocks, uint64_t now_ns) { return reads_.take(blocks, now_ns); }
  [[nodiscard]] bool may_learn_write(uint64_t blocks, uint64_t now_ns) { return writes_.take(blocks, now_ns); }
  // So many blocks that clients read were here.
  void found(uint64_t blocks) { reads_.earn(blocks); }
  // Of what clients read or wrote so many are, about, equal to others.
  void equal(uint64_t blocks) {
    reads_.earn(blocks * kLearnForEqual);
    writes_.earn(blocks * kLearnForEqual);
  }

 private:
  class Time {
   public:
    explicit Time(int64_t part) : part_(part) {}
    bool take(uint64_t blocks, uint64_t now_ns);
    void earn(uint64_t blocks);

   private:
    void save(int64_t ns);

    const int64_t part_;
    std::atomic<int64_t> saved_ns_{kSavedMax_ns};
    std::atomic<uint64_t> saved_at_ns_{0};
  };

  std::atomic<uint64_t> blocks_read_{0};
  std::atomic<uint64_t> block_ns_{0};
  std::atomic<uint64_t> timed_{0};
  Time reads_{kReadsPart};
  Time writes_{kWritesPart};
};

}  // namespace twinblock
