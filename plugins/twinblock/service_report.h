// Tells systemd every second that the loop turns (WatchdogSec= of the unit), and, when it has changed, how
// the volume is. Nothing happens where no service manager asks. Loop thread only.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "io/clock.h"

namespace twinblock {

class ServiceReport {
 public:
  // `state`: one line, for `systemctl status`.
  ServiceReport(Clock& clock, std::function<std::string()> state);

 private:
  void tell();

  std::function<std::string()> state_;
  std::string told_;
  std::unique_ptr<Timer> timer_;
};

}  // namespace twinblock
