// Small helpers for start-up, before the loop runs: they block.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "base/result.h"

namespace twinblock {

enum class FileKind { kMissing, kRegular, kBlockDevice, kDirectory, kOther };

// What is at `path`, links followed.
Result<FileKind> file_kind(const std::string& path);
// Reads a file or block device here and there.
class FileReader {
 public:
  static Result<std::unique_ptr<FileReader>> open(const std::string& path);
  ~FileReader();
  FileReader(const FileReader&) = delete;
  FileReader& operator=(const FileReader&) = delete;
  [[nodiscard]] uint64_t size_bytes() const { return size_bytes_; }
  // Puts on stable storage what others wrote: a process that died may have left it in the cache.
  Status flush();
  // All of `into`; a file that ends before is an error.
  Status read_at(uint64_t offset_bytes, std::span<std::byte> into) const;

 private:
  FileReader(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}

  const int fd_;
  const std::string path_;
  uint64_t size_bytes_ = 0;
};
// The same of an open file: 0, or an errno value; EIO where it ends before.
int read_all(int fd, uint64_t offset_bytes, std::span<std::byte> into);
// Extends a regular file that is shorter, sparsely; leaves everything else alone.
Status grow_file(const std::string& path, uint64_t size_bytes);
// Makes `path` and its missing parents (mode 0755, umask applied).
Status make_directories(const std::string& path);
// Puts on stable storage that there is a file at `path`: its name, and those of the directories on
// the way to it, up to the mount point. At each start and not only by who made them: a process that
// died right after that may have left them in the cache. Directories that this user may not read are
// left out.
Status sync_name(const std::string& path);
// Random bytes from the kernel, for UUIDs and generations.
void random_bytes(std::span<std::byte> into);
// Where Linux tells of a block device (Documentation/ABI/stable/sysfs-block).
std::string sysfs_of(dev_t device);
// Tells one life of what the page cache holds of an open file or block device from another: it ends with a boot of
// this host, and when the device under it goes away and is attached anew. 0: the kernel does not say.
uint64_t memory_number(int fd);
// As `hostname` prints it.
std::string host_name();

}  // namespace twinblock
