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

IpNetwork::Bytes IpNetwork::bytes_of(const Address& address) {
  Bytes bytes{};
  (void)inet_pton(address.v6 ? AF_INET6 : AF_INET, address.ip.c_str(), bytes.data());
  return bytes;
}

void IpNetwork::clear_behind(Bytes& bytes, int bits) {
  for (int bit = bits; bit < 128; ++bit)
    bytes[static_cast<size_t>(bit / 8)] &= static_cast<uint8_t>(~(0x80 >> bit % 8));
}

Result<IpNetwork> IpNetwork::parse(const std::string& text) {
  const std::string example = "write it like \"10.20.0.0/16\" or \"fd00:1::/64\"";
  const size_t slash = text.find('/');
  const std::string ip = text.substr(0, slash);
  Address address;
  address.v6 = ip.find(':') != std::string::npos;
  const std::optional<std::string> canonical = canonical_ip(ip, address.v6);
  if (!canonical) return bad(text, "is not a network: it has no numeric IP address", example);
  address.ip = *canonical;
  const int most = address.v6 ? 128 : 32;
  int bits = most;
  if (slash != std::string::npos) {
    const char* first = text.data() + slash + 1;
    const char* last = text.data() + text.size();
    const auto [end, error] = std::from_chars(first, last, bits);
    if (error != std::errc{} || end != last || bits < 0 || bits > most)
      return bad(text, "is not a network: behind the slash stands the number of its bits", example);
  }
  const IpNetwork network = around(address, bits);
  if (network.bytes_ != bytes_of(address))
    return bad(text, "is not a network: its address has bits behind the first " +
                         std::to_string(bits),
               example);
  return network;
}

IpNetwork IpNetwork::around(const Address& address, int bits) {
  IpNetwork network;
  network.bytes_ = bytes_of(address);
  network.bits_ = bits;
  network.v6_ = address.v6;
  clear_behind(network.bytes_, bits);
  return network;
}

bool IpNetwork::contains(const Address& address) const {
  if (address.v6 != v6_) return false;
  Bytes bytes = bytes_of(address);
  clear_behind(bytes, bits_);
  return bytes == bytes_;
}

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
               "write it like \"127.0.0.1:7780\" or \"[::1]:7780\"");
}

}  // namespace twinblock
