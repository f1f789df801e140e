// Whether what clients write would keep the links busy if it travelled raw, and how much of it is
// under way. Where it would not, compressing it costs processor time and gains little: nobody waits
// behind it. Where it would fill them, each write waits behind the others. Pure; any threads
// side by side, so that everything is atomic, and a report that another one overtakes may be
// missed.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/checks.h"
#include "base/units.h"

namespace twinblock {

class LinkDemand {
 public:
  // What is looked at: short enough that a burst is noticed while it lasts.
  static constexpr uint64_t kWindow_ns = 100 * kMillisecond_ns;
  // Of the links' rate. A writer that waits for each write before the next is above it as soon as
  // the wire is a quarter of what it waits for.
  static constexpr double kBusyPart = 0.25;
  static constexpr double kFullPart = 0.75;

  // So much is to travel to the peer now (monotonic time), …
  void begin(uint64_t bytes, uint64_t now_ns);
  // … and has been acknowledged.
  void end(uint64_t bytes) {
    const uint64_t before = under_way_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
    TB_CHECK(before >= bytes, "no more is acknowledged than has begun to travel");
  }
  // Whether in this window, or in the one before, that part of what links of this rate carry came.
  [[nodiscard]] bool busy(uint64_t rate_bytes_per_s) const;
  [[nodiscard]] bool full(uint64_t rate_bytes_per_s) const;
  [[nodiscard]] uint64_t under_way_bytes() const {
    return under_way_bytes_.load(std::memory_order_relaxed);
  }

 private:
  [[nodiscard]] bool reaches(uint64_t rate_bytes_per_s, double part) const;

  std::atomic<uint64_t> under_way_bytes_{0};
  std::atomic<uint64_t> began_ns_{0};
  std::atomic<uint64_t> bytes_{0};         // of this window so far
  std::atomic<uint64_t> bytes_before_{0};  // of the one before
};

}  // namespace twinblock
