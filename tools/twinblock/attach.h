// `twinblock attach`: makes a block device of a primary's export with what the host has, the
// kernel's nbd, or else nbdfuse with a loop device on its file, or that file alone. A device of the
// kernel's nbd outlives the node's process, and is given its successor; the others end with it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "twinblock/attach_nbd.h"
#include "twinblock/attachment.h"
#include "twinblock/host_devices.h"

namespace twinblock {

constexpr const char* kMethodAuto = "auto";

struct AttachPlan {
  std::string method;
  std::string note;  // why it is not a better one; may be empty
};

// What the host allows. `wanted` is kMethodAuto or one of the methods; an error where that one does
// not work here.
Result<AttachPlan> plan_attach(const HostPaths& host, bool root, const std::string& wanted);

// What to do about a device of the kernel's nbd that is attached already: one whose server was
// replaced is connected with the new one, one whose pages may be stale is ended. One that an attach
// has left half-way is finished first, or forgotten. nullopt where there is none that could be.
// Changes the note, and `existing`, as far as it does something.
Result<std::optional<FateVerdict>> revive(const HostPaths& host, const AskStatus& ask,
                                          const std::string& stem,
                                          std::optional<Attachment>& existing);

// Takes away what is left of an earlier attachment whose device can't work any more: because the
// node or nbdfuse has ended since, or because a detach failed half-way, whatever the note says. A
// sentence for the user; empty when there was nothing to do. An error when somebody still uses that
// device. `status` and `stem` as below.
Result<std::string> clear_dead_attachment(const HostPaths& host, const nlohmann::json& status,
                                          const std::string& stem);

// Attaches the volume whose status is given; `stem` is what the node's files begin with, and `ask`
// asks for the status of now. When a step fails, those before it are undone. `note` gets what the
// user should know.
Result<Attachment> attach(const HostPaths& host, const nlohmann::json& status, const AskStatus& ask,
                          const std::string& stem, const std::string& wanted, std::string& note);

}  // namespace twinblock
