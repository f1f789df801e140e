// Ports of loopback that nobody else takes while the tests run.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>

namespace twinblock {

// A port of `ip` at which nobody listens; 0: this host does not have the address. It stays bound until the process ends, so
// that no other one gets it, beside which whoever sets SO_REUSEADDR may listen there, as servers do.
inline uint16_t reserve_port(const char* ip = "127.0.0.1") {
  sockaddr_in6 v6{};
  sockaddr_in v4{};
  const bool is_v6 = ::inet_pton(AF_INET6, ip, &v6.sin6_addr) == 1;
  EXPECT_TRUE(is_v6 || ::inet_pton(AF_INET, ip, &v4.sin_addr) == 1);
  v6.sin6_family = AF_INET6;
  v4.sin_family = AF_INET;
  auto* address = is_v6 ? reinterpret_cast<sockaddr*>(&v6) : reinterpret_cast<sockaddr*>(&v4);
  socklen_t length = is_v6 ? sizeof v6 : sizeof v4;
  const int fd = ::socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(fd, address, length) != 0) {
    EXPECT_TRUE(is_v6) << ip;
    ::close(fd);
    return 0;
  }
  EXPECT_EQ(::getsockname(fd, address, &length), 0);
  return ntohs(is_v6 ? v6.sin6_port : v4.sin_port);
}

}  // namespace twinblock
