#include "config/link_protection.h"

#include <algorithm>

#include "config/address.h"

namespace twinblock {

Status may_be_used(const LinkConfig& link, const Config& config) {
  if (config.encrypted() || config.encryption == Encryption::kOff) return ok_status();
  const bool stays = std::all_of(link.address.begin(), link.address.end(), [](const auto& end) {
    const Result<Address> address = parse_address(end.second);
    return address && address.value().loopback();
  });
  if (stays) return ok_status();
  const std::string& volume = config.volume;
  return Error{
      "link " + link.name + " leaves this host, and has no key: whoever can connect to it could pose "
      "as the peer, and whoever is on its way could read the volume",
      "make a key: add key = \"/etc/twinblock/" + volume + ".key\" above the first table of " +
          config.path + ", run `twinblock key new " + volume +
          "`, and copy both files to the other host; or, on a network that you trust, add "
          "encryption = \"off\" there, on both hosts"};
}

Status links_may_be_used(const Config& config) {
  for (const LinkConfig& link : config.links)
    if (Status good = may_be_used(link, config); !good) return good;
  return ok_status();
}

}  // namespace twinblock
