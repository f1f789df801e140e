// Takes the connections that come in at a listening socket. Loop only; internal to io/posix.
#pragma once

#include <functional>
#include <memory>

#include "base/units.h"
#include "io/posix/io_watcher.h"
#include "io/posix/tcp_address.h"

namespace twinblock {

class Acceptor {
 public:
  // After a failed accept (no file descriptors, no memory) it pauses, since the connection that it
  // could not take stays readable.
  static constexpr uint64_t kPause_ns = 100 * kMillisecond_ns;

  // Takes the listening socket. At most `per_turn` connections are accepted in one turn, so that a
  // flood of them can't keep the loop. `failed` gets errno.
  Acceptor(Loop& loop, int fd, int per_turn,
           std::function<void(int fd, const TcpAddress& from)> accepted,
           std::function<void(int error)> failed = {});
  ~Acceptor();
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;
  [[nodiscard]] int fd() const { return fd_; }

 private:
  void accept_some();

  const int fd_;
  const int per_turn_;
  const std::function<void(int fd, const TcpAddress& from)> accepted_;
  const std::function<void(int error)> failed_;
  IoWatcher watcher_;
  std::unique_ptr<Timer> pause_;
};

}  // namespace twinblock
