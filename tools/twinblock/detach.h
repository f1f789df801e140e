// `twinblock detach`: undoes what the note of an attachment says, and only that. Works without the
// node, which may be gone.
#pragma once

#include <string>

#include "base/result.h"
#include "twinblock/attachment.h"
#include "twinblock/host_devices.h"

namespace twinblock {

// Flushes the device, takes it away and removes the note. Refuses while somebody uses the device;
// refuses too when it can't be flushed, unless `force`. A detach that failed half-way can be
// repeated.
Status detach(const HostPaths& host, const std::string& stem, const Attachment& attachment,
              bool force);

}  // namespace twinblock
