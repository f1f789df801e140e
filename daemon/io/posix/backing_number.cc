#include "io/posix/backing_number.h"

#include <fcntl.h>
#include <linux/btrfs.h>
#include <linux/btrfs_tree.h>
#include <linux/magic.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <span>
#include <string_view>
#include <system_error>

#include "base/digest.h"
#include "io/posix/files.h"

namespace twinblock {
namespace {

uint64_t number_of(std::string_view what) {
  const Digest digest = digest_of(std::as_bytes(std::span(what)));
  uint64_t number = 0;
  std::memcpy(&number, digest.data(), sizeof number);
  return number > kBackingTellsNothing ? number : ~number;
}

// Without the blanks around it; empty: there is none.
std::string line_of(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  const auto blank = [](unsigned char c) { return c == 0 || std::isspace(c) != 0; };
  const auto begin = std::find_if_not(line.begin(), line.end(), blank);
  const auto end = std::find_if_not(line.rbegin(), std::make_reverse_iterator(begin), blank).base();
  return {begin, end};
}

// Of a mapped device, the UUID of what it maps. dm-crypt has the mapping's name behind that, and has nothing else where there
// is no header with a UUID.
std::string mapped_uuid(const std::string& sysfs) {
  std::string uuid = line_of(sysfs + "/dm/uuid");
  constexpr std::string_view kCrypt = "CRYPT-";
  const size_t crypt = uuid.find(kCrypt);
  if (crypt == std::string::npos) return uuid;
  constexpr size_t kLuksBytes = std::string_view("LUKS2-").size(), kUuidBytes = 32;
  const bool luks = uuid.compare(crypt + kCrypt.size(), 4, "LUKS") == 0;
  const size_t end = crypt + kCrypt.size() + kLuksBytes + kUuidBytes;
  return luks && uuid.size() > end && uuid[end] == '-' ? uuid.substr(0, end) : "";
}

std::string own_words(const std::string& sysfs) {
  if (std::error_code error; std::filesystem::exists(sysfs + "/dm", error)) return mapped_uuid(sysfs);
  for (const char* name : {"/wwid", "/device/wwid", "/serial"})
    if (std::string line = line_of(sysfs + name); !line.empty()) return line;
  return "";
}

// Those that keep an inode's number for as long as there is the file, and when it was made.
bool keeps_inodes(uint32_t file_system) {
  return file_system == EXT4_SUPER_MAGIC || file_system == XFS_SUPER_MAGIC || file_system == BTRFS_SUPER_MAGIC ||
         file_system == F2FS_SUPER_MAGIC || file_system == TMPFS_MAGIC;
}

// A snapshot of a subvolume of btrfs holds the same inodes, and is another subvolume.
std::optional<uint64_t> subvolume_of(int fd, uint32_t file_system) {
  if (file_system != BTRFS_SUPER_MAGIC) return 0;
  btrfs_ioctl_ino_lookup_args lookup{};
  lookup.objectid = BTRFS_FIRST_FREE_OBJECTID;
  if (::ioctl(fd, BTRFS_IOC_INO_LOOKUP, &lookup) != 0) return std::nullopt;
  return lookup.treeid;
}

uint64_t file_number(int fd) {
  struct statfs system {};
  if (::fstatfs(fd, &system) != 0) return kBackingTellsNothing;
  const auto type = static_cast<uint32_t>(system.f_type);  // signed where words are short
  if (!keeps_inodes(type)) return kBackingTellsNothing;
  struct statx file {};
  constexpr unsigned kWanted = STATX_INO | STATX_BTIME;
  if (::statx(fd, "", AT_EMPTY_PATH, kWanted, &file) != 0 || (file.stx_mask & kWanted) != kWanted) return kBackingTellsNothing;
  const auto subvolume = subvolume_of(fd, type);
  if (!subvolume) return kBackingTellsNothing;
  return number_of("file " + std::to_string(file.stx_ino) + " " + std::to_string(file.stx_btime.tv_sec) + "." +
                   std::to_string(file.stx_btime.tv_nsec) + " " + std::to_string(*subvolume));
}

}  // namespace

uint64_t device_number(const std::string& sysfs) {
  if (const std::string partition = line_of(sysfs + "/partition"); !partition.empty()) {
    const std::string disk = own_words(sysfs + "/.."), start = line_of(sysfs + "/start");
    return disk.empty() || start.empty() ? kBackingTellsNothing : number_of("partition " + start + " of " + disk);
  }
  const std::string words = own_words(sysfs);
  return words.empty() ? kBackingTellsNothing : number_of("device " + words);
}

uint64_t backing_number(int fd) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) return kBackingTellsNothing;
  if (S_ISBLK(status.st_mode)) return device_number(sysfs_of(status.st_rdev));
  return S_ISREG(status.st_mode) ? file_number(fd) : kBackingTellsNothing;
}

}  // namespace twinblock
