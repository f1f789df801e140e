#include "io/posix/fence_command_process.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "base/checks.h"
#include "base/limits.h"
#include "base/units.h"
#include "io/posix/child_process.h"
#include "io/posix/monotonic.h"
#include "io/posix/output_lines.h"
#include "io/posix/thread.h"
#include "io/posix/witness_files.h"

namespace twinblock {
namespace {

constexpr uint64_t kTurnMax_ns = 60 * kSecond_ns;

std::string named(const std::string& path) { return "the fence command " + path; }

// DRBD's names stand beside ours, for scripts that people have.
std::vector<std::string> environment_of(const FenceCall& call) {
  const bool v6 = call.peer_address.find(':') != std::string::npos;
  return {"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
          "TWINBLOCK_VOLUME=" + call.volume,
          "TWINBLOCK_NODE=" + call.node,
          "TWINBLOCK_PEER=" + call.peer,
          "TWINBLOCK_PEER_ADDRESS=" + call.peer_address,
          std::string("TWINBLOCK_REASON=") + (call.promotion ? "promotion" : "loss"),
          "DRBD_RESOURCE=" + call.volume,
          "DRBD_VOLUME=0",
          "DRBD_PEER=" + call.peer,
          "DRBD_PEERS=" + call.peer,
          "DRBD_PEER_ADDRESS=" + call.peer_address,
          std::string("DRBD_PEER_AF=") + (v6 ? "ipv6" : "ipv4")};
}

// One run of a command, from where it has started.
class Run {
 public:
  Run(ChildProcess& child, int stop_fd, Log& log)
      : child_(child),
        fds_{{{child.end_fd(), POLLIN, 0},
              {child.out_fd(), POLLIN, 0},
              {child.err_fd(), POLLIN, 0},
              {stop_fd, POLLIN, 0}}},
        out_(log, Severity::kInfo, "fence command: "),
        err_(log, Severity::kWarning, "fence command: ") {}
  ~Run() {
    read_outputs();
    out_.finish();
    err_.finish();
  }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  // False: it still runs at the deadline, or is to be stopped.
  bool ends_by(uint64_t deadline_ns) {
    for (;;) {
      const uint64_t now_ns = monotonic_ns();
      if (ended()) return true;
      if (now_ns >= deadline_ns || (fds_[kStop].revents & POLLIN) != 0) return false;
      const uint64_t wait_ns = std::min(deadline_ns - now_ns, kTurnMax_ns);
      (void)::poll(fds_.data(), fds_.size(), static_cast<int>(wait_ns / kMillisecond_ns + 1));
      read_outputs();
    }
  }
  // Asks it, and all that it has started in its group, to end, and then makes it. False: not even that.
  bool end_it() {
    fds_[kStop] = {-1, 0, 0};
    child_.signal_group(SIGTERM);
    const bool ended = ends_by(monotonic_ns() + limits::kFencePatience_ns);
    // Not waited for yet, so that nobody else has its number; what it leaves behind goes, too.
    child_.signal_group(SIGKILL);
    return ended || ends_by(monotonic_ns() + limits::kFencePatience_ns);
  }

 private:
  enum : size_t { kEnd, kOut, kErr, kStop };

  [[nodiscard]] bool ended() const { return (fds_[kEnd].revents & POLLIN) != 0; }
  void read_outputs() {
    if (fds_[kOut].fd >= 0 && !out_.read_from(fds_[kOut].fd)) fds_[kOut].fd = -1;
    if (fds_[kErr].fd >= 0 && !err_.read_from(fds_[kErr].fd)) fds_[kErr].fd = -1;
  }

  ChildProcess& child_;
  std::array<pollfd, 4> fds_;
  OutputLines out_;
  OutputLines err_;
};

Error not_started(const Error& why, const std::string& path) {
  const bool format = why.code == ENOEXEC;
  return Error{named(path) + " can't be run: " + why.what,
               format ? "its first line has to name what runs it, like #!/bin/sh"
                      : "see `twinblockd --check`, and whether what its first line names is there",
               why.code};
}

Error not_in_time(const std::string& path, uint64_t timeout_ns, bool ended) {
  const std::string what = named(path) + " did not end within " + format_duration(timeout_ns);
  if (ended)
    return Error{what + ", and was ended", "see what it waited for, or give it more time (timeout in [witness])",
                 ETIMEDOUT};
  return Error{what + ", nor by SIGKILL", "it waits in the kernel, for a disk perhaps: see dmesg", ETIMEDOUT};
}

Result<int> judge(const std::string& path, const Result<ChildProcess::End>& end) {
  if (!end) return Error{named(path) + ": " + end.error().what, "it is run again", end.error().code};
  if (end.value().signal == 0) return end.value().status;
  return Error{named(path) + " was ended by signal " + std::to_string(end.value().signal) + " (" +
                   ::strsignal(end.value().signal) + ")",
               "see its lines in the log", ECANCELED};
}

// `left`: what can't be ended.
Result<int> run_command(const std::string& path, const FenceCall& call, int stop_fd, Log& log,
                        uint64_t deadline_ns, uint64_t timeout_ns, std::optional<ChildProcess>& left) {
  if (Status good = check_fence_command(path); !good) return good.error();
  Result<ChildProcess> child = ChildProcess::start(path, environment_of(call));
  if (!child) return not_started(child.error(), path);
  bool in_time = false;
  bool ended = false;
  {
    Run run(child.value(), stop_fd, log);
    in_time = run.ends_by(deadline_ns);
    ended = in_time || run.end_it();
  }
  if (ended) {
    const Result<ChildProcess::End> end = child.value().wait();
    return in_time ? judge(path, end) : not_in_time(path, timeout_ns, ended);
  }
  left.emplace(std::move(child.value()));
  return not_in_time(path, timeout_ns, ended);
}

}  // namespace

FenceCommandProcess::FenceCommandProcess(Loop& loop, Log& log, std::string path, uint64_t timeout_ns)
    : loop_(loop), log_(log), path_(std::move(path)), timeout_ns_(timeout_ns),
      stop_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  TB_CHECK(stop_.open(), "out of descriptors");
}

FenceCommandProcess::~FenceCommandProcess() {
  const uint64_t one = 1;
  TB_CHECK(::write(stop_.get(), &one, sizeof one) == sizeof one, "an eventfd takes a number");
  if (thread_.joinable()) thread_.join();
}

void FenceCommandProcess::fence(const FenceCall& call, std::function<void(Result<int>)> done) {
  if (running_.exchange(true)) {
    answer(Error{named(path_) + " still runs", "it is asked again when it has ended", EBUSY}, done);
    return;
  }
  if (thread_.joinable()) thread_.join();
  const uint64_t deadline_ns = monotonic_ns() + timeout_ns_;
  try {
    thread_ = start_thread("tb-fence", [this, call, done, deadline_ns] { work(call, done, deadline_ns); });
  } catch (const std::system_error& error) {
    running_ = false;
    answer(system_error(error.code().value(), "no thread can be started for " + named(path_),
                        "see the limits of tasks of this host"),
           done);
  }
}

void FenceCommandProcess::answer(Result<int> status, const std::function<void(Result<int>)>& done) {
  loop_.post([alive = std::weak_ptr(alive_), done, status = std::move(status)] {
    if (!alive.expired()) done(status);
  });
}

void FenceCommandProcess::work(const FenceCall& call, const std::function<void(Result<int>)>& done,
                               uint64_t deadline_ns) {
  std::optional<ChildProcess> left;
  Result<int> status = run_command(path_, call, stop_.get(), log_, deadline_ns, timeout_ns_, left);
  if (!left) running_ = false;
  answer(std::move(status), done);
  if (!left) return;
  pollfd until[] = {{left->end_fd(), POLLIN, 0}, {stop_.get(), POLLIN, 0}};
  while (::poll(until, 2, -1) < 0 && errno == EINTR) continue;
  if ((until[0].revents & POLLIN) != 0) (void)left->wait();
  left.reset();
  running_ = false;
}

}  // namespace twinblock
