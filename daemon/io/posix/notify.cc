#include "io/posix/notify.h"

#include <systemd/sd-daemon.h>

#include <algorithm>
#include <cstdlib>

namespace twinblock {
namespace {

std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

}  // namespace

void notify_ready(const std::string& status) {
  sd_notify(0, ("READY=1\nSTATUS=" + one_line(status)).c_str());
}

void notify_status(const std::string& status) {
  sd_notify(0, ("STATUS=" + one_line(status)).c_str());
}

void notify_stopping() { sd_notify(0, "STOPPING=1"); }

void notify_stopping_lasts(std::chrono::microseconds longer) {
  sd_notify(0, ("EXTEND_TIMEOUT_USEC=" + std::to_string(longer.count())).c_str());
}

bool notify_is_wanted() { return std::getenv("NOTIFY_SOCKET") != nullptr; }

void notify_alive() { sd_notify(0, "WATCHDOG=1"); }

}  // namespace twinblock
