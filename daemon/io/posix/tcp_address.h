// Numeric "IP:port" and "[v6%scope]:port" as socket addresses, without name resolution. Any thread.
#pragma once

#include <sys/socket.h>

#include <string>

#include "base/result.h"

namespace twinblock {

struct TcpAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;

  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  [[nodiscard]] sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  [[nodiscard]] int family() const { return storage.ss_family; }
  // "10.10.0.2:7700".
  [[nodiscard]] std::string text() const;
  // "10.10.0.2", "[fe80::1]".
  [[nodiscard]] std::string ip_text() const { return text().substr(0, text().rfind(':')); }
  [[nodiscard]] bool same_ip(const TcpAddress& other) const;
  void set_any_port();
};

Result<TcpAddress> parse_tcp_address(const std::string& text);

}  // namespace twinblock
