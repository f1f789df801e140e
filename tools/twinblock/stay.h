// `twinblock attach --stay`: attaches a volume by the kernel's nbd and looks after the device until
// it is told to stop: connects it with the node's next process as soon as that is primary again,
// and ends it when its pages may be stale.
#pragma once

#include <functional>
#include <string>

#include "base/result.h"
#include "twinblock/attach_nbd.h"
#include "twinblock/host_devices.h"
#include "twinblock/options.h"

namespace twinblock {

// Blocks until SIGTERM or SIGINT, on which the device is detached, or until somebody else detaches
// it. Errors: kExitStale when the device was ended, others when it could not be attached. `say`
// gets a sentence for each thing that happens; a service manager is told as well.
Result<Output> stay_attached(const HostPaths& host, const AskStatus& ask, const std::string& stem,
                             const std::function<void(const std::string&)>& say);

}  // namespace twinblock
