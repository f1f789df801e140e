#include "io/posix/tcp_listener.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <utility>

#include "io/posix/monotonic.h"
#include "io/posix/tcp_connection.h"

namespace twinblock {

TcpListener::TcpListener(TcpNetwork& network, int fd, TcpAddress peer,
                         std::function<void(std::unique_ptr<Connection>)> accepted,
                         std::function<void(const std::string&)> refused)
    : network_(network),
      peer_(peer),
      accepted_(std::move(accepted)),
      refused_(std::move(refused)),
      acceptor_(
          network.loop_, fd, kAcceptsPerTurn,
          [this](int socket, const TcpAddress& from) { take(socket, from); },
          [this](int error) { report(system_error(error, "can't accept connections").what); }) {}

void TcpListener::take(int fd, const TcpAddress& from) {
  if (!from.same_ip(peer_)) {
    ::close(fd);
    return report("a connection from " + from.text() + ", which is not the peer's address");
  }
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  accepted_(std::make_unique<TcpConnection>(network_, fd, false, from.text()));
}

void TcpListener::report(std::string why) {
  const uint64_t now_ns = monotonic_ns();
  if (now_ns < next_report_ns_) {
    ++unreported_;
    return;
  }
  if (unreported_ > 0) why += " (and " + std::to_string(unreported_) + " more before it)";
  unreported_ = 0;
  next_report_ns_ = now_ns + kReportInterval_ns;
  refused_(why);
}

}  // namespace twinblock
