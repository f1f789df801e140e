#include "io/posix/tcp_address.h"

#include <netdb.h>
#include <netinet/in.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <system_error>

namespace twinblock {

std::string TcpAddress::text() const {
  char host[NI_MAXHOST];
  char port[NI_MAXSERV];
  if (getnameinfo(get(), length, host, sizeof host, port, sizeof port,
                  NI_NUMERICHOST | NI_NUMERICSERV) != 0)
    return "unknown address";
  const std::string ip(host);
  return (family() == AF_INET6 ? "[" + ip + "]" : ip) + ":" + port;
}

bool TcpAddress::same_ip(const TcpAddress& other) const {
  if (family() != other.family()) return false;
  if (family() == AF_INET) {
    const auto* a = reinterpret_cast<const sockaddr_in*>(&storage);
    const auto* b = reinterpret_cast<const sockaddr_in*>(&other.storage);
    return a->sin_addr.s_addr == b->sin_addr.s_addr;
  }
  const auto* a = reinterpret_cast<const sockaddr_in6*>(&storage);
  const auto* b = reinterpret_cast<const sockaddr_in6*>(&other.storage);
  return std::memcmp(&a->sin6_addr, &b->sin6_addr, sizeof a->sin6_addr) == 0;
}

void TcpAddress::set_any_port() {
  if (family() == AF_INET)
    reinterpret_cast<sockaddr_in*>(&storage)->sin_port = 0;
  else
    reinterpret_cast<sockaddr_in6*>(&storage)->sin6_port = 0;
}

Result<TcpAddress> parse_tcp_address(const std::string& text) {
  const Error malformed{"\"" + text + "\" is not a numeric address and port",
                        "write IP:port, or [IPv6]:port", EINVAL};
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon + 1 == text.size()) return malformed;
  std::string host = text.substr(0, colon);
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  const bool colons = host.find(':') != std::string::npos;
  if (host.empty() || bracketed != colons) return malformed;

  const char* port = text.data() + colon + 1;
  uint16_t number = 0;
  const auto [end, error] = std::from_chars(port, text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return malformed;

  addrinfo hints{};
  hints.ai_family = bracketed ? AF_INET6 : AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), port, &hints, &found) != 0) return malformed;
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, &freeaddrinfo);
  TcpAddress address;
  address.length = found->ai_addrlen;
  std::memcpy(&address.storage, found->ai_addr,
              std::min<size_t>(found->ai_addrlen, sizeof address.storage));
  return address;
}

}  // namespace twinblock
