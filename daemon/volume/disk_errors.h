// What holds of an error of a disk, whichever node's it is. Loop thread only.
#pragma once

#include <cerrno>
#include <string>

#include "volume/core.h"

namespace twinblock {

// A write that failed for want of room may be done again later. A flush that failed may not,
// whatever its error: the kernel counts what it could not write as written, and says so once.
inline bool may_pass(int error) { return error == ENOSPC || error == EDQUOT || error == EFBIG; }

// `node`: whose. `disk`: "data" or "metadata".
inline void tell_disk_error(Core& core, const std::string& node, const char* disk, const std::string& why) {
  core.events().tell("disk-error", {{"node", node}, {"disk", disk}, {"reason", why}});
}

}  // namespace twinblock
