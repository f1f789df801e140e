// The exit statuses of `twinblock`, part of its interface: scripts and cluster agents rely on them.
// Within this tool Error::code holds the exit status that the error leads to.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"

namespace twinblock {

constexpr int kExitOk = 0;
constexpr int kExitRefused = 1;      // the node refused, or the operation failed
constexpr int kExitUsage = 2;        // wrong options
constexpr int kExitUnreachable = 3;  // no node answers at the control socket
constexpr int kExitTimedOut = 4;     // `wait` waited in vain; an order was not answered in time, and goes on
constexpr int kExitDiffer = 5;       // `verify` found blocks that differ, repaired or not
constexpr int kExitStale = 6;        // `attach --stay` ended the device: it may be stale
// `promote` was refused, and the node says what becomes of trying again:
constexpr int kExitForGood = 7;  // nothing, until somebody mends it: half-copied, outdated, disk failed
constexpr int kExitNow = 8;      // nothing, while things are as they are: the peer is primary, or was when last heard
constexpr int kExitLater = 9;    // it may succeed: an answer is missing, or the node is just changing

inline Error refused(std::string what, std::string action = {}) {
  return Error{std::move(what), std::move(action), kExitRefused};
}

inline Error wrong_usage(std::string what, std::string action = {}) {
  return Error{std::move(what), std::move(action), kExitUsage};
}

// The words of a refused promotion's reply, for the exit statuses above.
constexpr std::string_view kRefusedForGood = "for_good";
constexpr std::string_view kRefusedNow = "now";
constexpr std::string_view kRefusedLater = "later";

// kExitRefused for a word that is none of them: a node of another version, or no word at all.
constexpr int exit_status_of(std::string_view refused) {
  return refused == kRefusedForGood ? kExitForGood
         : refused == kRefusedNow   ? kExitNow
         : refused == kRefusedLater ? kExitLater
                                    : kExitRefused;
}

// Empty for all other exit statuses.
constexpr std::string_view refusal_of(int exit_status) {
  return exit_status == kExitForGood ? kRefusedForGood
         : exit_status == kExitNow   ? kRefusedNow
         : exit_status == kExitLater ? kRefusedLater
                                     : std::string_view();
}

inline Error unreachable(std::string what, std::string action = {}) {
  return Error{std::move(what), std::move(action), kExitUnreachable};
}

}  // namespace twinblock
