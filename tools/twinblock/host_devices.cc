#include "twinblock/host_devices.h"

#include <fcntl.h>
#include <linux/loop.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
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

// Where the device with these numbers ("7:0") is mounted; empty when nowhere.
std::string mount_point(const std::string& mountinfo, const std::string& numbers) {
  std::ifstream file(mountinfo);
  for (std::string line; std::getline(file, line);) {
    std::istringstream fields(line);
    std::string id, parent, device, root, mounted_at;
    fields >> id >> parent >> device >> root >> mounted_at;
    if (device == numbers) return unescaped(mounted_at);
  }
  return {};
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
std::string any_mount_point(const HostPaths& host, const std::string& numbers) {
  if (const std::string here = mount_point(host.proc + "/self/mountinfo", numbers); !here.empty())
    return here;
  std::set<std::string> seen{mount_namespace(host, "self")};
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(host.proc, error)) {
    const std::string pid = entry.path().filename().string();
    if (!is_number(pid)) continue;
    const std::string spaces = mount_namespace(host, pid);
    if (!spaces.empty() && !seen.insert(spaces).second) continue;
    const std::string there = mount_point(entry.path() / "mountinfo", numbers);
    if (there.empty()) continue;
    const std::string name = first_line(entry.path() / "comm");
    return there + " in another mount namespace, that of process " + pid +
           (name.empty() ? "" : " (" + name + ")") + "; try: nsenter -t " + pid + " -m umount " +
           there;
  }
  return {};
}

// The same for one directory of sysfs, of a disk or of a partition.
std::string user_of(const HostPaths& host, const fs::path& block) {
  const std::string numbers = first_line(block / "dev");
  const std::string at = numbers.empty() ? "" : any_mount_point(host, numbers);
  if (!at.empty()) return "it is mounted at " + at;
  std::error_code error;
  for (const auto& holder : fs::directory_iterator(block / "holders", error))
    return "/dev/" + holder.path().filename().string() + " is built on it";
  return {};
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
  const fs::path block = fs::path(host.sys) / "block" / name_of(device);
  std::string user = user_of(host, block);
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(block, error)) {
    if (!user.empty()) break;
    if (!fs::exists(entry.path() / "partition", error) || empty_dir(entry.path())) continue;
    user = user_of(host, entry.path());
    if (!user.empty()) user.insert(0, "its partition " + entry.path().filename().string() + ": ");
  }
  return user;
}

}  // namespace twinblock
