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
  bool lost_it = false;           // had the frame, and lost its connection before that was answered
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
//
// A link that is back after it kept the frame for itself may do so again, however good it looks: small
// frames may pass where large ones do not, and nothing is known of its new connection. So the frame goes
// over another one, if that is expected to be answered within `patience_ns`: a planned renewal of a fast
// link sends nothing over a slow one.
[[nodiscard]] inline size_t choose_link(std::span<const LinkLoad> loads, uint64_t bytes,
                                        uint64_t patience_ns = 0) {
  TB_CHECK(!loads.empty(), "a frame is sent while a link is up");
  const auto full = [](const LinkLoad& load) {
    return !load.proven && load.in_flight_bytes >= kUnprovenBytesMax;
  };
  const bool lost_it = std::any_of(loads.begin(), loads.end(), [](const LinkLoad& load) { return load.lost_it; });
  const auto keeps_it = [&](const LinkLoad& load) {
    return lost_it && (load.lost_it || full(load) || expected_ns(load, bytes) > patience_ns);
  };
  const auto sooner = [&](const LinkLoad& a, const LinkLoad& b) {
    if (keeps_it(a) != keeps_it(b)) return keeps_it(b);
    if (full(a) != full(b)) return full(b);
    return expected_ns(a, bytes) < expected_ns(b, bytes);
  };
  return static_cast<size_t>(std::min_element(loads.begin(), loads.end(), sooner) - loads.begin());
}

}  // namespace twinblock
