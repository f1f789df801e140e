// When a link that was lost, or could not be joined, is tried again. Pure.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/units.h"

namespace twinblock {

class LinkDamping {
 public:
  static constexpr uint64_t kRetryMin_ns = 50 * kMillisecond_ns;
  static constexpr uint64_t kRetryMax_ns = 2 * kSecond_ns;
  // A link that was up for less than this flaps.
  static constexpr uint64_t kSteady_ns = 5 * kSecond_ns;
  static constexpr uint64_t kPenaltyMin_ns = 500 * kMillisecond_ns;
  static constexpr uint64_t kPenaltyMax_ns = 8 * kSecond_ns;

  // The link is lost after `up_for_ns`; how long it is left alone.
  uint64_t lost(uint64_t up_for_ns) {
    retry_ns_ = 0;
    penalty_ns_ = up_for_ns >= kSteady_ns ? 0
                  : penalty_ns_ == 0      ? kPenaltyMin_ns
                                          : std::min(penalty_ns_ * 2, kPenaltyMax_ns);
    return penalty_ns_;
  }
  // An attempt has failed.
  uint64_t failed() {
    retry_ns_ = std::clamp(retry_ns_ * 2, kRetryMin_ns, kRetryMax_ns);
    return retry_ns_;
  }
  void joined() { retry_ns_ = 0; }

 private:
  uint64_t retry_ns_ = 0;
  uint64_t penalty_ns_ = 0;
};

}  // namespace twinblock
