#include "noted_syncs.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace twinblock {

NotedSyncs& noted_syncs() {
  static NotedSyncs syncs;
  return syncs;
}

bool NotedSyncs::had(const std::string& path) const {
  const std::lock_guard lock(mutex_);
  return std::find(paths_.begin(), paths_.end(), path) != paths_.end();
}

int NotedSyncs::note(int fd) {
  std::array<char, 4096> name{};
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  if (::readlink(link.c_str(), name.data(), name.size() - 1) <= 0) return 0;
  const std::string path = name.data();
  if (const int error = before ? before(path) : 0; error != 0) return error;
  const std::lock_guard lock(mutex_);
  paths_.push_back(path);
  return 0;
}

namespace {

int sync(int fd, long number) {
  if (const int error = noted_syncs().note(fd); error != 0) {
    errno = error;
    return -1;
  }
  return static_cast<int>(::syscall(number, fd));
}

}  // namespace
}  // namespace twinblock

extern "C" int fsync(int fd) { return twinblock::sync(fd, SYS_fsync); }
extern "C" int fdatasync(int fd) { return twinblock::sync(fd, SYS_fdatasync); }
