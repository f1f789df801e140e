#include "io/posix/link_host.h"

#include <linux/ethtool.h>
#include <linux/if_link.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fstream>

#include "io/posix/interface_addresses.h"

namespace twinblock {
namespace {

void count_errors(const ifaddrs* all, LinkHost& host) {
  for (const ifaddrs* each = all; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr || each->ifa_addr->sa_family != AF_PACKET ||
        each->ifa_data == nullptr || host.interface != each->ifa_name)
      continue;
    const auto* counted = static_cast<const rtnl_link_stats*>(each->ifa_data);
    host.receive_errors = counted->rx_errors;
    host.send_errors = counted->tx_errors;
    host.dropped = uint64_t{counted->rx_dropped} + counted->tx_dropped;
    host.collisions = counted->collisions;
  }
}

// Of a virtual interface the kernel knows neither rate nor duplex, or says anything.
void ask_driver(LinkHost& host) {
  const int fd = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return;
  ifreq request{};
  host.interface.copy(request.ifr_name, sizeof request.ifr_name - 1);
  if (::ioctl(fd, SIOCGIFMTU, &request) == 0) host.mtu_bytes = static_cast<uint32_t>(request.ifr_mtu);
  ethtool_cmd settings{};
  settings.cmd = ETHTOOL_GSET;
  request.ifr_data = reinterpret_cast<char*>(&settings);
  if (::ioctl(fd, SIOCETHTOOL, &request) == 0) {
    const uint32_t rate = ethtool_cmd_speed(&settings);
    if (rate != 0 && rate != static_cast<uint32_t>(SPEED_UNKNOWN))
      host.rate_bits_per_s = uint64_t{rate} * 1'000'000;
    host.half_duplex = settings.duplex == DUPLEX_HALF;
  }
  ::close(fd);
}

// The largest of the three of a setting such as net.ipv4.tcp_rmem; 0: not known.
uint64_t largest_of(const char* path) {
  std::ifstream file(path);
  uint64_t least = 0, usual = 0, most = 0;
  return file >> least >> usual >> most ? most : 0;
}

}  // namespace

LinkHost link_host_of(const TcpAddress& local, const std::string& congestion) {
  LinkHost host;
  host.congestion = congestion;
  host.receive_buffer_max_bytes = largest_of("/proc/sys/net/ipv4/tcp_rmem");
  host.send_buffer_max_bytes = largest_of("/proc/sys/net/ipv4/tcp_wmem");
  const InterfaceAddresses all = interface_addresses();
  host.interface = interface_with(all, local);
  if (host.interface.empty()) return host;
  count_errors(all.get(), host);
  ask_driver(host);
  return host;
}

}  // namespace twinblock
