// A client of a node's control socket: one JSON object a line in each direction, one request a
// connection. Blocks until the reply is there, at most the given time.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/result.h"
#include "base/units.h"

namespace twinblock {

// For what a node answers at once.
constexpr uint64_t kAskTimeout_ns = 10 * kSecond_ns;
// For what it agrees on with its peer, or makes durable: a peer that is silent is waited for.
constexpr uint64_t kChangeTimeout_ns = 120 * kSecond_ns;
// For what takes as long as disks, a command of the user's or a long peer_timeout do.
constexpr uint64_t kLongChangeTimeout_ns = 24 * 3600 * kSecond_ns;

// Nobody in particular.
constexpr int kNoListener = -1;

// Whether the other end of a descriptor that is written to has gone: then nobody reads it.
bool has_hung_up(int fd);

// Sends {"verb": verb, "args": args} and returns the reply's "result". Errors carry an exit status:
// kExitUnreachable when nobody listens or answers in time, with the node's own words when it says no
// (of "promote": exit_status_of() its "refused"), kExitRefused when it does not speak the protocol.
// `listener` is where the reply is to be written: once that has hung up, the reply is waited for no longer
// (an error, too).
Result<nlohmann::json> control_request(const std::string& socket_path, const std::string& verb,
                                       const nlohmann::json& args, uint64_t timeout_ns,
                                       int listener = kNoListener);

// The same for an order. A node that has one carries it out, whoever waits for the reply: when none has come in
// time, nothing speaks against the node, and nobody is to start it. The error is kExitTimedOut then, and
// names `status_command`, which shows what becomes of the order.
Result<nlohmann::json> control_order(const std::string& socket_path, const std::string& verb,
                                     const nlohmann::json& args, uint64_t timeout_ns,
                                     const std::string& status_command);

// The same for who has more to wait for than the reply. Sends the request: the connection on which
// the reply will come, to be closed by the caller. Errors as above.
Result<int> begin_control_request(const std::string& socket_path, const std::string& verb,
                                  const nlohmann::json& args);
// Takes what has come of the reply, without waiting, and keeps in `received` what is not whole yet. The
// reply's "result", or nothing as long as more is to come. Errors as above.
Result<std::optional<nlohmann::json>> read_control_reply(int fd, const std::string& socket_path,
                                                         std::string& received);

}  // namespace twinblock
