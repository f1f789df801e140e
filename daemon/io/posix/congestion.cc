#include "io/posix/congestion.h"

#include <netinet/in.h>
#include <linux/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

namespace twinblock {

int set_congestion(int fd, const std::string& wanted) {
  if (wanted == "system") return 0;
  const std::string name = wanted.empty() ? kCongestionDefault : wanted;
  const auto length = static_cast<socklen_t>(name.size());
  const bool done = ::setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name.data(), length) == 0;
  return done || wanted.empty() ? 0 : errno;
}

Status check_congestion(const std::string& congestion) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return system_error(errno, "socket");
  const int error = set_congestion(fd, congestion);
  ::close(fd);
  if (error == 0) return ok_status();
  const std::string which = error == EPERM ? "allowed" : "available";
  return system_error(error, "[replication] congestion = \"" + congestion + "\"",
                      "choose one that `sysctl net.ipv4.tcp_" + which +
                          "_congestion_control` lists, or \"system\"");
}

}  // namespace twinblock
