// How many flushes of one disk to have under way at a time, learnt from what they take: a pure
// decision, of times in ns of one clock that it is given.
//
// While a flush takes no time, one at a time is best: each costs two wake-ups. On a disk that takes
// milliseconds, whoever comes while one is under way would wait one and a half times as long as the
// disk needs, so several are begun one after the other: as many as kSpacing_ns goes into what one
// takes alone. Where they turn out to be done one after the other, it is one at a time for a while.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/units.h"

namespace twinblock {

class FlushConcurrency {
 public:
  // Of flushes that are begun one after the other: what handing one over and waking up for its end
  // costs the host's processors.
  static constexpr uint64_t kSpacing_ns = 50 * kMicrosecond_ns;
  // Of those beside that many others: …
  static constexpr size_t kJudgedMin = 3;
  // … how many in a row took as long as one after the other, until that is believed, …
  static constexpr size_t kInTurnMin = 16;
  // … and for how long.
  static constexpr uint64_t kRest_ns = 10 * kSecond_ns;

  explicit FlushConcurrency(size_t max) : max_(max) {}

  [[nodiscard]] size_t allowed() const { return alone_due_ ? 1 : allowed_; }

  // A flush has ended at `now_ns`, which began while `beside` others were under way.
  void learn(size_t beside, uint64_t took_ns, uint64_t now_ns) {
    if (beside == 0)
      learn_alone(took_ns, now_ns);
    else
      learn_beside(beside, took_ns, now_ns);
    alone_due_ = now_ns > alone_at_ns_ + std::max(kSecond_ns, 256 * alone_ns_);
    allowed_ = now_ns < rests_until_ns_ ? 1 : std::clamp<size_t>(alone_ns_ / kSpacing_ns, 1, max_);
  }

 private:
  void learn_alone(uint64_t took_ns, uint64_t now_ns) {
    approach(took_ns);
    alone_at_ns_ = now_ns;
    // They took long because each does, and not because of the others: the disk has become slower
    // (or was asked to flush nothing before).
    if (alone_ns_ >= 2 * rests_as_alone_ns_) rests_until_ns_ = 0;
  }

  void learn_beside(size_t beside, uint64_t took_ns, uint64_t now_ns) {
    const uint64_t share_ns = took_ns / (beside + 1);  // what it takes at least, in turn or not
    if (beside < kJudgedMin) {
      in_turn_ = 0;
      // Under load hardly any begins alone.
      if (share_ns > alone_ns_) approach(share_ns);
    } else if (2 * share_ns < alone_ns_) {
      in_turn_ = 0;
    } else if (++in_turn_ >= kInTurnMin) {
      rests_until_ns_ = now_ns + kRest_ns;
      rests_as_alone_ns_ = alone_ns_;
      in_turn_ = 0;
    }
  }

  // One that was interrupted counts little.
  void approach(uint64_t took_ns) {
    alone_ns_ = alone_ns_ == 0 ? took_ns : alone_ns_ * 3 / 4 + std::min(took_ns, 2 * alone_ns_) / 4;
    alone_ns_ = std::max(alone_ns_, kMicrosecond_ns);
  }

  const size_t max_;
  size_t allowed_ = 1;
  // What one takes that begins while no other is under way: a mean. Under load one has to be let
  // begin alone now and then.
  uint64_t alone_ns_ = 0;
  uint64_t alone_at_ns_ = 0;
  bool alone_due_ = false;
  size_t in_turn_ = 0;
  uint64_t rests_until_ns_ = 0;
  uint64_t rests_as_alone_ns_ = 0;  // alone_ns_ when it was believed
};

}  // namespace twinblock
