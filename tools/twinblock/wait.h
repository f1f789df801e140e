// `twinblock wait` and `twinblock verify`: polls a node's status until it is as wished.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "twinblock/options.h"

namespace twinblock {

// What one can wait for, as the user writes it, and what is waited for where nothing is said.
constexpr const char* kWaitGoalDefault = "duplex";
constexpr const char* kWaitTimeoutDefault = "60s";
const std::vector<std::string>& wait_goals();

// Whether `status` is what `goal` means. `goal` is one of wait_goals().
bool wait_goal_reached(const nlohmann::json& status, const std::string& goal);

// "60s", "500ms", "2min", or a plain number of seconds: nanoseconds.
std::optional<uint64_t> parse_wait_timeout(const std::string& text);

struct WaitActions {
  std::function<Result<nlohmann::json>()> poll;              // one status request
  std::function<void(const nlohmann::json& status)> report;  // after each poll that succeeded
  std::function<uint64_t()> now_ns;
  std::function<void(uint64_t ns)> sleep;
};

struct WaitLimit {
  uint64_t ns = 0;
  bool while_still = false;  // it begins anew whenever a resync has got on: that may take hours
};

// Polls every 200 ms, at least once; the status that reached the goal. A node that does not answer
// may be starting, so that is waited for as well: kExitUnreachable when it never answered before
// the limit, kExitTimedOut, with the last state, when it did. Other errors end the wait.
Result<nlohmann::json> wait_for(const std::string& goal, const WaitLimit& limit,
                                const WaitActions& actions);

// As above, until the verification that was ordered has ended: its part of the status. There is no
// limit, but a node that does not answer for 10 s (kExitUnreachable) or that has forgotten the
// verification, as it was restarted (kExitRefused), ends it.
Result<nlohmann::json> wait_for_verification(const WaitActions& actions);

// What `verify` says of one that has ended, and its exit status: kExitDiffer when anything differs,
// kExitRefused when it ended early without that.
Output verification_output(const nlohmann::json& verify);

}  // namespace twinblock
