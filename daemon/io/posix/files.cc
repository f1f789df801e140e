#include "io/posix/files.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <climits>
#include <filesystem>
#include <fstream>
#include <optional>
#include <system_error>

#include "base/checks.h"
#include "base/units.h"

namespace twinblock {
namespace {

class OpenFile {
 public:
  explicit OpenFile(const std::string& path)
      : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)) {}
  ~OpenFile() {
    if (fd_ >= 0) ::close(fd_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  [[nodiscard]] int fd() const { return fd_; }

 private:
  const int fd_;
};

// Of this boot of the host.
uint64_t boot_number() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  uint64_t number = 0;
  size_t digits = 0;
  for (char c = 0; digits < 16 && file.get(c);) {
    if (c == '-') continue;
    uint64_t digit = 0;
    if (std::from_chars(&c, &c + 1, digit, 16).ec != std::errc()) return 0;
    number = number << 4 | digit;
    ++digits;
  }
  return digits == 16 ? number : 0;
}

// How many devices this host had when this one was attached (Linux 5.15); 0: the kernel does not say, as of a file
// system of several devices, or of none. A partition is attached with its disk.
uint64_t attachment_number(dev_t device) {
  for (const char* name : {"/diskseq", "/../diskseq"}) {
    uint64_t number = 0;
    if (std::ifstream file(sysfs_of(device) + name); file >> number) return number;
  }
  return 0;
}

}  // namespace

Result<FileKind> file_kind(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) return FileKind::kMissing;
    return system_error(errno, "stat " + path);
  }
  if (S_ISREG(status.st_mode)) return FileKind::kRegular;
  if (S_ISBLK(status.st_mode)) return FileKind::kBlockDevice;
  if (S_ISDIR(status.st_mode)) return FileKind::kDirectory;
  return FileKind::kOther;
}

Result<std::unique_ptr<FileReader>> FileReader::open(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (fd < 0) return system_error(errno, "open " + path);
  std::unique_ptr<FileReader> reader(new FileReader(fd, path));
  const off_t end = ::lseek(fd, 0, SEEK_END);  // of a device, too
  if (end < 0) return system_error(errno, "find the size of " + path);
  reader->size_bytes_ = static_cast<uint64_t>(end);
  return reader;
}

FileReader::~FileReader() { ::close(fd_); }

Status FileReader::flush() {
  int result = 0;
  do result = ::fdatasync(fd_);
  while (result != 0 && errno == EINTR);
  return result == 0 ? ok_status() : system_error(errno, "flush " + path_);
}

Status FileReader::read_at(uint64_t offset_bytes, std::span<std::byte> into) const {
  const int error = read_all(fd_, offset_bytes, into);
  const bool beyond = offset_bytes + into.size() > size_bytes_;
  return error == 0 ? ok_status() : system_error(error, (beyond ? "read past the end of " : "read ") + path_);
}

int read_all(int fd, uint64_t offset_bytes, std::span<std::byte> into) {
  while (!into.empty()) {
    const ssize_t n = ::pread(fd, into.data(), into.size(), static_cast<off_t>(offset_bytes));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return n < 0 ? errno : EIO;
    into = into.subspan(static_cast<size_t>(n));
    offset_bytes += static_cast<uint64_t>(n);
  }
  return 0;
}

Status grow_file(const std::string& path, uint64_t size_bytes) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) return ok_status();
    return system_error(errno, "stat " + path);
  }
  if (!S_ISREG(status.st_mode) || static_cast<uint64_t>(status.st_size) >= size_bytes)
    return ok_status();
  if (::truncate(path.c_str(), static_cast<off_t>(size_bytes)) != 0)
    return system_error(errno, "extend " + path + " to " + format_size(size_bytes));
  return ok_status();
}

Status make_directories(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) return system_error(error.value(), "create the directory " + path);
  return ok_status();
}

Status sync_name(const std::string& path) {
  std::error_code error;
  const std::filesystem::path real = std::filesystem::canonical(path, error);
  if (error) return system_error(error.value(), "find the directory of " + path);
  std::optional<dev_t> device;
  for (std::filesystem::path at = real.parent_path();; at = at.parent_path()) {
    const OpenFile directory(at.string());
    struct stat status {};
    if (directory.fd() < 0 && errno != EACCES) return system_error(errno, "open " + at.string());
    if (directory.fd() >= 0) {
      if (::fstat(directory.fd(), &status) != 0) return system_error(errno, "stat " + at.string());
      if (device && *device != status.st_dev) return ok_status();  // above the mount point
      device = status.st_dev;
      // EINVAL: a file system that has nothing to write for a directory.
      if (::fsync(directory.fd()) != 0 && errno != EINVAL)
        return system_error(errno, "fsync " + at.string());
    }
    if (at == at.root_path()) return ok_status();
  }
}

void random_bytes(std::span<std::byte> into) {
  while (!into.empty()) {
    const ssize_t n = ::getrandom(into.data(), into.size(), 0);
    TB_CHECK(n > 0 || errno == EINTR, "getrandom fails");
    if (n > 0) into = into.subspan(static_cast<size_t>(n));
  }
}

std::string sysfs_of(dev_t device) {
  return "/sys/dev/block/" + std::to_string(major(device)) + ":" + std::to_string(minor(device));
}

uint64_t memory_number(int fd) {
  const uint64_t boot = boot_number();
  struct stat status {};
  if (boot == 0 || ::fstat(fd, &status) != 0) return 0;
  const uint64_t number = boot + attachment_number(S_ISBLK(status.st_mode) ? status.st_rdev : status.st_dev);
  return number != 0 ? number : 1;
}

std::string host_name() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "";
  return name.data();
}

}  // namespace twinblock
