#include "telemetry/events.h"

#include <utility>

namespace twinblock {

void Events::tell(const char* name, EventDetails details) {
  log_.add(clock_.wall_ns(), name, std::move(details));
  if (waiting_.empty() || gathering_ || holding_) return;
  gathering_ = true;
  timer_->arm(limits::kEventGather_ns);
}

bool Events::wait(std::function<void()> ready) {
  if (released_) {
    ready();
    return true;
  }
  if (waiting_.size() >= limits::kEventWaitersMax) return false;
  waiting_.push_back(std::move(ready));
  if (!timer_) timer_ = clock_.make_timer([this] { call_all(); });
  if (!timer_->armed()) timer_->arm(limits::kEventWait_ns);
  return true;
}

void Events::hold() {
  holding_ = true;
  gathering_ = false;
  if (timer_ && timer_->armed()) timer_->arm(limits::kEventWait_ns);
}

void Events::release() {
  released_ = true;
  if (timer_) timer_->disarm();
  call_all();
}

void Events::call_all() {
  gathering_ = false;
  for (const auto& ready : std::exchange(waiting_, {})) ready();
}

}  // namespace twinblock
