// "IP:port" as the configuration writes it: numeric only, since a name would have to be looked up
// at run time and could change under a running node. Pure; any thread.
#pragma once

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

// Errors name what is wrong with `text`: no port, a port outside 1..65535, a host name, an IPv6
// address without brackets, an address that nobody can dial (0.0.0.0, ::).
Result<Address> parse_address(const std::string& text);

// Where to listen: as above, but all interfaces (0.0.0.0, ::) may be meant, and a port alone is one
// of loopback, 127.0.0.1.
Result<Address> parse_listen_address(const std::string& text);

}  // namespace twinblock
