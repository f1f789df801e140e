#include "twinblock/stay.h"

#include <sys/syscall.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "base/units.h"
#include "twinblock/attach.h"
#include "twinblock/detach.h"
#include "twinblock/nbd_device.h"
#include "twinblock/process.h"
#include "twinblock/stop_pause.h"

namespace twinblock {
namespace {

using nlohmann::json;

// While the device waits for its node, which is to have it back soon after it is primary …
constexpr uint64_t kWaiting_ns = 100 * kMillisecond_ns;
// … and while all is well: that the node's process ends is noticed at once.
constexpr uint64_t kWell_ns = 2 * kSecond_ns;

// Whose end wakes up; -1: nobody's. To be closed.
int watch_process(const ProcessId& process) {
  return process_runs(process) ? static_cast<int>(syscall(SYS_pidfd_open, process.pid, 0)) : -1;
}

// False when it is told to stop. `server`: whose end ends the pause, too; pid 0: nobody's.
bool rest(StopPause& pause, uint64_t ns, const ProcessId& server) {
  const int process = watch_process(server);
  const bool goes_on = pause.wait(ns, {process});
  if (process >= 0) close(process);
  return goes_on;
}

class Stay {
 public:
  Stay(const HostPaths& host, const AskStatus& ask, const std::string& stem,
       const std::function<void(const std::string&)>& say)
      : host_(host), ask_(ask), stem_(stem), say_(say) {}

  Result<Output> run() {
    StopPause pause;
    need_no_reclaim();
    do {
      const Result<bool> goes_on = look();
      if (!goes_on) return goes_on.error();
      if (!goes_on.value()) return over("is detached");
    } while (rest(pause, well_ ? kWell_ns : kWaiting_ns, well_ ? device_.server : ProcessId{}));
    return stop();
  }

 private:
  // One look after the device; false when there is none any more, and not by us.
  Result<bool> look() {
    Result<std::optional<Attachment>> note = read_attachment(stem_);
    if (!note) return note.error();
    std::optional<Attachment>& existing = note.value();
    if (!existing.has_value() && attached_) return false;
    if (existing.has_value() && existing->complete && existing->method != kMethodNbd)
      return refused("already attached as " + existing->device + " by " + existing->method +
                         ", which ends with the node",
                     "detach it first: twinblock detach");
    const Result<std::optional<FateVerdict>> verdict = revive(host_, ask_, stem_, existing);
    if (!verdict) return bear(verdict.error());
    if (!verdict.value().has_value()) return attached_ ? Result<bool>(false) : attach_now();
    device_ = *existing;
    attached_ = true;
    const FateVerdict& fate = *verdict.value();
    if (fate.fate == Fate::kEnd) return ended(fate.why);
    well_ = fate.fate == Fate::kKeep;
    if (well_ && fate.why.empty())
      tell("is attached");
    else
      tell(well_ ? "is " + fate.why : "waits: " + fate.why);
    return true;
  }

  Result<bool> attach_now() {
    const Result<json> status = ask_();
    if (!status) {
      // A node may need longer than a unit may take to start, or an operator first: what waits for this unit would
      // have failed for good by then, its mount among it.
      if (status.error().code == kExitUnreachable) be_ready();
      return bear(status.error());
    }
    const Result<std::string> cleared = clear_dead_attachment(host_, status.value(), stem_);
    if (!cleared) return cleared.error();
    if (!cleared.value().empty()) say_(cleared.value());
    if (status.value().value("role", "") != "primary") {
      // Mounts wait for the device by themselves; a boot is not to wait for a promotion.
      be_ready();
      remark(status.value().value("node", "the node") + " is not primary yet");
      return true;
    }
    std::string ignored;
    const Result<Attachment> done = attach(host_, status.value(), ask_, stem_, kMethodNbd, ignored);
    if (!done) return bear(done.error());
    device_ = done.value();
    attached_ = well_ = true;
    tell("is attached");
    return true;
  }

  // A node that does not answer, or says no for now, is asked again; all else ends this.
  Result<bool> bear(const Error& error) {
    well_ = false;
    if (error.code != kExitUnreachable && !attached_) return error;
    remark(error.what);
    return true;
  }

  Result<bool> ended(const std::string& why) {
    Error error{name() + " was ended, since its pages may be stale: " + why,
                "unmount it and attach again", kExitStale};
    sd_notify(0, ("STATUS=" + error.what).c_str());
    return error;
  }

  // SIGTERM, SIGINT.
  Result<Output> stop() {
    sd_notify(0, "STOPPING=1");
    if (!attached_) return Output{json{{"device", ""}}, "nothing was attached\n"};
    const Result<std::optional<Attachment>> note = read_attachment(stem_);
    if (!note) return note.error();
    if (!note.value().has_value()) return over("is detached");
    if (host_goes_down()) {
      const Result<std::string> done = detach_with_host(host_, stem_, *note.value());
      return done ? over(done.value()) : Result<Output>(done.error());
    }
    const Status gone = detach(host_, stem_, *note.value(), false, ask_);
    if (gone) return over("is detached");
    // From now on nobody asks whether it may still be used, and who waits for it would wait for good.
    const Result<bool> stays = look();
    if (!stays) return stays.error();
    if (!stays.value()) return over("is detached");
    return refused(name() + " stays, and nobody looks after it: " + gone.error().what,
                   gone.error().action);
  }

  Result<Output> over(const std::string& what) {
    return Output{json{{"device", device_.device}}, name() + " " + what + "\n"};
  }

  [[nodiscard]] std::string name() const {
    return device_.link.empty() ? device_.device : device_.link;
  }

  void be_ready() {
    if (!ready_) sd_notify(0, "READY=1");
    ready_ = true;
  }

  // Of the device, which is there.
  void tell(const std::string& what) {
    be_ready();
    if (what == "is attached" && told_.starts_with(name() + " is ")) return;
    remark(name() + " " + what);
  }

  void remark(const std::string& what) {
    if (what == told_) return;
    told_ = what;
    say_(what);
    sd_notify(0, ("STATUS=" + what).c_str());
  }

  const HostPaths& host_;
  const AskStatus& ask_;
  const std::string& stem_;
  const std::function<void(const std::string&)>& say_;
  Attachment device_;
  bool attached_ = false;
  bool well_ = false;  // it is connected with a process that runs
  bool ready_ = false;
  std::string told_;  // so that nothing is said twice in a row
};

}  // namespace

Result<Output> stay_attached(const HostPaths& host, const AskStatus& ask, const std::string& stem,
                             const std::function<void(const std::string&)>& say) {
  return Stay(host, ask, stem, say).run();
}

}  // namespace twinblock
