#include "io/posix/interface_addresses.h"

#include <cstring>

namespace twinblock {

InterfaceAddresses interface_addresses() {
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) all = nullptr;
  return {all, &::freeifaddrs};
}

std::string interface_with(const InterfaceAddresses& all, const TcpAddress& local) {
  for (const ifaddrs* each = all.get(); each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr || each->ifa_addr->sa_family != local.family()) continue;
    TcpAddress address;
    address.length = local.length;
    std::memcpy(&address.storage, each->ifa_addr, local.length);
    if (address.same_ip(local)) return each->ifa_name;
  }
  return {};
}

}  // namespace twinblock
