// Starts other programs with argument vectors, never through a shell.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace twinblock {

// The program's path in PATH or the directories of system programs, or `name` itself where that is a
// path; empty when it is not installed.
std::string find_program(const std::string& name);

// Runs `args` to its end, at most `timeout_ns` (then it is killed); what it printed on stdout,
// without the last newline. Errors (kExitRefused) name the program and the last line of its stderr.
Result<std::string> run_program(const std::vector<std::string>& args, uint64_t timeout_ns);

// Starts `args` in a session of its own, so that it outlives this program and its terminal; both
// its outputs go to the end of `log_path`.
Result<pid_t> start_background(const std::vector<std::string>& args, const std::string& log_path);

// Starts `args` as a process group of its own, which signals at this program's terminal do not reach, with
// no signal blocked; what it prints goes where this program's errors go. A program of the user's is an ordinary one, whatever
// this one is while memory is short (need_no_reclaim()).
enum class Whose { kOwn, kUsers };
Result<pid_t> start_program(const std::vector<std::string>& args, Whose whose);

// How the child has ended, as wait(2) tells it; nothing while it runs; an error where nobody knows, which is no
// success. The words of these errors go on from the child's name.
Result<std::optional<int>> wait_status_of(pid_t pid);

// Waits for that. It is an error, too, when the child did not end within `timeout_ns` and was killed, of which a
// process that the kernel holds takes notice later.
Result<int> reap(pid_t pid, uint64_t timeout_ns);

// What `work` returns, 0 or an errno value, in a process of its own, since the kernel lets nobody go who waits for a
// device. Nothing where that does not end in time; it then lives on for as long as the kernel holds it, and has nothing
// open but what `work` opens. Where there is no such process, or it was killed, an errno value says why.
std::optional<int> apart(const std::function<int()>& work, uint64_t timeout_ns);

// The last line of a file that is not blank; empty when there is none.
std::string last_line(const std::string& path);

// A process by its number and start time, since numbers are used again.
struct ProcessId {
  pid_t pid = 0;
  uint64_t start_ticks = 0;  // since boot; field 22 of /proc/PID/stat
};

// The running process `pid`; a zombie counts as ended. pid 0 in the answer: there is none.
ProcessId identify_process(pid_t pid);
bool process_runs(const ProcessId& process);
// False when it still runs after `timeout_ns`.
bool wait_process_end(const ProcessId& process, uint64_t timeout_ns);

// For who is needed while a device waits: those who wait for the device may hold the memory that this
// process would ask for. As far as it may, it keeps what it has and asks without waiting for disks.
void need_no_reclaim();

void sleep_ns(uint64_t ns);
uint64_t steady_now_ns();

}  // namespace twinblock
