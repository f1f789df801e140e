// A process that gets on while its host is short of memory; io/memory_standing.h says why.
#pragma once

#include <cstdint>
#include <string>

#include "io/memory_standing.h"

namespace twinblock {

// Last to be killed, but one that may be: whose memory grows without end is worse than its loss.
constexpr int kOomScoreWanted = -900;

// The score to ask for. Who started the process may have chosen one: that stays.
constexpr int oom_score_to_set(int now) { return now < 0 ? now : kOomScoreWanted; }

// Of what threads and exec() inherit: allocations that never wait for a disk (PR_SET_IO_FLUSHER),
// which also has dirty pages limited by those of the disk that is written alone, and the OOM score.
// For the only thread there is; every one that it starts has the same.
MemoryStanding stand_memory_shortage();

// The same, and keeps what is in memory there, and what comes in, too: exec() ends that. Nothing is
// brought in for it. Where the limit of locked memory would make a later allocation fail, nothing
// is locked.
MemoryStanding stand_memory_shortage_locked();

// For a program that this process starts, between fork() and exec(): nothing but system calls. What the node is, and the
// program need not be: the last to be killed, one for which the kernel frees memory without waiting for disks, one that
// may lock all memory. As far as that may be taken back; who may set it may.
void be_ordinary();

// That this host has in all, or this process' control group is allowed where that is less; 0: it can't tell.
uint64_t usable_memory_bytes();
// What a control group (version 2) and those around it are allowed together; UINT64_MAX: no limit is known. `own` is
// what /proc/self/cgroup says, `mount` where the hierarchy is.
uint64_t group_memory_bytes(const std::string& own, const std::string& mount);

}  // namespace twinblock
