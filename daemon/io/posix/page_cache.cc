#include "io/posix/page_cache.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "base/units.h"

namespace twinblock {
namespace {

// cachestat(2), of Linux 6.5; the headers of Debian 12 do not have it.
constexpr long kCachestatCall = 451;
struct CachestatRange {
  uint64_t offset_bytes, length_bytes;  // length 0: to the end
};
struct Cachestat {
  uint64_t cached, dirty, writeback, evicted, recently_evicted;  // pages
};

constexpr uint64_t kWindowBytes = 1 * kGiB;

// mincore(2) tells of mapped pages; those that nobody has mapped count where this user may write to
// the file, else all do, which is the safe answer.
bool nothing_is_cached_by_page(int fd, uint64_t size_bytes) {
  const auto page_bytes = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> pages(kWindowBytes / page_bytes);
  for (uint64_t at = 0; at < size_bytes; at += kWindowBytes) {
    const uint64_t length = std::min(kWindowBytes, size_bytes - at);
    void* window = ::mmap(nullptr, length, PROT_READ, MAP_SHARED, fd, static_cast<off_t>(at));
    if (window == MAP_FAILED) return false;
    const bool told = ::mincore(window, length, pages.data()) == 0;
    ::munmap(window, length);
    const auto count = static_cast<std::ptrdiff_t>((length + page_bytes - 1) / page_bytes);
    if (!told || std::any_of(pages.begin(), pages.begin() + count,
                             [](unsigned char page) { return (page & 1) != 0; }))
      return false;
  }
  return true;
}

// Which pages of a window are in memory; false: that is not told.
bool look_into_window(int fd, uint64_t at, uint64_t length, std::vector<unsigned char>& pages) {
  CachestatRange range{at, length};
  Cachestat told{};
  if (::syscall(kCachestatCall, fd, &range, &told, 0) == 0 && told.cached == 0) {
    pages.clear();
    return true;
  }
  const auto page_bytes = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  pages.resize((length + page_bytes - 1) / page_bytes);
  void* window = ::mmap(nullptr, length, PROT_READ, MAP_SHARED, fd, static_cast<off_t>(at));
  if (window == MAP_FAILED) return false;
  const bool seen = ::mincore(window, length, pages.data()) == 0;
  const int error = errno;
  ::munmap(window, length);
  errno = error;
  return seen;
}

}  // namespace

bool for_cached_runs(int fd, uint64_t offset_bytes, uint64_t length_bytes,
                     const std::function<bool(uint64_t, uint64_t)>& visit) {
  const auto page_bytes = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  const uint64_t end_bytes = offset_bytes + length_bytes;
  std::vector<unsigned char> pages;
  for (uint64_t at = offset_bytes; at < end_bytes; at += kWindowBytes) {
    const uint64_t length = std::min(kWindowBytes, end_bytes - at);
    if (!look_into_window(fd, at, length, pages) || !visit(at, 0)) return false;
    const auto in_memory = [&pages](size_t page) { return (pages[page] & 1) != 0; };
    for (size_t page = 0; page < pages.size();) {
      const size_t first = page;
      while (page < pages.size() && in_memory(page) == in_memory(first)) ++page;
      const uint64_t begin = at + first * page_bytes;
      const uint64_t end = std::min(at + page * page_bytes, end_bytes);
      if (in_memory(first) && !visit(begin, end - begin)) return false;
    }
  }
  return true;
}

bool nothing_is_cached(int fd, uint64_t size_bytes, bool ask_quickly) {
  CachestatRange range{0, 0};
  Cachestat told{};
  if (ask_quickly && ::syscall(kCachestatCall, fd, &range, &told, 0) == 0)
    return told.cached == 0;
  // A service manager's filter of system calls may not know it yet.
  if (ask_quickly && errno != ENOSYS && errno != EPERM) return false;
  return nothing_is_cached_by_page(fd, size_bytes);
}

bool drop_cached_pages(int fd, uint64_t size_bytes, bool is_device) {
  // A device's own request drops the buffers of a file system that was mounted there, too; without
  // the right to it, the other one may still do.
  if (is_device) (void)::ioctl(fd, BLKFLSBUF, 0);
  if (::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) != 0) return false;
  return nothing_is_cached(fd, size_bytes);
}

}  // namespace twinblock
