// A volume as a device of the kernel's nbd: made, given another server, ended. Steps are noted
// before they are taken, so that `detach` finds what an interrupted one has left.
#pragma once

#include <sys/types.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/result.h"
#include "twinblock/attachment.h"
#include "twinblock/device_fate.h"
#include "twinblock/host_devices.h"

namespace twinblock {

// After a reconnection the kernel sends a request again only when it looks after it next.
constexpr uint64_t kLookAfterRequests_ms = 2000;

// Asks the node for its status now.
using AskStatus = std::function<Result<nlohmann::json>()>;

// The path of the socket at which the node with that status serves NBD.
Result<std::string> nbd_socket_of(const nlohmann::json& status);

// Makes a device of the primary behind `ask` and fills in what the note says of it; the device's
// name. An error leaves no device behind.
Result<std::string> make_nbd_device(const HostPaths& host, const AskStatus& ask,
                                    const std::string& stem, Attachment& attachment);

// Of an attach that was killed before its note was complete: where the kernel says that it has the device, which
// a mount that waited for the name may use by now, it is finished; else it is forgotten, the note and `existing`.
// True: it is finished, and a device like any other, whose server may have ended meanwhile, but for how often its
// requests are looked after: that may wait for them, and they for another server. Nothing in here waits for it.
Result<bool> finish_attach(const HostPaths& host, const std::string& stem, std::optional<Attachment>& existing);

// Connects the device with the node's process of now, where its fate is to be reconnected: what
// became of it. kKeep: it is connected, `why` says with whom where that was done now. kReconnect: another process has
// it in hand; to be tried again, beginning with finish_hang_up(). Errors: the node or the kernel refused, or it was
// detached meanwhile; the device is as it was. A node that refuses because its promotion is another one is no error.
Result<FateVerdict> reconnect_nbd_device(const HostPaths& host, const AskStatus& ask,
                                         const std::string& stem, Attachment& attachment);

// Gives a device whose volume has grown the new size: its connection, which was made for the old one, is ended, and
// another one takes its place. As reconnect_nbd_device(); where it is cut off in between, finish_hang_up() and that
// connect it. `control`: the node's control socket.
Result<FateVerdict> grow_nbd_device(const HostPaths& host, const AskStatus& ask, const std::string& control,
                                    const std::string& stem, Attachment& attachment);

// Before a reconnection: ends the connection of a device that has no server on record, where whoever was about to end
// it has gone, and takes the device in hand. While that connection lives the kernel takes no other one. The process
// that is still at it, and is to be left alone; 0: there is none.
Result<pid_t> finish_hang_up(const std::string& control, const std::string& stem);

// Ends the device, also under those who use it, and notes why.
Status end_nbd_device(const HostPaths& host, const std::string& stem, Attachment& attachment,
                      const std::string& why);

// Disconnects a device that nobody uses; nothing is flushed.
Status disconnect_nbd_device(const HostPaths& host, const Attachment& attachment);

}  // namespace twinblock
