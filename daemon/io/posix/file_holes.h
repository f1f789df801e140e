// What the kernel says of the holes of a file, and whether that may be believed. Any thread; these may block.
#pragma once

#include <cstdint>

namespace twinblock {

// Whether a file system (statfs' f_type) knows of each hole what is still to be written there. FUSE with a
// write-back cache asks its server, which has not been told yet; some versions of ZFS call a hole what was written
// a moment ago (OpenZFS issue 15526).
[[nodiscard]] bool holes_are_told(uint64_t file_system);
// The same of the one on which an open file lies.
[[nodiscard]] bool file_holes_are_told(int fd);

// Whether somebody has shortened a regular file to less than that: what is missing is no hole.
[[nodiscard]] bool is_cut(int fd, uint64_t least_bytes);

// Whether `offset` of a regular file is in a hole, and how far that or the data extends, at most `length_bytes`, which
// is not 0. 0 or an errno value; where holes can't be told, all is data.
[[nodiscard]] int find_extent(int fd, uint64_t offset, uint64_t length_bytes, bool& hole, uint64_t& extent_bytes);

}  // namespace twinblock
