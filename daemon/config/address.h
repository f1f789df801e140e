// "IP:port" as the configuration writes it: numeric only, since a name would have to be looked up
// at run time and could change under a running node. Pure; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "base/result.h"

namespace twinblock {

struct Address {
  std::string ip;  // canonical text, without brackets
  uint16_t port = 0;
  bool v6 = false;

  // "10.0.0.1:7700" or "[fd00::1]:7700": equal text means equal address.
  [[nodiscard]] std::string text() const;
  [[nodiscard]] bool loopback() const;
};

// A range of addresses: "10.20.0.0/16", "fd00:1::/64", or one address alone.
class IpNetwork {
 public:
  // Of `text` as the file writes it. Errors name what is wrong: no number of bits, too many, bits
  // of the address behind them.
  static Result<IpNetwork> parse(const std::string& text);
  // The one of so many bits that an address is in.
  static IpNetwork around(const Address& address, int bits);
  [[nodiscard]] bool contains(const Address& address) const;

 private:
  using Bytes = std::array<uint8_t, 16>;
  static Bytes bytes_of(const Address& address);
  static void clear_behind(Bytes& bytes, int bits);

  Bytes bytes_{};
  int bits_ = 0;
  bool v6_ = false;
};

// Errors name what is wrong with `text`: no port, a port outside 1..65535, a host name, an IPv6
// address without brackets, an address that nobody can dial (0.0.0.0, ::).
Result<Address> parse_address(const std::string& text);

// Where to listen: as above, but all interfaces (0.0.0.0, ::) may be meant, and a port alone is one
// of loopback, 127.0.0.1.
Result<Address> parse_listen_address(const std::string& text);

}  // namespace twinblock
