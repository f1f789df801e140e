#include "config/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <charconv>
#include <cstring>
#include <optional>

namespace twinblock {
namespace {

Error bad(const std::string& text, const std::string& why, const std::string& action) {
  return Error{"'" + text + "' " + why, action};
}

std::optional<uint16_t> parse_port(const std::string& text) {
  uint32_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  if (port < 1 || port > 65535) return std::nullopt;
  return static_cast<uint16_t>(port);
}

// The canonical text of a numeric address; nullopt when it is not one.
std::optional<std::string> canonical_ip(const std::string& ip, bool v6) {
  const int family = v6 ? AF_INET6 : AF_INET;
  in6_addr raw{};
  if (inet_pton(family, ip.c_str(), &raw) != 1) return std::nullopt;
  char text[INET6_ADDRSTRLEN];
  if (inet_ntop(family, &raw, text, sizeof text) == nullptr) return std::nullopt;
  return std::string(text);
}

Result<Address> parse(const std::string& text, const std::string& example) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos) return bad(text, "has no port", example);
  std::string ip = text.substr(0, colon);
  Address address;
  if (ip.starts_with('[') && ip.ends_with(']')) {
    address.v6 = true;
    ip = ip.substr(1, ip.size() - 2);
  } else if (ip.find(':') != std::string::npos) {
    return bad(text, "is an IPv6 address without brackets", example);
  }
  const std::optional<std::string> canonical = canonical_ip(ip, address.v6);
  if (!canonical) return bad(text, "is not a numeric IP address and a port", example);
  const std::optional<uint16_t> port = parse_port(text.substr(colon + 1));
  if (!port) return bad(text, "has a port that is not a number from 1 to 65535", example);
  address.ip = *canonical;
  address.port = *port;
  return address;
}

}  // namespace

std::string Address::text() const {
  return (v6 ? "[" + ip + "]" : ip) + ":" + std::to_string(port);
}

bool Address::loopback() const { return v6 ? ip == "::1" : ip.starts_with("127."); }

Result<Address> parse_address(const std::string& text) {
  Result<Address> address = parse(text, "write it like \"10.0.0.1:7700\" or \"[fd00::1]:7700\"");
  if (!address) return address;
  if (address.value().ip == "0.0.0.0" || address.value().ip == "::")
    return bad(text, "is an address that the peer can't dial",
               "name the address of one interface of that node");
  return address;
}

Result<Address> parse_listen_address(const std::string& text) {
  const bool port_only = text.find(':') == std::string::npos && parse_port(text).has_value();
  return parse(port_only ? "127.0.0.1:" + text : text,
               "write it like \"127.0.0.1:9777\" or \"[::1]:9777\"");
}

}  // namespace twinblock
