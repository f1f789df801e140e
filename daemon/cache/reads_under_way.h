// Which contents readers are reading from the disk now, by digest: machines that do the same at the same time ask for equal
// blocks before the first of them has come. Who needs one that another reader has begun waits for that one's end, finds it in
// the cache, or reads it by himself after all: it may have failed, or have brought something else. Owned by ContentCache;
// any thread.
//
// Nobody waits for ever, nor in a circle: who waits has ended what he reads himself, and waits until a time that
// the other one's begin sets. Nothing that is told here is believed: what lies at a place, the PlaceIndex has said, and what a
// digest stands for, the ContentStore says.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/limits.h"
#include "base/units.h"
#include "cache/content_digest.h"
#include "cache/place_index.h"

namespace twinblock {

class ReadsUnderWay {
 public:
  // Of so many contents at a time, at most some thousand.
  explicit ReadsUnderWay(uint64_t slots) : slots_(std::clamp<uint64_t>(slots, 1, kSlotsMax)) {}

  class Reading {
   public:
    explicit Reading(uint64_t began_ns) : until_ns_(began_ns + limits::kJoinedReadPatience_ns) {}
    // Everybody goes on. Once, by who reads.
    void end();
    [[nodiscard]] bool awaited() const { return awaited_.load(std::memory_order_relaxed); }
    // Whether there is nothing to wait for any more.
    [[nodiscard]] bool over(uint64_t now_ns) const {
      return ended_.load(std::memory_order_acquire) || now_ns >= until_ns_;
    }
    // For it to end; blocks.
    void wait(uint64_t now_ns);

   private:
    friend class ReadsUnderWay;
    const uint64_t until_ns_;
    std::atomic<bool> ended_{false};
    std::atomic<bool> awaited_{false};
    // A lock, for the standard library's condition needs one: who has to wait for the disk does not mind.
    std::mutex lock_;
    std::condition_variable end_;
  };

  // Of each place whose content is known, and which is not in `found`: who is reading that (others[i]), or nobody yet, and
  // then it is `mine` from now on.
  void begin(const std::shared_ptr<Reading>& mine, std::span<const PlaceIndex::Place> places,
             const std::vector<bool>& found, std::span<std::shared_ptr<Reading>> others, uint64_t now_ns);
  // With what each slot may keep alive.
  [[nodiscard]] uint64_t memory_bytes() const { return slots_.size() * (sizeof(Slot) + kReadingBytes); }

 private:
  // As many as readers have under way. Two that would lie in the same slot do without each other.
  static constexpr uint64_t kSlotsMax = 4096;
  struct Slot {
    ContentTag tag{};
    std::shared_ptr<Reading> reading;  // one that is over counts for nothing
  };
  static constexpr uint64_t kReadingBytes = sizeof(Reading) + 2 * sizeof(void*);
  // Held for some tens of nanoseconds a block that is to be read from a disk.
  std::mutex lock_;
  std::vector<Slot> slots_;
};

}  // namespace twinblock
