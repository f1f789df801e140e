#include "io/posix/direct_io.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>

#include "base/units.h"
#include "io/posix/aligned_buffers.h"

namespace twinblock {
namespace {

// Tried, and not only asked for: some file systems take the flag and refuse the transfers, or take
// larger blocks only. A place that can't be read says nothing about that.
int try_transfer(int fd) {
  AlignedBuffers buffers;
  const AlignedBuffer buffer(buffers, AlignedBuffers::kAlign);
  ssize_t n = 0;
  do n = ::pread(fd, buffer.get(), AlignedBuffers::kAlign, 0);
  while (n < 0 && errno == EINTR);
  return n < 0 && (errno == EINVAL || errno == EOPNOTSUPP) ? errno : 0;
}

}  // namespace

Result<uint64_t> make_direct(int fd, const std::string& path, bool is_device) {
  // A file system does not like parts of its own blocks, which have 4 KiB nearly everywhere.
  int block_bytes = static_cast<int>(AlignedBuffers::kAlign);
  if (is_device && ::ioctl(fd, BLKSSZGET, &block_bytes) != 0)
    return system_error(errno, "block size of " + path);
  const int found = ::fcntl(fd, F_GETFL);
  if (found < 0) return system_error(errno, "flags of " + path);
  const int flags = found & ~O_DIRECT;
  int error = ::fcntl(fd, F_SETFL, flags | O_DIRECT) != 0 ? errno : try_transfer(fd);
  if (static_cast<uint64_t>(block_bytes) > AlignedBuffers::kAlign) error = EINVAL;
  if (error == 0) return static_cast<uint64_t>(block_bytes);
  (void)::fcntl(fd, F_SETFL, flags);
  return Error{"direct I/O in blocks of " + format_size(AlignedBuffers::kAlign) +
                   " is not possible where " + path + " lies",
               "set backing_io = \"buffered\" for this node, or use another file system or device",
               error};
}

}  // namespace twinblock
