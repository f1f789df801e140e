// How long a link may be silent while another one lives. A link that was given up for that, is tried at
// once, and is back, was not dead: where that happens again and again, it is waited for longer, up to
// a limit, and after a while without it no longer. Of one that was left alone first, as it flaps, nobody
// knows what it was meanwhile. Pure.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/units.h"

namespace twinblock {

class LinkPatience {
 public:
  // As often doubled at the most.
  static constexpr unsigned kDoublingsMax = 3;
  // A link that is back within this was given up wrongly. Not much more than it takes to join: one
  // that was dead for a moment was given up rightly, however often it happens.
  static constexpr uint64_t kBack_ns = 200 * kMillisecond_ns;
  // Losses further apart than this have nothing to do with each other; after as long without one
  // the limit is halved.
  static constexpr uint64_t kDecay_ns = 60 * kSecond_ns;

  // `timeout_ns` as configured; never more than `most_ns`, which is not less.
  LinkPatience(uint64_t timeout_ns, uint64_t most_ns) : timeout_ns_(timeout_ns), most_ns_(most_ns) {}

  [[nodiscard]] uint64_t limit_ns(uint64_t now_ns) const {
    return std::max(timeout_ns_, std::min(timeout_ns_ << doublings(now_ns), most_ns_));
  }
  [[nodiscard]] bool raised(uint64_t now_ns) const { return limit_ns(now_ns) > timeout_ns_; }

  // It is given up for its silence, and tried again at once, or left alone (LinkDamping).
  void given_up(uint64_t now_ns, bool left_alone) {
    back_until_ns_ = left_alone ? 0 : now_ns + kBack_ns;
  }
  // It is up again. Whether the limit is higher now.
  bool returned(uint64_t now_ns) {
    const bool wrongly = back_until_ns_ != 0 && now_ns <= back_until_ns_;
    back_until_ns_ = 0;
    if (!wrongly) return false;
    const uint64_t before_ns = limit_ns(now_ns);
    const bool again = wrong_ns_ != 0 && now_ns - wrong_ns_ <= kDecay_ns;
    doublings_ = std::min(doublings(now_ns) + (again ? 1 : 0), kDoublingsMax);
    wrong_ns_ = now_ns;
    return limit_ns(now_ns) > before_ns;
  }

 private:
  [[nodiscard]] unsigned doublings(uint64_t now_ns) const {
    const uint64_t halved = (now_ns - std::min(now_ns, wrong_ns_)) / kDecay_ns;
    return doublings_ - static_cast<unsigned>(std::min<uint64_t>(halved, doublings_));
  }

  uint64_t timeout_ns_;
  uint64_t most_ns_;
  unsigned doublings_ = 0;      // when it was last given up wrongly
  uint64_t wrong_ns_ = 0;       // … and when that was; 0: never
  uint64_t back_until_ns_ = 0;  // 0: it was not given up
};

}  // namespace twinblock
