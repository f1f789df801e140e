#include "io/posix/memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>

namespace twinblock {
namespace {

constexpr const char* kOomFile = "/proc/self/oom_score_adj";

// The number in the file, or 0.
int read_score() {
  const int fd = ::open(kOomFile, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  char text[16] = {};
  const ssize_t n = ::read(fd, text, sizeof text - 1);
  ::close(fd);
  return n > 0 ? std::atoi(text) : 0;
}

int write_score(int score) {
  const int fd = ::open(kOomFile, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return errno;
  const std::string text = std::to_string(score);
  const int error = ::write(fd, text.data(), text.size()) < 0 ? errno : 0;
  ::close(fd);
  return error;
}

// What this process was started with; nothing, where it was not changed.
std::optional<rlimit> g_given_limit;

int lock_all() {
  return ::mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT) == 0 ? 0 : errno;
}

// A limit that is met today would have a later mmap() fail. Who may pass it is not asked what it is.
int lock_without_limit() {
  rlimit before{};
  if (::getrlimit(RLIMIT_MEMLOCK, &before) != 0) return errno;
  if (!g_given_limit) g_given_limit = before;
  const rlimit wide{RLIM_INFINITY, RLIM_INFINITY};
  const rlimit allowed{before.rlim_max, before.rlim_max};
  if (::setrlimit(RLIMIT_MEMLOCK, &wide) == 0 || before.rlim_cur == RLIM_INFINITY) return lock_all();
  if (before.rlim_max == RLIM_INFINITY && ::setrlimit(RLIMIT_MEMLOCK, &allowed) == 0)
    return lock_all();
  // With a limit of nothing this works with the right to pass it, and only with it.
  const rlimit nothing{0, before.rlim_max};
  if (::setrlimit(RLIMIT_MEMLOCK, &nothing) != 0) return errno;
  const int error = lock_all();
  return ::setrlimit(RLIMIT_MEMLOCK, &before) == 0 ? error : errno;
}

}  // namespace

MemoryStanding stand_memory_shortage() {
  MemoryStanding standing;
#ifdef PR_SET_IO_FLUSHER
  if (::prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0) != 0) standing.io_flusher_error = errno;
#else
  standing.io_flusher_error = ENOSYS;
#endif
  const int score = read_score();
  if (const int wanted = oom_score_to_set(score); wanted != score)
    standing.oom_error = write_score(wanted);
  standing.oom_score_adj = read_score();
  return standing;
}

MemoryStanding stand_memory_shortage_locked() {
  MemoryStanding standing = stand_memory_shortage();
  standing.lock_error = lock_without_limit();
  return standing;
}

void be_ordinary() {
#ifdef PR_SET_IO_FLUSHER
  (void)::prctl(PR_SET_IO_FLUSHER, 0, 0, 0, 0);
#endif
  if (g_given_limit) (void)::setrlimit(RLIMIT_MEMLOCK, &*g_given_limit);
  const int score = ::open(kOomFile, O_WRONLY | O_CLOEXEC);
  if (score < 0) return;
  (void)!::write(score, "0", 1);
  ::close(score);
}

uint64_t group_memory_bytes(const std::string& own, const std::string& mount) {
  uint64_t least_bytes = UINT64_MAX;
  std::istringstream lines(own);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("0::/")) continue;  // of version 1
    std::string group = line.substr(3);
    for (;; group.erase(group.rfind('/'))) {
      uint64_t bytes = 0;
      // Where there is no limit it says "max"; the outermost group has no such file.
      if (std::ifstream(mount + group + "/memory.max") >> bytes) least_bytes = std::min(least_bytes, bytes);
      if (group.find('/') == std::string::npos) break;
    }
  }
  return least_bytes;
}

uint64_t usable_memory_bytes() {
  const long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
  if (pages <= 0 || page_bytes <= 0) return 0;
  std::stringstream own;
  own << std::ifstream("/proc/self/cgroup").rdbuf();
  return std::min(static_cast<uint64_t>(pages) * static_cast<uint64_t>(page_bytes),
                  group_memory_bytes(own.str(), "/sys/fs/cgroup"));
}

}  // namespace twinblock
