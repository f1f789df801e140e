// The events of one node, and those who wait for the next one. Loop thread only.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "base/limits.h"
#include "io/clock.h"
#include "telemetry/event_log.h"

namespace twinblock {

class Events {
 public:
  explicit Events(Clock& clock) : clock_(clock), log_(limits::kEventsKept) {}

  void tell(const char* name, EventDetails details = {});
  [[nodiscard]] const EventLog& log() const { return log_; }

  // Calls `ready` once: soon after the next event, or when nothing has happened for a while, so
  // that one who has gone away is forgotten. False when too many wait already.
  [[nodiscard]] bool wait(std::function<void()> ready);
  // The node stops: those who wait are told when all that belongs to that has been, …
  void hold();
  // … now. Who waits from now on is called at once.
  void release();

 private:
  void call_all();

  Clock& clock_;
  EventLog log_;
  std::vector<std::function<void()>> waiting_;
  std::unique_ptr<Timer> timer_;  // made when somebody waits for the first time
  bool gathering_ = false;        // something has happened; more may follow at once
  bool holding_ = false;
  bool released_ = false;
};

}  // namespace twinblock
