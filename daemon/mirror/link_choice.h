// Which link a frame takes: the one on which it is expected to be answered first. Pure.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/checks.h"
#include "base/units.h"

namespace twinblock {

// A link as it is now.
struct LinkLoad {
  uint64_t in_flight_bytes = 0;   // sent or queued, and not answered yet
  uint64_t rate_bytes_per_s = 0;  // more than 0
  uint64_t round_trip_ns = 0;     // without any queue
  bool proven = true;             // the rate was measured, or is configured
};

// What a link gets whose rate is only assumed, and may be far less, until its answers tell.
constexpr uint64_t kUnprovenBytesMax = 256 * kKiB;

// When a frame of `bytes` is expected to be answered, in ns from now.
[[nodiscard]] inline uint64_t expected_ns(const LinkLoad& load, uint64_t bytes) {
  TB_CHECK(load.rate_bytes_per_s > 0, "a link that carries nothing has no answer to expect");
  const double queue = static_cast<double>(load.in_flight_bytes + bytes);
  return load.round_trip_ns + static_cast<uint64_t>(queue * static_cast<double>(kSecond_ns) /
                                                    static_cast<double>(load.rate_bytes_per_s));
}

// The index of the link for a frame of `bytes`; the earlier one when two are equal. `loads` is not
// empty.
[[nodiscard]] inline size_t choose_link(std::span<const LinkLoad> loads, uint64_t bytes) {
  TB_CHECK(!loads.empty(), "a frame is sent while a link is up");
  const auto full = [](const LinkLoad& load) {
    return !load.proven && load.in_flight_bytes >= kUnprovenBytesMax;
  };
  const auto sooner = [bytes, full](const LinkLoad& a, const LinkLoad& b) {
    if (full(a) != full(b)) return full(b);
    return expected_ns(a, bytes) < expected_ns(b, bytes);
  };
  return static_cast<size_t>(std::min_element(loads.begin(), loads.end(), sooner) - loads.begin());
}

}  // namespace twinblock
