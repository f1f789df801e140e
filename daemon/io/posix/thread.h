// Threads of the shell. Every one blocks all asynchronous signals, so that the process's own signal
// handling (nbdkit's) sees them, and so that a write beyond RLIMIT_FSIZE is EFBIG and not SIGXFSZ.
#pragma once

#include <functional>
#include <thread>

namespace twinblock {

// Starts `body` on a thread called `name` (at most 15 characters are shown).
std::thread start_thread(const char* name, std::function<void()> body);

// For the calling thread and those that it starts from now on: being woken does not preempt whoever
// runs. A worker that hands a request over goes on to the next one instead of making room for the
// loop, which then finds several; and the loop finishes its turn before those that it has woken run.
// Measured at 4 KiB and depth 32: 1.35 times the writes, at 0.7 times the CPU time for each.
void run_in_batches();

// Main thread. nbdkit in the foreground asks the kernel to end it with its parent, which a service
// that was started from a shell or a script must survive.
void outlive_parent();

}  // namespace twinblock
