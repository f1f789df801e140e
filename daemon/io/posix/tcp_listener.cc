#include "io/posix/tcp_listener.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "io/posix/monotonic.h"
#include "io/posix/tcp_connection.h"

namespace twinblock {

TcpListener::TcpListener(TcpNetwork& network, int fd, TcpAddress peer,
                         std::function<void(std::unique_ptr<Connection>)> accepted,
                         std::function<void(const std::string&)> refused)
    : network_(network),
      fd_(fd),
      peer_(peer),
      accepted_(std::move(accepted)),
      refused_(std::move(refused)),
      acceptor_(network.loop_, fd, EV_READ, [this] { accept_some(); }),
      pause_(network.loop_.make_timer([this] { acceptor_.start(); })) {
  acceptor_.start();
}

TcpListener::~TcpListener() {
  acceptor_.stop();
  ::close(fd_);
}

void TcpListener::accept_some() {
  for (int i = 0; i < kAcceptsPerTurn; ++i) {
    TcpAddress from;
    from.length = sizeof from.storage;
    const int fd = ::accept4(fd_, from.get(), &from.length, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) {
      if (errno == EAGAIN || errno == EWOULDBLOCK) return;
      // The connection ended before we took it; the next may be good.
      if (errno == ECONNABORTED || errno == EINTR || errno == EPROTO) continue;
      acceptor_.stop();
      pause_->arm(kPause_ns);
      return report(system_error(errno, "can't accept connections").what);
    }
    if (!from.same_ip(peer_)) {
      ::close(fd);
      report("a connection from " + from.text() + ", which is not the peer's address");
      continue;
    }
    const int on = 1;
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    accepted_(std::make_unique<TcpConnection>(network_, fd, false, from.text()));
  }
}

void TcpListener::report(std::string why) {
  const uint64_t now_ns = monotonic_ns();
  if (now_ns < next_report_ns_) {
    ++unreported_;
    return;
  }
  if (unreported_ > 0) why += " (and " + std::to_string(unreported_) + " more before)";
  unreported_ = 0;
  next_report_ns_ = now_ns + kReportInterval_ns;
  refused_(why);
}

}  // namespace twinblock
