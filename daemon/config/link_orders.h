// What the peer's operator may order about the links of this node: he can't read this host's file,
// and whoever speaks in the peer's place could lead the volume's data to any host. Pure; any thread.
#pragma once

#include <string>

#include "base/result.h"
#include "config/config.h"

namespace twinblock {

// Whether `link` may be added here because the peer says so. It leads where the file of `node` lets
// it lead:
//   - a link that the file names has the addresses that the file gives to it;
//   - else this node's end is an address that the file has for this node in some link, and the
//     peer's end is in a network (/24, for IPv6 /64; loopback is one) of an address that the file
//     has for the peer; or they are in one of `allow_links`.
// Ports do not matter. The error says what the file would have to say.
Status may_be_ordered(const LinkConfig& link, const Config& config, const std::string& node);

}  // namespace twinblock
