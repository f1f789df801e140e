// When the next commit of the intents begins. Clients that write to cold regions come in a stream: those of
// the last commit come back when their data is written. So one with fewer waiters than the last ones had
// begins a moment later, at most as long as the last one took. Owned by the intent store; loop thread only.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "base/limits.h"
#include "io/clock.h"

namespace twinblock::metadata {

class CommitGathering {
 public:
  // Calls `begin` when a moment that was waited is over. Without a clock no moment is waited.
  CommitGathering(Clock* clock, std::function<void()> begin)
      : clock_(clock), timer_(clock != nullptr ? clock->make_timer(std::move(begin)) : nullptr) {}

  // A commit begins.
  void began() {
    if (clock_ == nullptr) return;
    timer_->disarm();
    began_ns_ = clock_->now_ns();
  }
  // It has ended, and so many are told.
  void told(size_t count) {
    if (clock_ == nullptr || count == 0) return;
    expected_ = std::max(count, expected_ - (expected_ + 7) / 8);  // by one at least: a burst is forgotten
    told_at_ns_ = clock_->now_ns();
  }
  // Whether more than these `waiting` are to be expected.
  [[nodiscard]] bool worth_waiting(size_t waiting) const {
    return clock_ != nullptr && waiting > 0 && waiting < expected_ &&
           clock_->now_ns() - told_at_ns_ < limits::kIntentGatherMax_ns;
  }
  void wait() {
    if (!timer_->armed())
      timer_->arm(std::min(told_at_ns_ - began_ns_, limits::kIntentGatherMax_ns));
  }

 private:
  Clock* clock_;
  std::unique_ptr<Timer> timer_;
  size_t expected_ = 0;  // by the last commits
  uint64_t began_ns_ = 0, told_at_ns_ = 0;  // of the last one
};

}  // namespace twinblock::metadata
