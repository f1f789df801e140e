// Whether what the kernel holds of a file or block device in memory is what the disk holds. After a write-back has failed
// it is not, and counts as written all the same: who begins now is not told of that. For start-up, before the loop runs:
// nobody writes there, and it blocks, but not for long. (What cannot be waited for any more ends on a thread of its own.)
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/limits.h"

namespace twinblock {

enum class MemoryFound : uint8_t {
  kHonest,    // each page that was in memory is the disk's
  kDeceives,  // one is not; or the disk does not take what memory holds for it, or can't be read there, so that it is not known
  kUntold,    // this file system has no direct I/O, or the kernel does not tell what is in memory
  kCutOff,    // nothing was found in the time that there was, and not all was looked at
  kHangs,     // the disk does not answer
};

struct MemoryLook {
  MemoryFound found = MemoryFound::kHonest;
  uint64_t at_bytes = 0;      // kDeceives: where; kCutOff, kHangs: how much had been compared
  int error = 0;              // kDeceives: an errno value, or 0: other bytes; kUntold: an errno value
};

struct FileRange {
  uint64_t offset_bytes = 0;
  uint64_t length_bytes = 0;
};

struct LookPatience {
  uint64_t longest_ns = limits::kMemoryLook_ns;
  uint64_t still_ns = limits::kFlushOnRecord_ns;  // without an answer: it hangs
};

// Looks at the ranges in their order; of what is not in memory nothing is read (but a page or so on file systems that can't
// say that it has just gone). What is still to be written there is, first. Of a device nothing is in memory once its last
// user has closed it.
MemoryLook look_at_memory(const std::string& path, std::vector<FileRange> ranges, LookPatience patience = {});

}  // namespace twinblock
