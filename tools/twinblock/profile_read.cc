#include "twinblock/profile_read.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/units.h"
#include "twinblock/exit_status.h"

namespace twinblock {
namespace {

constexpr size_t kBytesMax = 256 * kMiB;
constexpr size_t kPiece = 64 * kKiB;

Error failed(const std::string& path, int code) {
  return refused(path + ": " + std::strerror(code));
}

// A file that grows meanwhile is read up to the limit.
Result<std::string> read_all(int fd, const std::string& path) {
  struct stat about{};
  if (fstat(fd, &about) != 0) return failed(path, errno);
  if (S_ISDIR(about.st_mode))
    return refused(path + ": it is a directory", "name the files in it, each with --from");
  if (!S_ISREG(about.st_mode))
    return refused(path + ": it is no regular file", "write the recording into a file first");
  std::string text;
  while (true) {
    const size_t had = text.size();
    if (had > kBytesMax)
      return refused(
          path + ": it is larger than " + format_size(kBytesMax) + ", the most that is read",
          "record with a longer interval, or in several files");
    text.resize(had + kPiece);
    const ssize_t got = read(fd, text.data() + had, kPiece);
    text.resize(had + static_cast<size_t>(got > 0 ? got : 0));
    if (got < 0 && errno != EINTR) return failed(path, errno);
    if (got == 0) return text;
  }
}

}  // namespace

Result<std::string> read_profile_file(const std::string& path) {
  // Opening a pipe must not wait for its other end.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return failed(path, errno);
  Result<std::string> text = read_all(fd, path);
  close(fd);
  return text;
}

}  // namespace twinblock
