// The page's server on a real socket: what it keeps of those whom it has answered.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "allocated_bytes.h"
#include "base/units.h"
#include "reserved_port.h"
#include "twinblock/web_server.h"

namespace twinblock {
namespace {

constexpr size_t kBodyBytes = 64 * kKiB;

// Whether the answer came, whole: each is the last one of its connection.
bool get_metrics(uint16_t port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const timeval patience{60, 0};
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(port);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const std::string request = "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
  const bool asked = ::connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0 &&
                     ::send(fd, request.data(), request.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(request.size());
  std::string answer(2 * kBodyBytes, '\0');
  size_t came = 0;
  for (ssize_t n = 1; asked && n > 0 && came < answer.size(); came += static_cast<size_t>(std::max<ssize_t>(n, 0)))
    n = ::recv(fd, answer.data() + came, answer.size() - came, 0);
  ::close(fd);
  return answer.starts_with("HTTP/1.1 200") && came > kBodyBytes;
}

// A page that is open asks each second, for weeks.
TEST(WebServer, KeepsNothingOfWhatItHasAnswered) {
  const uint16_t port = reserve_port();
  auto server = WebServer::open("127.0.0.1:" + std::to_string(port), {});
  ASSERT_TRUE(server) << server.error().what;
  server.value()->show({.volumes = "{}", .history = "{}", .metrics = std::string(kBodyBytes, 'x')});
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(get_metrics(port)) << i;
  const size_t before = allocated_bytes();
  for (int i = 0; i < 500; ++i) ASSERT_TRUE(get_metrics(port)) << i;
  EXPECT_LT(allocated_bytes(), before + 4 * kMiB) << "of 31 MiB that were sent";
}

}  // namespace
}  // namespace twinblock
