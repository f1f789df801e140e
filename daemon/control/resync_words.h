// Why there is a resync, and of what, in sentences. Pure.
#pragma once

#include <string>

#include "volume/resync_cause.h"

namespace twinblock {

// `node` is this one's name.
std::string resync_words(const ResyncCause& cause, const std::string& node,
                         const std::string& peer);

}  // namespace twinblock
