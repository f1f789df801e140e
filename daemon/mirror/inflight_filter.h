// Lets reads bypass the loop without seeing a write that may yet be undone by a crash, or a part of
// one: for each hash of a 64 KiB region, how many writes are in flight there and how many have ever
// begun. Both are raised before a write touches the local disk; the first is lowered after it was
// acknowledged or failed.
//
// A worker asks before it reads the file, and again afterwards. If no write was in flight before
// and none has begun since, what it read is whole and has been acknowledged. Otherwise the read
// goes through the loop and waits for the range. The question afterwards alone would miss a write
// that began and ended while the worker was reading, or was not running: half of it may be in what
// was read. The only state that the loop and the workers share; atomics, no lock.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>

#include "base/checks.h"
#include "base/limits.h"

namespace twinblock {

class InflightFilter {
 public:
  // What mark() saw, for unchanged().
  using Mark = uint64_t;

  // Loop thread.
  void raise(uint64_t offset_bytes, uint64_t length_bytes) {
    each(offset_bytes, length_bytes, [&](size_t slot) {
      counters_[slot].fetch_add(kOneBegun + 1, std::memory_order_seq_cst);
    });
  }
  void lower(uint64_t offset_bytes, uint64_t length_bytes) {
    each(offset_bytes, length_bytes, [&](size_t slot) {
      const uint64_t before = counters_[slot].fetch_sub(1, std::memory_order_seq_cst);
      TB_CHECK(before % kOneBegun != 0, "a write that ends in a region has begun there");
    });
  }
  // Any thread, before the data is read; nothing: a write is in flight there.
  [[nodiscard]] std::optional<Mark> mark(uint64_t offset_bytes, uint64_t length_bytes) const {
    bool quiet = true;
    const Mark begun = look(offset_bytes, length_bytes, quiet);
    // The data is read after this.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    return quiet ? std::optional(begun) : std::nullopt;
  }
  // Any thread, after the data has been read: whether no write has begun there since mark().
  [[nodiscard]] bool unchanged(uint64_t offset_bytes, uint64_t length_bytes, Mark mark) const {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    bool quiet = true;
    return look(offset_bytes, length_bytes, quiet) == mark && quiet;
  }
  // Any thread: whether no write is in flight there.
  [[nodiscard]] bool quiet(uint64_t offset_bytes, uint64_t length_bytes) const {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    bool quiet = true;
    (void)look(offset_bytes, length_bytes, quiet);
    return quiet;
  }

 private:
  static constexpr uint64_t kRegionBytes = 64 * kKiB;
  static constexpr size_t kSlots = 4096;
  // A counter's lower half: writes in flight; its upper half: writes that have begun, modulo 2^32.
  static constexpr uint64_t kOneBegun = uint64_t{1} << 32;

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
  // How many writes have begun in all these slots: each of the numbers only grows, so that their
  // sum stays the same only if all do.
  Mark look(uint64_t offset_bytes, uint64_t length_bytes, bool& quiet) const {
    Mark begun = 0;
    each(offset_bytes, length_bytes, [&](size_t slot) {
      const uint64_t counter = counters_[slot].load(std::memory_order_acquire);
      begun += counter / kOneBegun;
      if (counter % kOneBegun != 0) quiet = false;
    });
    return begun;
  }

  std::array<std::atomic<uint64_t>, kSlots> counters_{};
};

}  // namespace twinblock
