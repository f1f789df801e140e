#include "io/posix/file_holes.h"

#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/limits.h"

namespace twinblock {
namespace {

constexpr uint64_t kZfsMagic = 0x2fc12fc1;  // it is in no header of the kernel's

}  // namespace

bool holes_are_told(uint64_t file_system) {
  return file_system != FUSE_SUPER_MAGIC && file_system != kZfsMagic;
}

bool file_holes_are_told(int fd) {
  struct statfs of {};
  return ::fstatfs(fd, &of) == 0 && holes_are_told(static_cast<uint32_t>(of.f_type));
}

bool is_cut(int fd, uint64_t least_bytes) {
  struct stat status {};
  return ::fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && static_cast<uint64_t>(status.st_size) < least_bytes;
}

int find_extent(int fd, uint64_t offset, uint64_t length_bytes, bool& hole, uint64_t& extent_bytes) {
  hole = false;
  extent_bytes = length_bytes;
  const off_t data = ::lseek(fd, static_cast<off_t>(offset), SEEK_DATA);
  if (data < 0 && errno == ENXIO) {
    hole = true;  // up to the end
    return is_cut(fd, offset + length_bytes) ? EIO : 0;
  }
  if (data < 0) return errno == EINVAL ? 0 : errno;
  if (static_cast<uint64_t>(data) > offset) {
    hole = true;
    extent_bytes = std::min(length_bytes, static_cast<uint64_t>(data) - offset);
    return 0;
  }
  const off_t end = ::lseek(fd, static_cast<off_t>(offset), SEEK_HOLE);
  if (end < 0) return errno == EINVAL ? 0 : errno;
  extent_bytes = std::min(length_bytes, static_cast<uint64_t>(end) - offset);
  // A hole that was made between the two calls: data is always a right answer.
  if (extent_bytes == 0) extent_bytes = std::min(length_bytes, limits::kBlockBytes);
  return 0;
}

}  // namespace twinblock
