// Starts a program, as posix_spawn(3) does, which has no rule for be_ordinary() (memory.h): no copy is made of this
// process' memory, and no signal is handled in the child. Any thread; it waits until the program has begun.
#pragma once

#include <sys/types.h>

#include "base/result.h"

namespace twinblock {

// In the child, whose memory is this process' until exec() while the thread that made it waits, with all signals blocked:
// nothing but system calls. Returns where it went wrong, with errno.
using Become = void (*)(const void* start);

// Whoever started this process may have it ignore how children end (SIGCHLD), which exec() keeps: then the kernel tells
// nobody, and who does not expect that takes a failure for a success. To be called before a child is made by other means
// than spawn(), which does it itself.
void listen_to_children();

// The program's process number, or why there is none; `path` is for messages.
Result<pid_t> spawn(const char* path, Become become, const void* start);

}  // namespace twinblock
