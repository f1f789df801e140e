// How this host's attached device of a volume is: for `twinblock status`.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "twinblock/host_devices.h"

namespace twinblock {

// {"device", "link", "method", "state", "why"}, or null where the volume is not attached on this
// host. "state": connected; waits (for its node, requests wait in the kernel); being attached; dead. `status` is
// the node's, or null while none answers; `stem` is what the node's files begin with.
nlohmann::json attached_device(const HostPaths& host, const nlohmann::json& status,
                               const std::string& stem);

// "/dev/twinblock/r0 (/dev/nbd0) by nbd: connected"; empty for none.
std::string device_text(const nlohmann::json& device);

}  // namespace twinblock
