// A device of the kernel's nbd as sysfs, udev and the directory of stable names know it. Paths are
// parameters, so that tests can bring their own.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "twinblock/attachment.h"
#include "twinblock/host_devices.h"

namespace twinblock {

// What the kernel is told that the device of a volume is of: "twinblock/r0". The udev rule takes it
// for the stable name below /dev.
std::string nbd_backend(const std::string& volume);

// 3 of "/dev/nbd3".
std::optional<uint32_t> nbd_index(const std::string& device);

// Loads the kernel's nbd where it is not; needs root. A clause that says what was done, or why it
// could not; empty when there was nothing to do.
std::string load_kernel_nbd(const HostPaths& host);

// Whether the device is still the one that the note is of: names come again.
bool is_ours(const HostPaths& host, const Attachment& attachment);

// What the kernel itself says of whose it is; nothing where it is not connected, or that is not said of it.
std::optional<std::string> nbd_device_backend(const HostPaths& host, const std::string& device);

// How often the kernel looks after each request that has no answer yet. 0: the kernel's own choice. Where
// whoever sets it waits for the requests under way, that is left to itself, and is set when these are answered.
Status look_after_requests(const HostPaths& host, const std::string& device, uint64_t interval_ms);

// Makes udev look at the device again, and waits until the stable name is there, or does not wait: udev may have
// to read a device that does not answer. What is not there then is made here. Where neither works the device has
// no other name, and that is no error.
enum class Udev { kWaitFor, kTell };
std::string give_stable_name(const HostPaths& host, const std::string& volume, const std::string& device,
                             Udev udev = Udev::kWaitFor);
// Takes the name away, if it is that device's.
void take_stable_name(const HostPaths& host, const Attachment& attachment);

}  // namespace twinblock
