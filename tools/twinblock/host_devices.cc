#include "twinblock/host_devices.h"

#include <fcntl.h>
#include <linux/loop.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <vector>

namespace twinblock {
namespace {

namespace fs = std::filesystem;

std::string first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::string name_of(const std::string& device) { return fs::path(device).filename().string(); }

bool empty_dir(const fs::path& dir) {
  std::error_code error;
  return fs::directory_iterator(dir, error) == fs::directory_iterator();
}

// "\040" stands for a space in mountinfo.
std::string unescaped(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 3 >= text.size()) {
      out.push_back(text[i]);
      continue;
    }
    out.push_back(static_cast<char>(std::stoi(text.substr(i + 1, 3), nullptr, 8)));
    i += 3;
  }
  return out;
}

// A disk or a partition.
struct Block {
  std::string name;     // "nbd0p1"
  std::string numbers;  // "43:1"
};

// Whether `path` is a name of it: /dev/nbd0, or a link to that.
bool names(const HostPaths& host, const std::string& path, const Block& block) {
  if (!path.starts_with(host.dev + "/")) return false;
  std::error_code error;
  return fs::weakly_canonical(path, error).filename() == block.name;
}

// Where it is mounted; empty when nowhere. A btrfs has numbers of its own, which say nothing of its device: what it
// was mounted by does.
std::string mount_point(const HostPaths& host, const std::string& mountinfo, const Block& block) {
  std::ifstream file(mountinfo);
  for (std::string line; std::getline(file, line);) {
    std::istringstream fields(line);
    std::string id, parent, device, root, mounted_at, word, type, source;
    fields >> id >> parent >> device >> root >> mounted_at;
    while (fields >> word && word != "-") {
    }
    fields >> type >> source;
    const bool anonymous = device.starts_with("0:");
    if (device == block.numbers || (anonymous && names(host, unescaped(source), block)))
      return unescaped(mounted_at);
  }
  return {};
}

bool is_swap(const HostPaths& host, const Block& block) {
  std::ifstream file(host.proc + "/swaps");
  for (std::string line; std::getline(file, line);) {
    std::istringstream fields(line);
    std::string path;
    fields >> path;
    if (names(host, unescaped(path), block)) return true;
  }
  return false;
}

bool is_number(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
}

// Its mount namespace: "mnt:[4026531841]"; empty where this user may not know.
std::string mount_namespace(const HostPaths& host, const std::string& process) {
  std::error_code error;
  return fs::read_symlink(fs::path(host.proc) / process / "ns" / "mnt", error).string();
}

// As mount_point(), for the user, of all processes: what one unmounts may stay mounted where a
// container or a service has a copy of it.
std::string any_mount_point(const HostPaths& host, const Block& block) {
  if (const std::string here = mount_point(host, host.proc + "/self/mountinfo", block); !here.empty())
    return here;
  std::set<std::string> seen{mount_namespace(host, "self")};
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(host.proc, error)) {
    const std::string pid = entry.path().filename().string();
    if (!is_number(pid)) continue;
    const std::string spaces = mount_namespace(host, pid);
    if (!spaces.empty() && !seen.insert(spaces).second) continue;
    const std::string there = mount_point(host, entry.path() / "mountinfo", block);
    if (there.empty()) continue;
    const std::string name = first_line(entry.path() / "comm");
    return there + " in another mount namespace, that of process " + pid +
           (name.empty() ? "" : " (" + name + ")") + "; try: nsenter -t " + pid + " -m umount " +
           there;
  }
  return {};
}

// The same for one directory of sysfs, of a disk or of a partition.
std::string user_of(const HostPaths& host, const fs::path& directory) {
  const Block block{directory.filename().string(), first_line(directory / "dev")};
  const std::string at = block.numbers.empty() ? "" : any_mount_point(host, block);
  if (!at.empty()) return "it is mounted at " + at;
  if (is_swap(host, block)) return "it is a swap area; try: swapoff /dev/" + block.name;
  std::error_code error;
  for (const auto& holder : fs::directory_iterator(directory / "holders", error))
    return "/dev/" + holder.path().filename().string() + " is built on it";
  return {};
}

// Whether an open file of a process is this device, by what procfs says of it. Only what has its name is looked at any
// closer, since a file whose server is gone would keep who asks for it.
bool is_open_as(const HostPaths& host, const fs::path& descriptor, const Block& block) {
  std::error_code error;
  const std::string path = fs::read_symlink(descriptor, error).string();
  if (path == host.dev + "/" + block.name) return true;
  if (!path.ends_with("/" + block.name)) return false;
  struct stat file {};
  return stat(descriptor.c_str(), &file) == 0 && S_ISBLK(file.st_mode) &&
         block.numbers == std::to_string(major(file.st_rdev)) + ":" + std::to_string(minor(file.st_rdev));
}

std::string opener_of(const HostPaths& host, const Block& block) {
  std::error_code error;
  for (const auto& process : fs::directory_iterator(host.proc, error)) {
    const std::string pid = process.path().filename().string();
    if (!is_number(pid) || pid == std::to_string(getpid())) continue;
    std::error_code gone;
    for (const auto& descriptor : fs::directory_iterator(process.path() / "fd", gone)) {
      if (!is_open_as(host, descriptor.path(), block)) continue;
      const std::string name = first_line(process.path() / "comm");
      return "process " + pid + (name.empty() ? "" : " (" + name + ")") + " has it open";
    }
  }
  return {};
}

// Of a disk, and of its partitions, the first that `user` says something of.
template <typename User>
std::string disk_or_partition(const HostPaths& host, const std::string& device, User&& user) {
  const fs::path disk = fs::path(host.sys) / "block" / name_of(device);
  std::string found = user(disk);
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(disk, error)) {
    if (!found.empty()) break;
    if (!fs::exists(entry.path() / "partition", error) || empty_dir(entry.path())) continue;
    found = user(entry.path());
    if (!found.empty()) found.insert(0, "its partition " + entry.path().filename().string() + ": ");
  }
  return found;
}

}  // namespace

bool has_kernel_nbd(const HostPaths& host) {
  return access((host.sys + "/module/nbd").c_str(), F_OK) == 0 ||
         access((host.dev + "/nbd0").c_str(), F_OK) == 0;
}

uint32_t free_nbd_index(const HostPaths& host, uint32_t first) {
  while (nbd_device_connected(host, "nbd" + std::to_string(first))) ++first;
  return first;
}

bool nbd_device_connected(const HostPaths& host, const std::string& device) {
  return access((host.sys + "/block/" + name_of(device) + "/pid").c_str(), F_OK) == 0;
}

pid_t nbd_device_pid(const HostPaths& host, const std::string& device) {
  const std::string pid = first_line(host.sys + "/block/" + name_of(device) + "/pid");
  return is_number(pid) ? static_cast<pid_t>(std::strtol(pid.c_str(), nullptr, 10)) : 0;
}

uint64_t nbd_device_bytes(const HostPaths& host, const std::string& device) {
  constexpr uint64_t kSectorBytes = 512;  // of sysfs, whatever the device's are
  const std::string sectors = first_line(host.sys + "/block/" + name_of(device) + "/size");
  return is_number(sectors) ? std::strtoull(sectors.c_str(), nullptr, 10) * kSectorBytes : 0;
}

std::string loop_backing_file(const HostPaths& host, const std::string& device) {
  return first_line(host.sys + "/block/" + name_of(device) + "/loop/backing_file");
}

std::string loop_device_of(const HostPaths& host, const std::string& file) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(host.sys + "/block", error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("loop") && loop_backing_file(host, name) == file)
      return host.dev + "/" + name;
  }
  return {};
}

bool loop_is_on(const HostPaths& host, const std::string& device, const std::string& file) {
  if (loop_backing_file(host, device) != file) return false;
  // Names come again. Who may not look any closer goes by the name.
  struct stat named {};
  loop_info64 behind{};
  const int fd = open(device.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  const bool known = fd >= 0 && ioctl(fd, LOOP_GET_STATUS64, &behind) == 0;
  if (fd >= 0) close(fd);
  if (!known || stat(file.c_str(), &named) != 0) return true;
  return behind.lo_device == named.st_dev && behind.lo_inode == named.st_ino;
}

bool loop_is_going(const HostPaths& host, const std::string& device) {
  return first_line(host.sys + "/block/" + name_of(device) + "/loop/autoclear") == "1";
}

bool mounted_at(const HostPaths& host, const std::string& dir) {
  std::ifstream file(host.proc + "/self/mountinfo");
  for (std::string line; std::getline(file, line);) {
    std::istringstream fields(line);
    std::string id, parent, device, root, at;
    fields >> id >> parent >> device >> root >> at;
    if (unescaped(at) == dir) return true;
  }
  return false;
}

bool in_another_mount_namespace(const HostPaths& host, pid_t pid) {
  const std::string own = mount_namespace(host, "self");
  const std::string other = mount_namespace(host, std::to_string(pid));
  return !own.empty() && !other.empty() && own != other;
}

std::string device_user(const HostPaths& host, const std::string& device) {
  return disk_or_partition(host, device, [&host](const fs::path& directory) { return user_of(host, directory); });
}

std::string device_opener(const HostPaths& host, const std::string& device) {
  return disk_or_partition(host, device, [&host](const fs::path& directory) {
    return opener_of(host, Block{directory.filename().string(), first_line(directory / "dev")});
  });
}

}  // namespace twinblock
