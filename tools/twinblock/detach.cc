#include "twinblock/detach.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "base/units.h"
#include "twinblock/attach_nbd.h"
#include "twinblock/exit_status.h"
#include "twinblock/json_fields.h"
#include "twinblock/nbd_device.h"

namespace twinblock {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kDetachProgram_ns = 60 * kSecond_ns;
// nbdfuse sends what it holds and disconnects.
constexpr uint64_t kNbdfuseEnd_ns = 60 * kSecond_ns;
constexpr uint64_t kFlush_ns = 45 * kSecond_ns;  // less than service managers wait for a stop
// At the end of the host, in place of that flush: of all file systems, as what uses the device may be one.
constexpr uint64_t kSync_ns = 40 * kSecond_ns;
constexpr uint64_t kManager_ns = 10 * kSecond_ns;
constexpr uint64_t kKilledEnd_ns = 5 * kSecond_ns;
constexpr uint64_t kReleaseTimeout_ns = 5 * kSecond_ns;
// Whoever looks at devices that are new or have been written (udev) is done by then.
constexpr uint64_t kOpenForAMoment_ns = 2 * kSecond_ns;
constexpr uint64_t kReleasePoll_ns = 20 * kMillisecond_ns;
// The node hears of the end of a connection from the kernel, a moment later. Who has come meanwhile hides it.
constexpr uint64_t kNodeNotices_ns = 2 * kSecond_ns;

// For reading: when one closes it that could have written, udev looks at it anew, and would do so while it goes.
int flush_status(const std::string& device) {
  const int fd = open(device.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0 || fsync(fd) != 0) return errno;
  close(fd);
  return 0;
}

// Writes that only the kernel has must be on both replicas before the device goes.
Status flush(const std::string& device, bool force) {
  const int code = apart([&device] { return flush_status(device); }, kFlush_ns).value_or(ETIMEDOUT);
  if (code == 0 || force) return ok_status();
  return refused(
      system_error(code, "can't flush " + device).what,
      "see twinblock status; --force detaches without, and gives up what was not written "
      "yet");
}

// Whether something in the kernel has claimed it for itself, which need not show elsewhere: a file system of several
// devices, RAID, a target of iSCSI. Where that can't be told, nothing has.
bool is_claimed(const std::string& device) {
  const auto open_alone = [&device] {
    return open(device.c_str(), O_RDONLY | O_EXCL | O_CLOEXEC) < 0 ? errno : 0;
  };
  return apart(open_alone, kReleaseTimeout_ns) == EBUSY;
}

// `answers`: not a device that waits for its node, which would keep who opens it.
Status refuse_if_used(const HostPaths& host, const std::string& device, bool answers) {
  const uint64_t deadline_ns = steady_now_ns() + kOpenForAMoment_ns;
  while (true) {
    std::string user = device_user(host, device);
    const bool stays = !user.empty();
    if (!stays) user = device_opener(host, device);
    if (user.empty() && answers && is_claimed(device)) user = "something in the kernel has claimed it";
    if (user.empty()) return ok_status();
    if (stays || steady_now_ns() > deadline_ns)
      return refused(device + " is in use: " + user, "unmount it, or stop what uses it, then detach");
    sleep_ns(kReleasePoll_ns);
  }
}

bool is_connected(const Attachment& attachment) {
  return attachment.server.pid == 0 || process_runs(attachment.server);
}

// A device that waits for its node would keep whoever flushes it waiting as well.
Status flush_if_connected(const Attachment& attachment, bool force) {
  if (is_connected(attachment)) return flush(attachment.device, force);
  if (force) return ok_status();
  return refused("can't flush " + attachment.device + ": its node's process has ended",
                 "attach again, which reconnects it; --force detaches without, and gives up what "
                 "was not written yet");
}

Status refuse_nbd_if_used(const HostPaths& host, const Attachment& attachment) {
  const bool ended = !attachment.ended.empty();
  const bool waits = !ended && !is_connected(attachment);
  Status unused = refuse_if_used(host, attachment.device, !ended && !waits);
  if (!unused && waits)
    return refused(unused.error().what, "attach again, which reconnects it where its node goes on as primary; or " +
                                            give_up_words(host, attachment));
  return unused;
}

// How many use the node's export; 0: it does not say.
uint64_t clients_of(const AskStatus& ask) {
  const Result<nlohmann::json> status = ask();
  return status ? count_at(status.value(), "clients") : 0;
}

Status detach_nbd(const HostPaths& host, const Attachment& attachment, bool force, const AskStatus& ask) {
  // Ours is gone, and somebody else may have taken the device since.
  if (!is_ours(host, attachment)) return ok_status();
  const bool known = nbd_device_backend(host, attachment.device) && !process_runs(attachment.maker);
  if (!attachment.complete && !force && !known)
    return refused("attach was interrupted, so " + attachment.device + " may be somebody else's",
                   "look at it (lsblk " + attachment.device + "); --force disconnects it");
  if (Status unused = refuse_nbd_if_used(host, attachment); !unused) return unused;
  // It has been disconnected, and goes when the last one closes it.
  if (!attachment.ended.empty()) return ok_status();
  if (Status flushed = flush_if_connected(attachment, force); !flushed) return flushed;
  // Whoever has mounted or opened it while it was flushed, which may take long, would lose it.
  if (Status unused = refuse_nbd_if_used(host, attachment); !unused) return unused;
  const uint64_t before = ask && process_runs(attachment.server) ? clients_of(ask) : 0;
  if (Status gone = disconnect_nbd_device(host, attachment); !gone) return gone;
  const uint64_t deadline_ns = steady_now_ns() + kNodeNotices_ns;
  while (before > 0 && clients_of(ask) >= before && steady_now_ns() < deadline_ns) sleep_ns(kReleasePoll_ns);
  return ok_status();
}

// `losetup -d` of a device that is open elsewhere succeeds and takes effect at the last close.
Status detach_loop(const HostPaths& host, const std::string& device, const std::string& file,
                   bool force) {
  Status unused = refuse_if_used(host, device, true);
  if (!unused) return unused;
  Status flushed = flush(device, force);
  if (!flushed) return flushed;
  const Result<std::string> done = run_program({"losetup", "-d", device}, kDetachProgram_ns);
  if (!done) return done.error();
  const uint64_t deadline_ns = steady_now_ns() + kReleaseTimeout_ns;
  while (loop_backing_file(host, device) == file) {
    if (steady_now_ns() > deadline_ns)
      return refused(device + " is still open in some process",
                     "end that (see: fuser -v " + device + "), then detach again");
    sleep_ns(kReleasePoll_ns);
  }
  return ok_status();
}

bool is_mounted(const std::string& dir) {
  // A mount whose server is gone can't be asked for its number, and is one all the same.
  std::error_code error;
  const fs::path parent = fs::path(dir).parent_path();
  struct stat own {};
  struct stat above {};
  if (stat(dir.c_str(), &own) != 0) return errno == ENOTCONN || errno == EACCES || errno == EIO;
  return stat(parent.c_str(), &above) == 0 && own.st_dev != above.st_dev;
}

Status unmount(const Attachment& attachment, bool force) {
  if (!is_mounted(attachment.mount_dir)) return ok_status();
  const Result<std::string> done =
      run_program({"fusermount3", "-u", attachment.mount_dir}, kDetachProgram_ns);
  if (done) return ok_status();
  if (force && run_program({"fusermount3", "-u", "-z", attachment.mount_dir}, kDetachProgram_ns))
    return ok_status();
  return refused(done.error().what, "end what uses " + attachment.file + " (see: fuser -vm " +
                                        attachment.mount_dir + "), then detach again");
}

Status detach_nbdfuse(const HostPaths& host, const Attachment& attachment, bool force) {
  // Whatever loop device is on our file goes, also one that is not in the note because attach was
  // interrupted right after making it.
  const std::string loop = loop_device_of(host, attachment.file);
  if (!loop.empty() && attachment.method == kMethodNbdfuseFile && !force)
    return refused(attachment.file + " is in use by " + loop,
                   "losetup -d " + loop + ", then detach again");
  if (!loop.empty()) {
    Status gone = detach_loop(host, loop, attachment.file, force);
    if (!gone) return gone;
  } else if (is_mounted(attachment.mount_dir)) {
    Status flushed = flush(attachment.file, force);
    if (!flushed) return flushed;
  }
  Status unmounted = unmount(attachment, force);
  if (!unmounted) return unmounted;
  if (wait_process_end(attachment.nbdfuse, attachment.complete ? kNbdfuseEnd_ns : kKilledEnd_ns))
    return ok_status();
  // One that never mounted does not notice the unmounting.
  if (!attachment.complete || force) {
    kill(attachment.nbdfuse.pid, SIGKILL);
    if (wait_process_end(attachment.nbdfuse, kKilledEnd_ns)) return ok_status();
  }
  return refused("nbdfuse (process " + std::to_string(attachment.nbdfuse.pid) + ") does not end",
                 "see " + attachment.log + "; --force kills it");
}

}  // namespace

Status detach(const HostPaths& host, const std::string& stem, const Attachment& attachment,
              bool force, const AskStatus& ask) {
  Status gone = attachment.method == kMethodNbd ? detach_nbd(host, attachment, force, ask)
                                                : detach_nbdfuse(host, attachment, force);
  if (!gone) return gone;
  std::error_code ignored;
  if (!attachment.mount_dir.empty()) {
    fs::remove(attachment.mount_dir, ignored);
    // After a failure the log is what explains it; the next attach starts a new one.
    if (attachment.complete) fs::remove(attachment.log, ignored);
    fs::remove(stem + ".nbdfuse.pid", ignored);
  }
  return remove_attachment(stem);
}

std::string give_up_words(const HostPaths& host, const Attachment& attachment) {
  const std::string order = "twinblock detach " + attachment.volume + " --force";
  const bool used =
      !device_user(host, attachment.device).empty() || !device_opener(host, attachment.device).empty();
  if (!used) return "give up what was not written: " + order;
  return "give up what was not written, with I/O errors for who uses it: " + order +
         " --in-use; unmount it then, and detach again";
}

Result<std::string> detach_in_use(const HostPaths& host, const std::string& stem,
                                  const Attachment& attachment) {
  const Status gone = detach(host, stem, attachment, true);
  if (gone) return std::string("is detached");
  if (attachment.method != kMethodNbd || !attachment.ended.empty() || !attachment.complete)
    return gone.error();
  const std::string why = "it was given up, and " + gone.error().what;
  Attachment given_up = attachment;
  if (Status ended = end_nbd_device(host, stem, given_up, why); !ended) return ended.error();
  return "is ended: " + why;
}

bool host_goes_down() {
  const Result<std::string> state =
      run_program({"systemctl", "show", "--property=SystemState", "--value"}, kManager_ns);
  return state && state.value() == "stopping";
}

Result<std::string> detach_with_host(const HostPaths& host, const std::string& stem,
                                     const Attachment& attachment) {
  const uint64_t began_ns = steady_now_ns();
  Status gone = detach(host, stem, attachment, false);
  if (gone) return std::string("is detached");
  if (attachment.method != kMethodNbd || !attachment.ended.empty()) return gone.error();
  // One flush that does not end is enough: a service manager waits no longer than for that.
  const bool ends = steady_now_ns() - began_ns < kFlush_ns;
  const bool stored = ends && process_runs(attachment.server) && run_program({"sync"}, kSync_ns);
  // Meanwhile it may have been unmounted.
  if (stored) gone = detach(host, stem, attachment, false);
  if (gone) return std::string("is detached");
  const std::string why = "the host goes down, and " + gone.error().what;
  Attachment given_up = attachment;
  if (Status ended = end_nbd_device(host, stem, given_up, why); !ended) return ended.error();
  return "is ended: " + why + (stored ? "; what was written until now is stored" : "");
}

}  // namespace twinblock
