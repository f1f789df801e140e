#include "mirror/link_demand.h"

#include <algorithm>

namespace twinblock {

void LinkDemand::begin(uint64_t bytes, uint64_t now_ns) {
  under_way_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  uint64_t began_ns = began_ns_.load(std::memory_order_relaxed);
  // A worker may bring a time from before another one's.
  const uint64_t elapsed_ns = now_ns - std::min(began_ns, now_ns);
  if (elapsed_ns >= kWindow_ns &&
      began_ns_.compare_exchange_strong(began_ns, now_ns, std::memory_order_relaxed)) {
    // Spread over the time until now, and nothing came in the rest of it.
    const uint64_t ended = bytes_.exchange(0, std::memory_order_relaxed);
    bytes_before_.store(elapsed_ns < 2 * kWindow_ns ? ended * kWindow_ns / elapsed_ns : 0,
                        std::memory_order_relaxed);
  }
  bytes_.fetch_add(bytes, std::memory_order_relaxed);
}

bool LinkDemand::reaches(uint64_t rate_bytes_per_s, double part) const {
  const uint64_t came = std::max(bytes_.load(std::memory_order_relaxed),
                                 bytes_before_.load(std::memory_order_relaxed));
  const uint64_t carried = rate_bytes_per_s / (kSecond_ns / kWindow_ns);
  return static_cast<double>(came) >= static_cast<double>(carried) * part;
}

bool LinkDemand::busy(uint64_t rate_bytes_per_s) const {
  return reaches(rate_bytes_per_s, kBusyPart);
}

bool LinkDemand::full(uint64_t rate_bytes_per_s) const {
  return reaches(rate_bytes_per_s, kFullPart);
}

}  // namespace twinblock
