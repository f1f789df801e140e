#include "twinblock/attach.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "base/units.h"
#include "twinblock/detach.h"
#include "twinblock/exit_status.h"
#include "twinblock/json_fields.h"
#include "twinblock/nbd_device.h"

namespace twinblock {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr uint64_t kLosetup_ns = 30 * kSecond_ns;
constexpr uint64_t kNbdfuseTimeout_ns = 15 * kSecond_ns;
constexpr uint64_t kAttachPoll_ns = 10 * kMillisecond_ns;
// For another process that connects the device, which takes it a moment.
constexpr uint64_t kOthersTurn_ns = 2 * kSecond_ns;
// Connections to the node of nbdfuse.
constexpr const char* kConnections = "4";

std::string missing_nbd(const HostPaths& host, bool root) {
  if (!root) return "the kernel's nbd needs root";
  if (!has_kernel_nbd(host)) return "this kernel has no nbd module loaded (try: modprobe nbd)";
  return {};
}

std::string missing_nbdfuse(const HostPaths& host) {
  if (find_program("nbdfuse").empty())
    return "nbdfuse is not installed (Debian: apt install libnbd-bin)";
  if (find_program("fusermount3").empty())
    return "fusermount3 is not installed (Debian: apt install fuse3)";
  const std::string fuse = host.dev + "/fuse";
  if (access(fuse.c_str(), F_OK) != 0)
    return "there is no " + fuse +
           " (load the module fuse, or start the container with --device "
           "/dev/fuse)";
  if (access(fuse.c_str(), R_OK | W_OK) != 0) return "this user may not use " + fuse;
  return {};
}

std::string missing_loop(const HostPaths& host, bool root) {
  if (!root) return "loop devices need root";
  if (find_program("losetup").empty())
    return "losetup is not installed (Debian: apt install mount)";
  if (access((host.dev + "/loop-control").c_str(), R_OK | W_OK) != 0)
    return "there is no usable " + host.dev + "/loop-control";
  return {};
}

Status check_primary(const json& status) {
  if (text_at(status, "role") == "primary") return ok_status();
  const std::string node = text_at(status, "node");
  const nlohmann::json peer = object_at(status, "peer");
  const std::string peer_name = text_at(peer, "name");
  if (text_at(peer, "role") == "primary" && flag_at(peer, "connected"))
    return refused(node + " is secondary, the primary is " + peer_name,
                   "attach on " + peer_name + ", or make " + node +
                       " the primary: twinblock demote on " + peer_name +
                       ", then twinblock promote here");
  return refused(node + " is secondary", "make it the primary first: twinblock promote");
}

// Until nbdfuse wrote its pid file, which it does when the file is there to be used.
Status wait_for_nbdfuse(pid_t pid, const std::string& pid_file, const std::string& log) {
  const uint64_t deadline_ns = steady_now_ns() + kNbdfuseTimeout_ns;
  while (access(pid_file.c_str(), F_OK) != 0) {
    if (const auto ended = wait_status_of(pid); !ended || ended.value().has_value()) {
      const std::string why = last_line(log);
      return refused("nbdfuse failed: " + (why.empty() ? "see " + log : why));
    }
    if (steady_now_ns() > deadline_ns)
      return refused("nbdfuse is not ready after " + format_duration(kNbdfuseTimeout_ns),
                     "see " + log);
    sleep_ns(kAttachPoll_ns);
  }
  return ok_status();
}

Status start_nbdfuse(const std::string& nbd_socket, const std::string& stem,
                     Attachment& attachment) {
  std::error_code ignored;
  // What an earlier attachment left behind, whose nbdfuse was killed.
  fs::remove(attachment.log, ignored);
  const std::string pid_file = stem + ".nbdfuse.pid";
  fs::remove(pid_file, ignored);
  if (mkdir(attachment.mount_dir.c_str(), 0750) != 0 && errno != EEXIST)
    return refused(system_error(errno, attachment.mount_dir).what);
  const Result<pid_t> pid = start_background({"nbdfuse", "--connections", kConnections, "--pidfile",
                                              pid_file, attachment.file, "--unix", nbd_socket},
                                             attachment.log);
  if (!pid) return pid.error();
  attachment.nbdfuse = identify_process(pid.value());
  Status noted = update_attachment(stem, attachment);
  if (!noted) {
    kill(pid.value(), SIGTERM);
    return noted;
  }
  Status ready = wait_for_nbdfuse(pid.value(), pid_file, attachment.log);
  fs::remove(pid_file, ignored);
  return ready;
}

Result<std::string> attach_nbdfuse(const json& status, const std::string& stem,
                                   Attachment& attachment, const std::string& wanted,
                                   std::string& note) {
  const Result<std::string> nbd_socket = nbd_socket_of(status);
  if (!nbd_socket) return nbd_socket.error();
  const Status started = start_nbdfuse(nbd_socket.value(), stem, attachment);
  if (!started) return started.error();
  if (attachment.method == kMethodNbdfuseFile) return attachment.file;
  Result<std::string> device = run_program(
      {"losetup", "--find", "--show", "--direct-io=off", attachment.file}, kLosetup_ns);
  if (device || wanted == kMethodNbdfuse) return device;
  // Containers often have the control device but may not use it.
  note = "no loop device (" + device.error().what + ")";
  attachment.method = kMethodNbdfuseFile;
  return attachment.file;
}

// What is wrong with a finished attachment.
struct Defect {
  std::string why;         // empty: nothing, it works
  bool cut_off = false;    // nothing can be flushed any more
  bool elsewhere = false;  // it may well work, where this process can't see it
};

// Goes by what the kernel says, and not by the note alone: a detach that failed half-way has taken
// a part away, and a device's name comes again.
Defect defect_of(const HostPaths& host, const json& status, const Attachment& attachment) {
  const std::string& device = attachment.device;
  if (attachment.method == kMethodNbd) {
    if (!attachment.ended.empty()) return {attachment.ended, true};
    if (!nbd_device_connected(host, device)) return {"it is not connected", true};
    if (!is_ours(host, attachment)) return {"it is somebody else's by now", true};
    return {};
  }
  const auto node_pid = static_cast<pid_t>(count_at(status, "pid"));
  if (attachment.node_pid != 0 && node_pid != attachment.node_pid)
    return {"the node was restarted", true};
  if (!process_runs(attachment.nbdfuse)) return {"nbdfuse has ended", true};
  if (in_another_mount_namespace(host, attachment.nbdfuse.pid)) return {"", false, true};
  if (!mounted_at(host, attachment.mount_dir)) return {"its file is no longer mounted"};
  if (attachment.method == kMethodNbdfuse && !loop_is_on(host, device, attachment.file)) {
    const std::string other = loop_backing_file(host, device);
    return {other.empty() ? "it was detached" : "it is on another file by now, " + other};
  }
  return {};
}

// What an attachment that there is already says to who wants one.
Error already_attached(const HostPaths& host, const json& status, const Attachment& earlier) {
  if (!earlier.complete && process_runs(earlier.maker))
    return refused("process " + std::to_string(earlier.maker.pid) + " is just attaching it",
                   "wait for it, see: twinblock status " + earlier.volume);
  if (!earlier.complete)
    return refused(std::string("an earlier attach ended half-way") +
                       (earlier.maker.pid == 0 ? ", or another is at work" : ""),
                   "undo it with: twinblock detach");
  if (earlier.method == kMethodNbdfuse && loop_is_going(host, earlier.device))
    return refused(
        "the detach of " + earlier.device + " has not ended: some process has the device open",
        "end that (see: fuser -v " + earlier.device + "), then attach again");
  if (defect_of(host, status, earlier).elsewhere)
    return refused("already attached as " + earlier.device +
                       " in another mount namespace, that of nbdfuse, process " +
                       std::to_string(earlier.nbdfuse.pid),
                   "use it there, or detach it there first: twinblock detach");
  return refused("already attached as " + earlier.device,
                 "use that, or detach it first: twinblock detach");
}

// Two may look after a device, `attach --stay` and who gives a command: one at a time connects it.
Result<FateVerdict> reconnect_in_turn(const HostPaths& host, const AskStatus& ask, const std::string& control,
                                      const std::string& stem, Attachment& attachment) {
  const uint64_t deadline_ns = steady_now_ns() + kOthersTurn_ns;
  while (true) {
    const Result<pid_t> other = finish_hang_up(control, stem);
    if (!other) return other.error();
    if (other.value() == 0) {
      Result<FateVerdict> done = reconnect_nbd_device(host, ask, stem, attachment);
      if (!done || done.value().fate != Fate::kReconnect) return done;
    } else if (steady_now_ns() > deadline_ns) {
      return FateVerdict{Fate::kWait, "process " + std::to_string(other.value()) + " is connecting it",
                         "wait for that process, or end it"};
    }
    sleep_ns(kAttachPoll_ns);
  }
}

Result<std::optional<FateVerdict>> revive_noted(const HostPaths& host, const AskStatus& ask, const std::string& stem,
                                                std::optional<Attachment>& existing, bool finished) {
  const bool may_live = existing.has_value() && existing->complete &&
                        existing->method == kMethodNbd && existing->ended.empty() &&
                        is_ours(host, *existing);
  if (!may_live) return std::optional<FateVerdict>{};
  const Result<json> status = ask();
  if (!status && status.error().code != kExitUnreachable) return status.error();
  FateVerdict verdict =
      device_fate(*existing, status ? status.value() : json(), process_runs(existing->server));
  const std::string control = status ? text_at(status.value(), "control") : "";
  const auto reconnected = [&] { return reconnect_in_turn(host, ask, control, stem, *existing); };
  if (verdict.fate == Fate::kReconnect) {
    Result<FateVerdict> done = reconnected();
    if (!done) return done.error();
    verdict = done.value();
  }
  const uint64_t bytes = nbd_device_bytes(host, existing->device);
  if (verdict.fate == Fate::kKeep && status && bytes != 0 &&
      bytes < count_at(status.value(), "size_bytes")) {
    Result<FateVerdict> done = grow_nbd_device(host, ask, control, stem, *existing);
    if (done && done.value().fate == Fate::kReconnect) done = reconnected();
    if (!done) return done.error();
    verdict = done.value();
  }
  if (finished && verdict.fate == Fate::kKeep && verdict.why.empty())
    verdict.why = "attached, as it was to be by an attach that ended half-way";
  if (verdict.fate == Fate::kEnd)
    if (const Status ended = end_nbd_device(host, stem, *existing, verdict.why); !ended)
      return ended.error();
  return std::optional<FateVerdict>(verdict);
}

}  // namespace

Result<std::optional<FateVerdict>> revive(const HostPaths& host, const AskStatus& ask,
                                          const std::string& stem,
                                          std::optional<Attachment>& existing) {
  const Result<bool> finished = finish_attach(host, stem, existing);
  if (!finished) return finished.error();
  Result<std::optional<FateVerdict>> verdict = revive_noted(host, ask, stem, existing, finished.value());
  const bool connected_now =
      verdict && verdict.value().has_value() && verdict.value()->fate == Fate::kKeep && !verdict.value()->why.empty();
  // An attach that was killed may not have come to this, and nor may who finished it while its server was away.
  if ((finished.value() || connected_now) && existing->ended.empty() && process_runs(existing->server))
    (void)look_after_requests(host, existing->device, kLookAfterRequests_ms);
  return verdict;
}

Result<std::string> clear_dead_attachment(const HostPaths& host, const json& status,
                                          const std::string& stem) {
  const Result<std::optional<Attachment>> existing = read_attachment(stem);
  if (!existing) return existing.error();
  const std::optional<Attachment>& earlier = existing.value();
  if (!earlier.has_value() || !earlier->complete) return std::string();
  const Defect defect = defect_of(host, status, *earlier);
  if (defect.why.empty()) return std::string();
  const std::string dead = earlier->device + " of an earlier attach is dead (" + defect.why + ")";
  // What still holds the volume's writes is flushed first, or stays.
  const Status gone = detach(host, stem, *earlier, defect.cut_off);
  if (!gone)
    return refused(dead + ", and can't be taken away: " + gone.error().what,
                   gone.error().action.empty() ? "try: twinblock detach --force"
                                               : gone.error().action + "; then attach again");
  if (!defect.cut_off) return dead + "; what was left of it was flushed and taken away";
  return dead + " and was taken away; what was written to it and not flushed is lost";
}

Result<AttachPlan> plan_attach(const HostPaths& host, bool root, const std::string& wanted) {
  const bool automatic = wanted == kMethodAuto;
  const std::string no_nbd = missing_nbd(host, root);
  if (wanted == kMethodNbd || (automatic && no_nbd.empty())) {
    if (no_nbd.empty()) return AttachPlan{kMethodNbd, ""};
    return refused("the kernel's nbd can't be used here: " + no_nbd,
                   "try --method " + std::string(kMethodAuto));
  }
  const std::string no_fuse = missing_nbdfuse(host);
  if (!no_fuse.empty())
    return refused("no way to attach here: " + no_fuse + "; " + no_nbd,
                   "programs that speak NBD (qemu, fio, nbdcopy) can use the socket itself: see "
                   "'clients' in twinblock status");
  if (wanted == kMethodNbdfuseFile) return AttachPlan{kMethodNbdfuseFile, ""};
  const std::string no_loop = missing_loop(host, root);
  if (no_loop.empty()) return AttachPlan{kMethodNbdfuse, no_nbd};
  if (automatic) return AttachPlan{kMethodNbdfuseFile, no_loop};
  return refused("nbdfuse with a loop device does not work here: " + no_loop,
                 "try --method " + std::string(kMethodNbdfuseFile));
}

Result<Attachment> attach(const HostPaths& host, const json& status, const AskStatus& ask,
                          const std::string& stem, const std::string& wanted, std::string& note) {
  const Status primary = check_primary(status);
  if (!primary) return primary.error();
  const Result<std::optional<Attachment>> existing = read_attachment(stem);
  if (!existing) return existing.error();
  if (const std::optional<Attachment>& earlier = existing.value(); earlier.has_value())
    return already_attached(host, status, *earlier);
  const Result<AttachPlan> plan = plan_attach(host, geteuid() == 0, wanted);
  if (!plan) return plan.error();
  note = plan.value().note;

  Attachment attachment;
  attachment.volume = text_at(status, "volume");
  attachment.node = text_at(status, "node");
  attachment.method = plan.value().method;
  attachment.node_pid = static_cast<pid_t>(count_at(status, "pid"));
  attachment.maker = identify_process(getpid());
  if (attachment.method != kMethodNbd) {
    attachment.mount_dir = stem + ".mnt";
    attachment.file = attachment.mount_dir + "/" + attachment.volume;
    attachment.log = stem + ".nbdfuse.log";
  }
  const Status created = create_attachment(stem, attachment);
  if (!created) return created.error();
  const Result<std::string> device = attachment.method == kMethodNbd
                                         ? make_nbd_device(host, ask, stem, attachment)
                                         : attach_nbdfuse(status, stem, attachment, wanted, note);
  if (device) {
    attachment.device = device.value();
    attachment.complete = true;
    const Status noted = update_attachment(stem, attachment);
    if (noted) return attachment;
    (void)detach(host, stem, attachment, true);
    return noted.error();
  }
  const Status undone = detach(host, stem, attachment, true);
  if (undone) return device.error();
  return refused(device.error().what + "; and undoing it failed: " + undone.error().what,
                 "try: twinblock detach");
}

}  // namespace twinblock
