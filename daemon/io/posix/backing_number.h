// Tells one backing from another, also from a copy of it, over boots of the host and whatever name it gets: a record is about
// one of them. Blocks; any thread.
#pragma once

#include <cstdint>
#include <string>

namespace twinblock {

// Of an open file: its inode, and when it was made. Of a block device: what it says of itself (by wwid, serial number or UUID),
// of a partition with where it begins. Never 0.
uint64_t backing_number(int fd);
// Nothing tells for certain, as of a file on NFS, or of a loop device: all of these are the same, and none is one that tells.
constexpr uint64_t kBackingTellsNothing = 1;
// The same of the block device of which Linux tells in that folder (files.h, sysfs_of()).
uint64_t device_number(const std::string& sysfs);

}  // namespace twinblock
