#include "io/posix/notify.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>

namespace twinblock {
namespace {

std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

// As sd_notify(), which waits where the manager does not read: who calls this has a volume to serve. What is lost by
// that says the same again soon, or no more than that.
void tell_if_there_is_room(const std::string& text) {
  const char* place = std::getenv("NOTIFY_SOCKET");
  sockaddr_un to{};
  const size_t length = place == nullptr ? 0 : std::strlen(place);
  if (length == 0 || length >= sizeof to.sun_path || (place[0] != '/' && place[0] != '@')) return;
  to.sun_family = AF_UNIX;
  std::memcpy(to.sun_path, place, length);
  if (place[0] == '@') to.sun_path[0] = '\0';  // in the abstract name space
  const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return;
  (void)!sendto(fd, text.data(), text.size(), MSG_NOSIGNAL, reinterpret_cast<const sockaddr*>(&to),
                static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + length));
  close(fd);
}

}  // namespace

// The one that may not be lost, and is told once.
void notify_ready(const std::string& status) {
  sd_notify(0, ("READY=1\nSTATUS=" + one_line(status)).c_str());
}

void notify_status(const std::string& status) {
  tell_if_there_is_room("STATUS=" + one_line(status));
}

void notify_stopping() { tell_if_there_is_room("STOPPING=1"); }

void notify_stopping_lasts(std::chrono::microseconds longer) {
  tell_if_there_is_room("EXTEND_TIMEOUT_USEC=" + std::to_string(longer.count()));
}

bool notify_is_wanted() { return std::getenv("NOTIFY_SOCKET") != nullptr; }

void notify_alive() { tell_if_there_is_room("WATCHDOG=1"); }

}  // namespace twinblock
