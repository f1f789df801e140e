// `twinblock detach`: undoes what the note of an attachment says, and only that. Works without the
// node, which may be gone.
#pragma once

#include <string>

#include "base/result.h"
#include "twinblock/attach_nbd.h"
#include "twinblock/attachment.h"
#include "twinblock/host_devices.h"

namespace twinblock {

// Flushes the device, takes it away and removes the note. Refuses while somebody uses the device;
// refuses too when it can't be flushed, unless `force`. A detach that failed half-way can be
// repeated. `ask`: the node's status; a device of the kernel's nbd is gone when the node has noticed that, or
// some seconds later: it refuses to be demoted before. Null: that is not waited for.
Status detach(const HostPaths& host, const std::string& stem, const Attachment& attachment,
              bool force, const AskStatus& ask = nullptr);

// The same with `force`, and a device of the kernel's nbd that somebody uses is ended under him: he gets I/O errors,
// and the note stays until it is detached. What became of the device, as "is detached".
Result<std::string> detach_in_use(const HostPaths& host, const std::string& stem,
                                  const Attachment& attachment);

// What gives up a device that waits for its node, with the price of it: a part of a sentence. Whoever uses it now could
// not let it go, as an umount waits, too.
std::string give_up_words(const HostPaths& host, const Attachment& attachment);

// Whether the service manager stops everything, on the way to a reboot or to power off.
bool host_goes_down();
// While it does: a device of the kernel's nbd goes also when it is in use, since the node ends next, and whoever
// then waited for the device would keep the host from going down. All that was written is stored before, where
// the node still runs. What became of the device, as "is detached". Blocks for less than service managers wait.
Result<std::string> detach_with_host(const HostPaths& host, const std::string& stem,
                                     const Attachment& attachment);

}  // namespace twinblock
