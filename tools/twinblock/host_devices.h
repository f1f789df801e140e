// What this host offers for block devices, and who uses one: read from sysfs and procfs, whose
// places are parameters, so that tests can bring their own.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

namespace twinblock {

struct HostPaths {
  std::string sys = "/sys";
  std::string dev = "/dev";
  std::string proc = "/proc";
};

// Whether the kernel has nbd.
bool has_kernel_nbd(const HostPaths& host);
// 3 of nbd3, the first from `first` on that nobody uses; one that is not there can be made.
uint32_t free_nbd_index(const HostPaths& host, uint32_t first);
// Whether the kernel device is connected to a server.
bool nbd_device_connected(const HostPaths& host, const std::string& device);
// The process that connected it: another one has connected it anew. 0: nobody has, or not known.
pid_t nbd_device_pid(const HostPaths& host, const std::string& device);

// How large the kernel device is, also one that is no nbd; 0: not known.
uint64_t nbd_device_bytes(const HostPaths& host, const std::string& device);

// The file behind a loop device; empty when it has none.
std::string loop_backing_file(const HostPaths& host, const std::string& device);
// The loop device that has `file` behind it; empty when none has.
std::string loop_device_of(const HostPaths& host, const std::string& file);
// Whether a loop device has that very file behind it, and not another one that has had its name.
bool loop_is_on(const HostPaths& host, const std::string& device, const std::string& file);
// Whether a loop device was detached while it was open: it goes when the last process closes it.
bool loop_is_going(const HostPaths& host, const std::string& device);

// Whether something is mounted at `dir`, as this process sees the host.
bool mounted_at(const HostPaths& host, const std::string& dir);
// Whether a process sees other mounts than this one does; false where that can't be known.
bool in_another_mount_namespace(const HostPaths& host, pid_t pid);

// Who uses a block device: a mount point, also of processes that see other mounts than this one
// (containers, services), swap, or a device on top of it (LVM, dm-crypt, a partition that is mounted); a
// few words for the user, empty when nobody does.
std::string device_user(const HostPaths& host, const std::string& device);
// A process that has it, or one of its partitions, open: a virtual machine, a database; in a few words as well. Whoever
// looks at new devices (udev) has it for a moment, too.
std::string device_opener(const HostPaths& host, const std::string& device);

}  // namespace twinblock
