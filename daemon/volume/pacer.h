// How fast a resync or a verification goes. By itself it takes what the clients leave: many
// requests at a time while no client writes, few and short ones beside them, so that their writes
// do not queue behind it. Or as fast as the operator says, or not at all. Pure; loop thread only.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/limits.h"

namespace twinblock {

class Pacer {
 public:
  struct Allowance {
    size_t runs = 0;          // that may be outstanding
    uint64_t run_bytes = 0;   // the longest one
    uint64_t hole_bytes = 0;  // … of a hole, which costs next to nothing but holds its range
  };

  void pause() { paused_ = true; }
  // After pause().
  void resume() { paused_ = false; }
  // 0: by itself.
  void set_rate(uint64_t bytes_per_s) {
    rate_bytes_per_s_ = bytes_per_s;
    credit_bytes_ = 0;
    paused_ = false;
  }
  [[nodiscard]] bool paused() const { return paused_; }
  [[nodiscard]] uint64_t rate_bytes_per_s() const { return rate_bytes_per_s_; }

  // `busy`: clients write just now.
  [[nodiscard]] Allowance allowance(bool busy, uint64_t now_ns) {
    if (paused_) return {};
    if (rate_bytes_per_s_ == 0)
      return busy ? Allowance{limits::kResyncRunsBusyMax, limits::kResyncRunBusyBytesMax,
                              limits::kResyncHoleBytesMax}
                  : Allowance{limits::kResyncRunsMax, limits::kResyncRunBytesMax,
                              limits::kFrameHoleBytesMax};
    refill(now_ns);
    return {credit_bytes_ > 0 ? limits::kResyncRunsMax : 0, limits::kResyncRunBytesMax,
            busy ? limits::kResyncHoleBytesMax : limits::kFrameHoleBytesMax};
  }
  // A run of `bytes` began.
  void began(uint64_t bytes) { credit_bytes_ -= static_cast<int64_t>(bytes); }

 private:
  void refill(uint64_t now_ns) {
    const uint64_t passed_ns = std::min<uint64_t>(now_ns - refilled_ns_, kSecond_ns / 10);
    const double gained =
        static_cast<double>(rate_bytes_per_s_) * static_cast<double>(passed_ns) / 1e9;
    if (gained < 1) return;
    refilled_ns_ = now_ns;
    // Never more than a tenth of a second's worth: a burst is what the rate is to prevent.
    const auto most = static_cast<int64_t>(rate_bytes_per_s_ / 10 + 1);
    credit_bytes_ = std::min(credit_bytes_ + static_cast<int64_t>(gained), most);
  }

  bool paused_ = false;
  uint64_t rate_bytes_per_s_ = 0;
  int64_t credit_bytes_ = 0;
  uint64_t refilled_ns_ = 0;
};

}  // namespace twinblock
