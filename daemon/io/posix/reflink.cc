#include "io/posix/reflink.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <span>

#include "io/posix/descriptor.h"
#include "io/posix/files.h"

namespace twinblock {
namespace {

Error not_copied(int error, const std::string& from, const std::string& to) {
  const std::string what = "no reflink of " + from + " to " + to;
  switch (error) {
    case EOPNOTSUPP:
    case ENOTTY:
    case EINVAL:
      return system_error(error, what,
                          "that needs a file on XFS or btrfs: put the backing there, or name a command in [copies]");
    case EXDEV:
      return system_error(error, what, "both have to be on one file system");
    case ENOSPC:
      return system_error(error, what, "make room on the file system of " + from);
    default:
      return system_error(error, what, "see dmesg");
  }
}

Status clone_into(int from, int onto, const std::string& from_path, const std::string& to_path) {
  if (::ioctl(onto, FICLONE, from) != 0) return not_copied(errno, from_path, to_path);
  return ok_status();
}

Result<Descriptor> open_to_read(const std::string& path) {
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.open()) return system_error(errno, path);
  return Result<Descriptor>(std::move(file));
}

}  // namespace

Status reflink(const std::string& from, const std::string& to) {
  const Result<Descriptor> source = open_to_read(from);
  if (!source) return source.error();
  struct stat info {};
  if (::fstat(source.value().get(), &info) != 0) return system_error(errno, from);
  if (!S_ISREG(info.st_mode)) return not_copied(EOPNOTSUPP, from, to);
  // One that was left is not written into: it may have another name by now.
  if (Status gone = remove_file(to); !gone) return gone;
  const Descriptor copy(::open(to.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!copy.open()) return system_error(errno, to, "give this user write access to its directory");
  Status cloned = clone_into(source.value().get(), copy.get(), from, to);
  // Whoever may read the one may read the other, and nobody else.
  const bool same_owner = ::fchown(copy.get(), static_cast<uid_t>(-1), info.st_gid) == 0;
  if (cloned && same_owner && ::fchmod(copy.get(), info.st_mode & 0777) != 0)
    cloned = system_error(errno, to);
  if (!cloned) (void)::unlink(to.c_str());
  return cloned;
}

Status reflink_again(const std::string& from, const std::string& to) {
  const Result<Descriptor> source = open_to_read(from);
  if (!source) return source.error();
  const Descriptor copy(::open(to.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!copy.open()) return system_error(errno, to);
  return clone_into(source.value().get(), copy.get(), from, to);
}

Status keep_reflink(const std::string& part, const std::string& to, bool replace,
                    const std::atomic<bool>& given_up, bool& named) {
  const Result<Descriptor> copy = open_to_read(part);
  if (!copy) return copy.error();
  if (::fsync(copy.value().get()) != 0) return system_error(errno, part);
  if (given_up) {
    (void)::unlink(part.c_str());
    return Error{part + " came too late", "", ETIMEDOUT};
  }
  const unsigned flags = replace ? 0 : RENAME_NOREPLACE;
  if (::renameat2(AT_FDCWD, part.c_str(), AT_FDCWD, to.c_str(), flags) != 0) return system_error(errno, to);
  named = true;
  return sync_name(to);
}

Status reflink_onto(const std::string& from, const std::string& onto) {
  const Result<Descriptor> source = open_to_read(from);
  if (!source) return source.error();
  const Descriptor file(::open(onto.c_str(), O_WRONLY | O_CLOEXEC));
  if (!file.open()) return system_error(errno, onto);
  if (Status cloned = clone_into(source.value().get(), file.get(), from, onto); !cloned) return cloned;
  if (::fsync(file.get()) != 0) return system_error(errno, onto);
  return ok_status();
}

Status remove_file(const std::string& path) {
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) return system_error(errno, path);
  return ok_status();
}

Status can_reflink(const std::string& path) {
  // Names that nobody has chosen: what stands beside the backing is somebody's.
  uint64_t number = 0;
  random_bytes(std::as_writable_bytes(std::span(&number, 1)));
  const std::string from = path + ".reflink-from-" + std::to_string(number);
  const std::string to = path + ".reflink-to-" + std::to_string(number);
  const Descriptor empty(::open(from.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!empty.open()) return system_error(errno, from, "give this user write access to its directory");
  Status can = reflink(from, to);
  (void)::unlink(from.c_str());
  (void)::unlink(to.c_str());
  return can;
}

}  // namespace twinblock
