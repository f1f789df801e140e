// When this node stood still itself: its host had too much to do, or had stopped it. By its own
// clock, from when its loop was to look and when it did. Such time is not another's silence. Pure.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>

#include "base/units.h"

namespace twinblock {

class OwnLateness {
 public:
  // Timers are always a little late; by less than this the loop is on time.
  static constexpr uint64_t kOnTime_ns = 10 * kMillisecond_ns;
  // What is remembered; of earlier ones only their sum, as if it were spread over all of that time.
  static constexpr size_t kKept = 256;

  // The loop is to look again at `due_ns`.
  void expect(uint64_t due_ns) { due_ns_ = due_ns; }
  // It looks. Whether it is late.
  bool looks(uint64_t now_ns) {
    const uint64_t late_ns = under_way_ns(now_ns);
    due_ns_ = kNever;
    if (late_ns == 0) return false;
    total_ns_ += late_ns;
    times_.push_back({now_ns - late_ns, now_ns, late_ns});
    if (times_.size() > kKept) {
      const Time oldest = times_.front();
      times_.pop_front();
      times_.front().begin_ns = oldest.begin_ns;
      times_.front().late_ns += oldest.late_ns;
    }
    return true;
  }

  // How much of the time from `since_ns` to `until_ns`, which is now or past, this node was there: what may count as
  // another's silence.
  [[nodiscard]] uint64_t passed_ns(uint64_t since_ns, uint64_t until_ns) const {
    if (since_ns >= until_ns) return 0;
    uint64_t away_ns = std::min(under_way_ns(until_ns), until_ns - since_ns);
    for (auto time = times_.rbegin(); time != times_.rend() && time->end_ns > since_ns; ++time)
      away_ns += time->late_since_ns(since_ns) - (time->end_ns > until_ns ? time->late_since_ns(until_ns) : 0);
    return until_ns - since_ns - std::min(away_ns, until_ns - since_ns);
  }
  // Since the beginning.
  [[nodiscard]] uint64_t total_ns() const { return total_ns_; }

 private:
  struct Time {
    // Before its end, and perhaps after its beginning.
    [[nodiscard]] uint64_t late_since_ns(uint64_t since_ns) const {
      if (since_ns <= begin_ns) return late_ns;
      const double part = static_cast<double>(end_ns - since_ns) / static_cast<double>(end_ns - begin_ns);
      return static_cast<uint64_t>(static_cast<double>(late_ns) * part);
    }
    uint64_t begin_ns;
    uint64_t end_ns;
    uint64_t late_ns;
  };
  static constexpr uint64_t kNever = ~uint64_t{0};

  // The loop was to look some time ago, and has not yet.
  [[nodiscard]] uint64_t under_way_ns(uint64_t now_ns) const {
    return now_ns > due_ns_ && now_ns - due_ns_ > kOnTime_ns ? now_ns - due_ns_ : 0;
  }

  uint64_t due_ns_ = kNever;
  uint64_t total_ns_ = 0;
  std::deque<Time> times_;  // the latest last
};

}  // namespace twinblock
