// The network interfaces of this host with their addresses. Source: getifaddrs(3). Any thread.
#pragma once

#include <ifaddrs.h>

#include <memory>
#include <string>

#include "io/posix/tcp_address.h"

namespace twinblock {

// All of them, as a list; null: the system does not say.
using InterfaceAddresses = std::unique_ptr<ifaddrs, void (*)(ifaddrs*)>;
[[nodiscard]] InterfaceAddresses interface_addresses();

// The name of the one that has the IP of `local`; empty: none.
[[nodiscard]] std::string interface_with(const InterfaceAddresses& all, const TcpAddress& local);

}  // namespace twinblock
