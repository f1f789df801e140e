#include "twinblock/nbd_device.h"

#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <filesystem>
#include <fstream>

#include "base/units.h"
#include "twinblock/exit_status.h"
#include "twinblock/process.h"

namespace twinblock {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kModprobeTimeout_ns = 30 * kSecond_ns;
// udev has a queue, and a busy host a long one.
constexpr uint64_t kUdevTimeout_ns = 5 * kSecond_ns;
constexpr uint64_t kSetting_ns = 5 * kSecond_ns;
constexpr uint64_t kDevicePoll_ns = 10 * kMillisecond_ns;
constexpr uint64_t kLinuxRequestTimeout_ms = 30'000;

fs::path block_dir(const HostPaths& host, const std::string& device) {
  return fs::path(host.sys) / "block" / fs::path(device).filename();
}

bool write_attribute(const fs::path& path, const std::string& text) {
  std::ofstream file(path);
  file << text << "\n";
  file.flush();
  return file.good();
}

std::string read_attribute(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

bool leads_to(const std::string& link, const std::string& device) {
  std::error_code error;
  return fs::is_symlink(fs::symlink_status(link, error)) &&
         fs::weakly_canonical(link, error) == fs::weakly_canonical(device, error);
}

bool udev_runs(const HostPaths& host) {
  return host.sys == "/sys" && access("/run/udev/control", F_OK) == 0;
}

}  // namespace

std::string nbd_backend(const std::string& volume) { return "twinblock/" + volume; }

std::optional<uint32_t> nbd_index(const std::string& device) {
  const std::string name = fs::path(device).filename().string();
  if (!name.starts_with("nbd")) return std::nullopt;
  uint32_t index = 0;
  const char* end = name.data() + name.size();
  const auto read = std::from_chars(name.data() + 3, end, index);
  if (read.ec != std::errc{} || read.ptr != end) return std::nullopt;
  return index;
}

std::string load_kernel_nbd(const HostPaths& host) {
  if (has_kernel_nbd(host)) return {};
  const Result<std::string> done = run_program({"modprobe", "nbd"}, kModprobeTimeout_ns);
  if (done) return "loaded the kernel's module nbd";
  return "could not load the kernel's module nbd: " + done.error().what;
}

std::optional<std::string> nbd_device_backend(const HostPaths& host, const std::string& device) {
  const fs::path backend = block_dir(host, device) / "backend";
  std::error_code error;
  if (!nbd_device_connected(host, device) || !fs::exists(backend, error)) return std::nullopt;
  return read_attribute(backend);
}

bool is_ours(const HostPaths& host, const Attachment& attachment) {
  const std::string& device = attachment.device;
  if (device.empty() || !nbd_device_connected(host, device)) return false;
  const std::optional<std::string> backend = nbd_device_backend(host, device);
  if (backend && *backend != nbd_backend(attachment.volume)) return false;
  return attachment.nbd_pid == 0 || nbd_device_pid(host, device) == attachment.nbd_pid;
}

Status look_after_requests(const HostPaths& host, const std::string& device, uint64_t interval_ms) {
  const fs::path attribute = block_dir(host, device) / "queue" / "io_timeout";
  const uint64_t ms = interval_ms == 0 ? kLinuxRequestTimeout_ms : interval_ms;
  // Who gives a device back comes after those who wait to set something else, so that what is read does not count.
  const auto set = [&attribute, gives_back = interval_ms == 0, interval = std::to_string(ms)] {
    return (!gives_back && read_attribute(attribute) == interval) || write_attribute(attribute, interval) ? 0 : errno;
  };
  // Linux 6.11 to 6.18 keeps who sets it until all that is under way is answered, and nobody knows when that is.
  const int code = apart(set, kSetting_ns).value_or(0);
  return code == 0 ? ok_status() : refused(system_error(code, "can't write " + attribute.string()).what);
}

std::string give_stable_name(const HostPaths& host, const std::string& volume,
                             const std::string& device, Udev udev) {
  std::string link = host.dev;
  link.append("/").append(nbd_backend(volume));
  // The kernel tells udev of the device before it tells it whose it is.
  write_attribute(block_dir(host, device) / "uevent", "change");
  const uint64_t deadline_ns = steady_now_ns() + kUdevTimeout_ns;
  while (udev == Udev::kWaitFor && udev_runs(host) && !leads_to(link, device) && steady_now_ns() < deadline_ns)
    sleep_ns(kDevicePoll_ns);
  if (leads_to(link, device)) return link;
  std::error_code error;
  fs::create_directories(fs::path(link).parent_path(), error);
  if (fs::is_symlink(fs::symlink_status(link, error))) fs::remove(link, error);
  fs::create_symlink(fs::absolute(device), link, error);
  return error ? std::string() : link;
}

void take_stable_name(const HostPaths& host, const Attachment& attachment) {
  std::error_code error;
  if (!attachment.link.empty() && leads_to(attachment.link, attachment.device))
    fs::remove(attachment.link, error);
  if (!attachment.device.empty())
    write_attribute(block_dir(host, attachment.device) / "uevent", "change");
}

}  // namespace twinblock
