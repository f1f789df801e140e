// How the process stands when its host is short of memory: what it asked its kernel for, and what
// was refused. A program that waits for this node's volume may hold the memory that this node needs
// to serve it, so that the node must not wait for memory that is only free once it has written.
// Filled by io/posix at start-up; plain data after that.
#pragma once

namespace twinblock {

struct MemoryStanding {
  // errno values; 0: granted.
  int io_flusher_error = 0;  // no allocation waits for disks; limits of dirty pages by its own disk
  int lock_error = 0;        // what is in memory stays there
  int oom_error = 0;         // who is killed when nothing is left
  int oom_score_adj = 0;     // as it stands, -1000 (never) to 1000 (first)
};

}  // namespace twinblock
