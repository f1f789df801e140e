// What the kernels of both hosts take of a round trip, by the size of the write: learnt from the
// samples, and expected of the writes between them. When a frame comes into a kernel is known of
// each; it is the way out of the two that only samples tell, and it varies little. Loop thread
// only.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "telemetry/stages.h"

namespace twinblock {

class StackEstimate {
 public:
  void sampled(uint64_t length_bytes, uint64_t stack_ns) {
    uint64_t& mean = mean_ns_[size_class_of(length_bytes)];
    mean = mean == 0 ? stack_ns + 1 : mean - mean / 8 + stack_ns / 8;
  }
  // Of `round_trip_ns`, the peer's time apart. Before any sample: what a nominal rate (0: not
  // known) leaves; without one, all of it.
  [[nodiscard]] uint64_t expected_ns(uint64_t length_bytes, uint64_t round_trip_ns,
                                     uint64_t rate_bits_per_s) const {
    const size_t wanted = size_class_of(length_bytes);
    // The nearest class that was sampled.
    for (size_t away = 0; away < kSizeClasses; ++away) {
      if (away <= wanted && mean_ns_[wanted - away] != 0) return mean_ns_[wanted - away];
      if (wanted + away < kSizeClasses && mean_ns_[wanted + away] != 0)
        return mean_ns_[wanted + away];
    }
    if (rate_bits_per_s == 0) return round_trip_ns;
    const auto wire_ns = static_cast<uint64_t>(static_cast<double>(length_bytes) * 8e9 /
                                               static_cast<double>(rate_bits_per_s));
    return round_trip_ns - std::min(round_trip_ns, wire_ns);
  }

 private:
  std::array<uint64_t, kSizeClasses> mean_ns_{};  // 0: no sample yet
};

}  // namespace twinblock
