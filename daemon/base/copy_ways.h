// How copies of a backing are taken: what the file says, and io/posix does. Plain values; any thread.
#pragma once

#include <cstdint>
#include <string>

namespace twinblock {

// By a reflink, by a command (an absolute path), or not at all.
struct CopyWay {
  bool reflink = false;
  std::string command;

  [[nodiscard]] bool none() const { return !reflink && command.empty(); }
  bool operator==(const CopyWay&) const = default;
};

struct CopyWays {
  CopyWay before_resync;
  CopyWay after_resync;
  CopyWay rollback;
  CopyWay snapshot{.reflink = true, .command = {}};
  uint64_t timeout_ns = 0;  // of one step

  bool operator==(const CopyWays&) const = default;
};

}  // namespace twinblock
