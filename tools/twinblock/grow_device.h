// After `twinblock grow`: the device of the volume on this host is to have the volume's size, too.
#pragma once

#include <string>

#include "twinblock/attach_nbd.h"
#include "twinblock/host_devices.h"

namespace twinblock {

// Gives it that size, where it can: a sentence of what became of it, or of what is to be done; empty where there is
// nothing to say, as it has that size. `root`: whether this user may. `ask` and `stem` as for attach().
std::string grow_device(const HostPaths& host, const AskStatus& ask, const std::string& stem, bool root);

}  // namespace twinblock
