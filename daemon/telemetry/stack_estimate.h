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
  // What one sample tells, of the way of a write from this node's engine to the queue of its
  // device, and of the answer from the peer's engine to its device.
  struct Sample {
    uint64_t length_bytes = 0;
    uint64_t out_ns = 0;
    uint64_t back_ns = 0;
    // Others lay in the socket or in the device's queue: the write waited for the link …
    bool behind_others = false;
    bool peer_full = false;  // … or until the peer read
  };

  void sampled(const Sample& sample) {
    const size_t index = size_class_of(sample.length_bytes);
    add(back_ns_[index], sample.back_ns, 8);
    // A wait for the link is none of the kernels', and hides what they took: in the socket, and behind
    // that for what TCP lets lie in the device's queue, which is two packets or a millisecond's worth.
    if (!sample.behind_others) add(out_ns_[index], sample.out_ns, 8);
    if (sample.peer_full && sample.behind_others)
      held_ += (1 - held_) / 8;
    else
      held_ -= held_ / 8;
  }

  // Of `round_trip_ns`, the peer's time apart. Before any sample: what a nominal rate (0: not
  // known) leaves; without one, all of it.
  [[nodiscard]] uint64_t expected_ns(uint64_t length_bytes, uint64_t round_trip_ns,
                                     uint64_t rate_bits_per_s) const {
    const size_t wanted = size_class_of(length_bytes);
    // The nearest class that was sampled.
    for (size_t away = 0; away < kSizeClasses; ++away) {
      if (away <= wanted && back_ns_[wanted - away] != 0) return both_ns(wanted - away);
      if (wanted + away < kSizeClasses && back_ns_[wanted + away] != 0)
        return both_ns(wanted + away);
    }
    if (rate_bits_per_s == 0) return round_trip_ns;
    return round_trip_ns - std::min(round_trip_ns, link_ns(length_bytes, rate_bits_per_s));
  }

  // Which part of the time that is neither the kernels' nor the peer's was a wait for the peer to
  // read, lately.
  [[nodiscard]] double held_by_peer() const { return held_ < kHeldLeast ? 0 : held_; }

 private:
  // Less is chance: a window that was small for a moment.
  static constexpr double kHeldLeast = 0.05;

  [[nodiscard]] static uint64_t link_ns(uint64_t bytes, uint64_t rate_bits_per_s) {
    if (rate_bits_per_s == 0) return 0;
    return static_cast<uint64_t>(static_cast<double>(bytes) * 8e9 /
                                 static_cast<double>(rate_bits_per_s));
  }
  static void add(uint64_t& mean_ns, uint64_t sample_ns, uint64_t parts) {
    mean_ns = mean_ns == 0 ? sample_ns + 1 : mean_ns - mean_ns / parts + sample_ns / parts;
  }
  [[nodiscard]] uint64_t both_ns(size_t index) const { return out_ns_[index] + back_ns_[index]; }

  std::array<uint64_t, kSizeClasses> out_ns_{}, back_ns_{};  // means; 0: no sample yet
  double held_ = 0;
};

}  // namespace twinblock
