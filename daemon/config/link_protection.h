// Which links may be without encryption. Pure; any thread.
#pragma once

#include "base/result.h"
#include "config/config.h"

namespace twinblock {

// Who can connect to a link that is not encrypted can pose as the peer, and who is on its way reads
// the volume. So a link that leaves the host has a key, or the file says that it has none. The error
// says both ways out.
Status may_be_used(const LinkConfig& link, const Config& config);
// … of all links of the file.
Status links_may_be_used(const Config& config);

}  // namespace twinblock
