// How far a resync is and how fast: bytes, an average and a current rate, and an estimate that is
// only given when there is ground for one. Pure; loop thread only.
#pragma once

#include <cstdint>
#include <optional>

#include "base/units.h"

namespace twinblock {

class Progress {
 public:
  void begin(uint64_t total_bytes, uint64_t now_ns) {
    *this = Progress{};
    active_ = true;
    total_bytes_ = total_bytes;
    began_ns_ = window_began_ns_ = now_ns;
  }
  void update(uint64_t done_bytes, uint64_t total_bytes, uint64_t now_ns) {
    // Both may come from the peer, and writes during a resync make more of it.
    done_bytes_ = done_bytes < total_bytes ? done_bytes : total_bytes;
    total_bytes_ = total_bytes;
    if (now_ns - window_began_ns_ < kWindow_ns) return;
    const uint64_t gained = done_bytes_ > window_done_bytes_ ? done_bytes_ - window_done_bytes_ : 0;
    rate_bytes_per_s_ = per_second(gained, now_ns - window_began_ns_);
    window_began_ns_ = now_ns;
    window_done_bytes_ = done_bytes_;
  }
  void end(uint64_t now_ns) {
    active_ = false;
    duration_ns_ = now_ns - began_ns_;
  }

  [[nodiscard]] bool active() const { return active_; }
  [[nodiscard]] uint64_t done_bytes() const { return done_bytes_; }
  [[nodiscard]] uint64_t total_bytes() const { return total_bytes_; }
  [[nodiscard]] uint64_t duration_ns() const { return duration_ns_; }  // of one that has ended
  // Over the last full window; 0 before the first has passed.
  [[nodiscard]] uint64_t rate_bytes_per_s() const { return rate_bytes_per_s_; }
  // Since begin(), until it ended.
  [[nodiscard]] uint64_t average_bytes_per_s(uint64_t now_ns) const {
    const uint64_t passed_ns = active_ ? now_ns - began_ns_ : duration_ns_;
    return passed_ns == 0 ? 0 : per_second(done_bytes_, passed_ns);
  }
  [[nodiscard]] double percent() const {
    if (total_bytes_ == 0) return 100.0;
    return 100.0 * static_cast<double>(done_bytes_) / static_cast<double>(total_bytes_);
  }
  // nullopt: no ground for an estimate.
  [[nodiscard]] std::optional<uint64_t> remaining_s() const {
    if (!active_ || rate_bytes_per_s_ == 0) return std::nullopt;
    return (total_bytes_ - done_bytes_ + rate_bytes_per_s_ - 1) / rate_bytes_per_s_;
  }

 private:
  static constexpr uint64_t kWindow_ns = 500 * kMillisecond_ns;
  static uint64_t per_second(uint64_t bytes, uint64_t ns) {
    return static_cast<uint64_t>(static_cast<double>(bytes) * 1e9 / static_cast<double>(ns));
  }

  bool active_ = false;
  uint64_t total_bytes_ = 0;
  uint64_t done_bytes_ = 0;
  uint64_t began_ns_ = 0;
  uint64_t duration_ns_ = 0;
  uint64_t window_began_ns_ = 0;
  uint64_t window_done_bytes_ = 0;
  uint64_t rate_bytes_per_s_ = 0;
};

}  // namespace twinblock
