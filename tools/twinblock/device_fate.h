// What is to become of an attached device of the kernel's nbd, whose server may have ended, may
// have been replaced, or may no longer be the one to write. Pure.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "twinblock/attachment.h"

namespace twinblock {

enum class Fate {
  kKeep,       // it is connected with the node that it was made of
  kReconnect,  // another process carries on the same promotion: its pages are what the volume holds
  kWait,       // nobody knows yet; requests wait in the kernel
  kEnd,        // its pages may be stale: whoever read or wrote them would do harm
};

struct FateVerdict {
  Fate fate = Fate::kWait;
  std::string why;     // a clause for the user; empty with kKeep
  std::string action{};  // of kWait: what the device waits for; empty: nothing takes it back any more
};

// `status` is the node's, or null while none answers. `server_runs`: the process that the kernel
// was connected with last still does. A promotion is told by its term: a node that goes on after
// its process died keeps it, any other promotion, there or here, makes another one.
FateVerdict device_fate(const Attachment& attachment, const nlohmann::json& status,
                        bool server_runs);

}  // namespace twinblock
