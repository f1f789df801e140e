// The page's server on a real socket: what it keeps of those whom it has answered.
#include <gtest/gtest.h>
#include <malloc.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "base/units.h"
#include "reserved_port.h"
#include "twinblock/web_server.h"

namespace twinblock {
namespace {

constexpr size_t kBodyBytes = 64 * kKiB;

// One that asks again and again over its connection.
class Reader {
 public:
  explicit Reader(uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const timeval patience{60, 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    EXPECT_EQ(::connect(fd_, reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
  }
  ~Reader() { ::close(fd_); }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  // Whether the answer came, whole.
  bool get_metrics() {
    const std::string request = "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
    if (::send(fd_, request.data(), request.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(request.size())) return false;
    size_t came = 0, whole = ~size_t{0};
    while (came < whole) {
      const ssize_t n = ::recv(fd_, room_.data() + came, room_.size() - came, 0);
      if (n <= 0) return false;
      came += static_cast<size_t>(n);
      const size_t head = room_.find("\r\n\r\n");
      if (head != std::string::npos && head < came) whole = head + 4 + kBodyBytes;
    }
    return room_.starts_with("HTTP/1.1 200");
  }

 private:
  int fd_;
  std::string room_ = std::string(2 * kBodyBytes, '\0');
};

size_t allocated() {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

// A page that is open asks each second, for weeks.
TEST(WebServer, KeepsNothingOfWhatItHasAnswered) {
  const uint16_t port = reserve_port();
  auto server = WebServer::open("127.0.0.1:" + std::to_string(port), {});
  ASSERT_TRUE(server) << server.error().what;
  server.value()->show({.volumes = "{}", .history = "{}", .metrics = std::string(kBodyBytes, 'x')});
  Reader reader(port);
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(reader.get_metrics()) << i;
  const size_t before = allocated();
  for (int i = 0; i < 500; ++i) ASSERT_TRUE(reader.get_metrics()) << i;
  EXPECT_LT(allocated(), before + 4 * kMiB) << "of 31 MiB that were sent";
}

}  // namespace
}  // namespace twinblock
