// What systemd is told of the service's state (sd_notify, Type=notify); nothing happens elsewhere.
// Any thread; a datagram that does not block.
#pragma once

#include <chrono>
#include <string>

namespace twinblock {

// The service is up; `status` is shown by `systemctl status`.
void notify_ready(const std::string& status);
void notify_status(const std::string& status);
void notify_stopping();
// The stop takes so much longer than now, whatever the unit's TimeoutStopSec= is.
void notify_stopping_lasts(std::chrono::microseconds longer);
// Whether anybody listens ($NOTIFY_SOCKET).
bool notify_is_wanted();
// For the unit's WatchdogSec=: who does not say so for that long is ended.
void notify_alive();

}  // namespace twinblock
