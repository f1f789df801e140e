#include "config/link_orders.h"

#include <algorithm>
#include <cerrno>

#include "config/address.h"

namespace twinblock {
namespace {

constexpr int kNearBitsV4 = 24;
constexpr int kNearBitsV6 = 64;

bool same_host(const Address& a, const Address& b) {
  return (a.v6 == b.v6 && a.ip == b.ip) || (a.loopback() && b.loopback());
}

bool near(const Address& a, const Address& b) {
  return same_host(a, b) || IpNetwork::around(b, b.v6 ? kNearBitsV6 : kNearBitsV4).contains(a);
}

bool in_allowed_network(const Address& address, const Config& config) {
  return std::any_of(config.allow_links.begin(), config.allow_links.end(),
                     [&](const IpNetwork& network) { return network.contains(address); });
}

}  // namespace

Status may_be_ordered(const LinkConfig& link, const Config& config, const std::string& node) {
  for (const LinkConfig& configured : config.links)
    if (configured.name == link.name) {
      if (configured.address == link.address) return ok_status();
      return Error{"link " + link.name + " has other addresses in " + config.path + " on " + node,
                   "give it those, or another name", EPERM};
    }
  for (const NodeConfig& each : config.nodes) {
    const bool own = each.name == node;
    const Result<Address> end = parse_address(link.address.at(each.name));
    if (!end) return end.error();
    const bool allowed =
        in_allowed_network(end.value(), config) ||
        std::any_of(config.links.begin(), config.links.end(), [&](const LinkConfig& configured) {
          const Result<Address> known = parse_address(configured.address.at(each.name));
          return known && (own ? same_host(end.value(), known.value())
                               : near(end.value(), known.value()));
        });
    if (allowed) continue;
    return Error{config.path + " on " + node + " does not allow " +
                     end.value().text() + " as an address of " + each.name,
                 "add to its [replication], for example, allow_links = [\"" + end.value().ip +
                     (end.value().v6 ? "/128" : "/32") + "\"], and restart twinblockd there",
                 EPERM};
  }
  return ok_status();
}

}  // namespace twinblock
