#include "io/posix/acceptor.h"

#include <unistd.h>

#include <cerrno>
#include <utility>

namespace twinblock {

Acceptor::Acceptor(Loop& loop, int fd, int per_turn,
                   std::function<void(int fd, const TcpAddress& from)> accepted,
                   std::function<void(int error)> failed)
    : fd_(fd),
      per_turn_(per_turn),
      accepted_(std::move(accepted)),
      failed_(std::move(failed)),
      watcher_(loop, fd, EV_READ, [this] { accept_some(); }),
      pause_(loop.make_timer([this] { watcher_.start(); })) {
  watcher_.start();
}

Acceptor::~Acceptor() {
  watcher_.stop();
  ::close(fd_);
}

void Acceptor::accept_some() {
  for (int i = 0; i < per_turn_; ++i) {
    TcpAddress from;
    from.length = sizeof from.storage;
    const int fd = ::accept4(fd_, from.get(), &from.length, SOCK_NONBLOCK | SOCK_CLOEXEC);
    const int error = errno;
    if (fd >= 0) {
      accepted_(fd, from);
      continue;
    }
    if (error == EAGAIN || error == EWOULDBLOCK) return;
    // The connection ended before we took it; the next may be good.
    if (error == ECONNABORTED || error == EINTR || error == EPROTO) continue;
    watcher_.stop();
    pause_->arm(kPause_ns);
    if (failed_) failed_(error);
    return;
  }
}

}  // namespace twinblock
