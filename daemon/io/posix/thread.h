// Threads of the shell. Every one blocks all asynchronous signals, so that the process's own signal
// handling (nbdkit's) sees them.
#pragma once

#include <functional>
#include <thread>

namespace twinblock {

// Starts `body` on a thread called `name` (at most 15 characters are shown); not as
// SCHED_BATCH, whoever starts it. Throws std::system_error when there can be no more.
std::thread start_thread(const char* name, std::function<void()> body);

// For workers, that is the calling thread and those that nbdkit starts from it: being woken does
// not preempt whoever runs, so that the loop finishes its turn before those that it has woken run,
// and a worker that hands a request over is not interrupted by another. The loop itself stays as it
// is: on a busy host it must not wait behind what computes. Measured with 4 KiB writes at depth 32,
// one run: 43.1 k/s and 26.2 us of CPU a write without, 47.6 k/s and 20.9 us with.
void run_in_batches();

// A write beyond RLIMIT_FSIZE is EFBIG then, and not SIGXFSZ, also on threads that others have started.
void take_size_limit_as_error();

// Main thread. nbdkit in the foreground asks the kernel to end it with its parent, which a service
// that was started from a shell or a script must survive.
void outlive_parent();

}  // namespace twinblock
