// One run of a command of the user's: started, its output as lines of the log, waited for, and ended at its
// deadline. For a thread that may wait: what is executed may lie on a disk that hangs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "io/log.h"
#include "io/posix/child_process.h"
#include "io/posix/command_lock.h"

namespace twinblock {

struct Command {
  std::string named;       // "the fence command /etc/twinblock/r0.fence"
  std::string path;        // absolute; run without arguments
  std::string log_prefix;  // of the lines that it writes
  std::string setting;     // what to change where it needs more time: "timeout in [witness]"
  uint64_t timeout_ns = 0;
  // Held by it, and by all that it has started; null: nobody asks.
  const CommandLock* lock = nullptr;
};

// In the environment of all commands.
constexpr const char* kCommandPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

// A program that nobody can change but this user or root. `setting`: what names it: "command of [witness]".
Status check_command(const std::string& named, const std::string& path, const std::string& setting);

// Its exit status, or an error: it could not be started, was ended by a signal, or at `deadline_ns` (of the
// monotonic clock), or when `stop_fd` became readable: that takes some 2 s at most. What can't be ended even
// by SIGKILL is in `left`. `log`: takes lines from any thread, as StderrLog does.
Result<int> run_command(const Command& command, const std::vector<std::string>& environment, int stop_fd,
                        Log& log, uint64_t deadline_ns, std::optional<ChildProcess>& left);
// Waits until what is left has ended, or `stop_fd` is readable.
void wait_for_what_is_left(std::optional<ChildProcess>& left, int stop_fd);

}  // namespace twinblock
