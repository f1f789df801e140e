// What this host offers for block devices, and who uses one: read from sysfs and procfs, whose
// places are parameters, so that tests can bring their own.
#pragma once

#include <optional>
#include <string>

namespace twinblock {

struct HostPaths {
  std::string sys = "/sys";
  std::string dev = "/dev";
  std::string mountinfo = "/proc/self/mountinfo";
};

// Whether the kernel has nbd.
bool has_kernel_nbd(const HostPaths& host);
// "/dev/nbd3", the first that nobody uses; nullopt when all are in use.
std::optional<std::string> free_nbd_device(const HostPaths& host);
// Whether the kernel device is connected to a server.
bool nbd_device_connected(const HostPaths& host, const std::string& device);

// The file behind a loop device; empty when it has none.
std::string loop_backing_file(const HostPaths& host, const std::string& device);
// The loop device that has `file` behind it; empty when none has.
std::string loop_device_of(const HostPaths& host, const std::string& file);

// Who uses a block device: a mount point, or a device on top of it (LVM, dm-crypt, a partition that
// is mounted); a few words for the user, empty when nobody does.
std::string device_user(const HostPaths& host, const std::string& device);

}  // namespace twinblock
