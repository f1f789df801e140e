// Lets reads bypass the loop without seeing a write that may yet be undone by a crash: a counter
// per hash of a 64 KiB region, raised before a write touches the local disk and lowered after it
// was acknowledged or failed. A worker reads the file first and asks then: if no write is in flight
// there, all that it read has been acknowledged. If there is one, the read goes through the loop
// and waits for the range. The only state that the loop and the workers share; atomics, no lock.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "base/limits.h"

namespace twinblock {

class InflightFilter {
 public:
  // Loop thread.
  void raise(uint64_t offset_bytes, uint64_t length_bytes) { add(offset_bytes, length_bytes, 1); }
  void lower(uint64_t offset_bytes, uint64_t length_bytes) {
    add(offset_bytes, length_bytes, ~uint32_t{0});
  }
  // Any thread, after the data has been read.
  [[nodiscard]] bool quiet(uint64_t offset_bytes, uint64_t length_bytes) const {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    bool quiet = true;
    each(offset_bytes, length_bytes, [&](size_t slot) {
      if (counters_[slot].load(std::memory_order_acquire) != 0) quiet = false;
    });
    return quiet;
  }

 private:
  static constexpr uint64_t kRegionBytes = 64 * kKiB;
  static constexpr size_t kSlots = 4096;

  template <typename F>
  static void each(uint64_t offset_bytes, uint64_t length_bytes, F&& visit) {
    const uint64_t first = offset_bytes / kRegionBytes;
    const uint64_t last = (offset_bytes + length_bytes - 1) / kRegionBytes;
    if (last - first >= kSlots) {
      for (size_t slot = 0; slot < kSlots; ++slot) visit(slot);
      return;
    }
    // Regions next to each other have slots next to each other.
    for (uint64_t region = first; region <= last; ++region) visit(region % kSlots);
  }
  void add(uint64_t offset_bytes, uint64_t length_bytes, uint32_t delta) {
    each(offset_bytes, length_bytes,
         [&](size_t slot) { counters_[slot].fetch_add(delta, std::memory_order_seq_cst); });
  }

  std::array<std::atomic<uint32_t>, kSlots> counters_{};
};

}  // namespace twinblock
