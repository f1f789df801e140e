// Threads of the shell. Every one blocks all asynchronous signals, so that the process's own signal
// handling (nbdkit's) sees them, and so that a write beyond RLIMIT_FSIZE is EFBIG and not SIGXFSZ.
#pragma once

#include <functional>
#include <thread>

namespace twinblock {

// Starts `body` on a thread called `name` (at most 15 characters are shown).
std::thread start_thread(const char* name, std::function<void()> body);

// Main thread. nbdkit in the foreground asks the kernel to end it with its parent, which a service
// that was started from a shell or a script must survive.
void outlive_parent();

}  // namespace twinblock
