// What the tests of servers share: a plain client, and a server on a loop of its own.
#pragma once

#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "base/result.h"
#include "io/posix/tcp_address.h"
#include "io_posix_support.h"

namespace twinblock {

// Any socket address fits a TcpAddress.
inline TcpAddress unix_address(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
  TcpAddress any;
  any.length = sizeof address;
  std::memcpy(&any.storage, &address, sizeof address);
  return any;
}

class RawClient {
 public:
  // `address`: "127.0.0.1:80", or the path of a Unix socket.
  explicit RawClient(const std::string& address)
      : RawClient(address.starts_with('/') ? unix_address(address)
                                           : parse_tcp_address(address).value()) {}
  ~RawClient() { ::close(fd_); }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  void send(const std::string& text) const {
    EXPECT_EQ(::send(fd_, text.data(), text.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(text.size()));
  }
  void end_sending() const { ::shutdown(fd_, SHUT_WR); }
  // Until the server has closed, whatever there is to read.
  [[nodiscard]] bool closed_soon() const {
    pollfd ended{fd_, POLLRDHUP, 0};
    return ::poll(&ended, 1, std::chrono::milliseconds(kNever).count()) == 1;
  }
  // One line without its newline; "EOF" at the end.
  [[nodiscard]] std::string line() const {
    std::string text;
    char c = 0;
    for (;;) {
      const ssize_t n = ::recv(fd_, &c, 1, 0);
      if (n <= 0) return n == 0 || errno == ECONNRESET ? "EOF" : "nothing";
      if (c == '\n') return text;
      text += c;
    }
  }
  // Until the server closes.
  [[nodiscard]] std::string all() const {
    std::string text;
    char buffer[65536];
    for (;;) {
      const ssize_t n = ::recv(fd_, buffer, sizeof buffer, 0);
      if (n < 0) return text + "<reset or silent>";
      if (n == 0) return text;
      text.append(buffer, static_cast<size_t>(n));
    }
  }

 private:
  explicit RawClient(const TcpAddress& to) : fd_(::socket(to.family(), SOCK_STREAM, 0)) {
    const timeval limit{kNever.count(), 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    EXPECT_EQ(::connect(fd_, to.get(), to.length), 0);
  }

  const int fd_;
};

template <typename Server>
class ServerTest : public ::testing::Test {
 protected:
  void TearDown() override {
    if (server_ != nullptr) loop_.call([this] { server_.reset(); });
    loop_.stop();
  }
  void start(Result<std::unique_ptr<Server>> opened) {
    ASSERT_TRUE(opened.ok()) << opened.error().what;
    server_ = std::move(opened.value());
    loop_.start();
  }

  RunningLoop loop_;
  std::unique_ptr<Server> server_;
};

}  // namespace twinblock
