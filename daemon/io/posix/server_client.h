// A client of a server: its socket, what has come in and what is to go out, and a timer. Loop only;
// internal to io/posix.
#pragma once

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "base/units.h"
#include "io/posix/io_watcher.h"

namespace twinblock {

struct ServerClient {
  // Takes the socket. Nothing is watched yet.
  ServerClient(Loop& loop, int socket, std::function<void()> readable,
               std::function<void()> writable, std::function<void()> timed_out)
      : fd(socket),
        reader(loop, fd, EV_READ, std::move(readable)),
        writer(loop, fd, EV_WRITE, std::move(writable)),
        timer(loop.make_timer(std::move(timed_out))) {}
  ~ServerClient() {
    reader.stop();
    writer.stop();
    ::close(fd);
  }
  ServerClient(const ServerClient&) = delete;
  ServerClient& operator=(const ServerClient&) = delete;

  // What there is to read goes to the end of `input`; false when nothing will come any more.
  [[nodiscard]] bool receive() {
    std::array<char, 4 * kKiB> buffer;
    const ssize_t n = ::recv(fd, buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (n > 0) input.append(buffer.data(), static_cast<size_t>(n));
    return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
  }
  // Sends what the socket takes, and empties `output` when that was all; false when it is gone.
  [[nodiscard]] bool send() {
    const ssize_t n =
        ::send(fd, output.data() + sent, output.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0) return errno == EAGAIN || errno == EINTR;
    sent += static_cast<size_t>(n);
    if (sent < output.size()) return true;
    output.clear();
    sent = 0;
    return true;
  }

  const int fd;
  std::string input;
  std::string output;
  size_t sent = 0;  // of `output`
  IoWatcher reader;
  IoWatcher writer;
  std::unique_ptr<Timer> timer;
};

}  // namespace twinblock
