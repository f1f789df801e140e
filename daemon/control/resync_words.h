// Why there is a resync, and of what, in sentences. Pure.
#pragma once

#include <string>

#include "volume/resync_cause.h"
#include "volume/status_view.h"

namespace twinblock {

// `node` is this one's name.
std::string resync_words(const ResyncCause& cause, const std::string& node,
                         const std::string& peer);
// The places that the source's disk could not be read at: "4 KiB at offset 8192, …".
std::string unreadable_words(const StatusView::Resync& resync);

}  // namespace twinblock
