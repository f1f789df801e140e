// The exit statuses of `twinblock`, part of its interface: scripts and cluster agents rely on them.
// Within this tool Error::code holds the exit status that the error leads to.
#pragma once

#include <string>
#include <utility>

#include "base/result.h"

namespace twinblock {

constexpr int kExitOk = 0;
constexpr int kExitRefused = 1;      // the node refused, or the operation failed
constexpr int kExitUsage = 2;        // wrong options
constexpr int kExitUnreachable = 3;  // no node answers at the control socket
constexpr int kExitTimedOut = 4;     // `wait` waited in vain
constexpr int kExitDiffer = 5;       // `verify` found blocks that differ, repaired or not
constexpr int kExitStale = 6;        // `attach --stay` ended the device: it may be stale

inline Error refused(std::string what, std::string action = {}) {
  return Error{std::move(what), std::move(action), kExitRefused};
}

inline Error wrong_usage(std::string what, std::string action = {}) {
  return Error{std::move(what), std::move(action), kExitUsage};
}

inline Error unreachable(std::string what, std::string action = {}) {
  return Error{std::move(what), std::move(action), kExitUnreachable};
}

}  // namespace twinblock
