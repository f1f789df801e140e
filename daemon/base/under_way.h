// Counts what is under way, so that who looks now and then can tell for how long the oldest of it has been so, at
// least. In two slots: what begins is counted in the one, and when a look finds nothing left in the other, the two change
// places. Whatever is in that other one had begun by then. No lock and no list: a beginning and an end are one atomic
// addition each.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>

namespace twinblock {

class alignas(64) UnderWay {
 public:
  // Any thread. The slot is for end(), on any thread.
  [[nodiscard]] uint8_t begin() {
    const uint8_t slot = current_.load(std::memory_order_relaxed);
    counts_[slot].fetch_add(1, std::memory_order_relaxed);
    return slot;
  }
  void end(uint8_t slot) { counts_[slot].fetch_sub(1, std::memory_order_relaxed); }
  // Of all at once: nobody will say that it ended.
  void forget() {
    for (auto& count : counts_) count.store(0, std::memory_order_relaxed);
  }

  // One thread. A moment since which something has been under way that still is; nothing: all there is has begun since
  // the last look. The moment is one of a look, and stays until what it is about has ended.
  [[nodiscard]] std::optional<uint64_t> look(uint64_t now_ns) {
    uint8_t current = current_.load(std::memory_order_relaxed);
    if (left_in(1 - current) == 0) {
      current = 1 - current;
      current_.store(current, std::memory_order_relaxed);
      since_ns_ = now_ns;
    }
    return left_in(1 - current) > 0 ? std::optional(since_ns_) : std::nullopt;
  }

 private:
  [[nodiscard]] uint64_t left_in(int slot) const {
    return counts_[static_cast<size_t>(slot)].load(std::memory_order_relaxed);
  }

  std::array<std::atomic<uint64_t>, 2> counts_{};
  std::atomic<uint8_t> current_{0};
  uint64_t since_ns_ = 0;
};

}  // namespace twinblock
