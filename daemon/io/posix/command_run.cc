#include "io/posix/command_run.h"

#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/limits.h"
#include "base/units.h"
#include "io/posix/monotonic.h"
#include "io/posix/output_lines.h"

namespace twinblock {
namespace {

constexpr uint64_t kTurnMax_ns = 60 * kSecond_ns;

// One run of a command, from where it has started.
class Run {
 public:
  Run(ChildProcess& child, int stop_fd, Log& log, const std::string& prefix)
      : child_(child),
        fds_{{{child.end_fd(), POLLIN, 0},
              {child.out_fd(), POLLIN, 0},
              {child.err_fd(), POLLIN, 0},
              {stop_fd, POLLIN, 0}}},
        out_(log, Severity::kInfo, prefix),
        err_(log, Severity::kWarning, prefix) {}
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
    const bool ended = ends_by(monotonic_ns() + limits::kCommandPatience_ns);
    // Not waited for yet, so that nobody else has its number; what it leaves behind goes, too.
    child_.signal_group(SIGKILL);
    return ended || ends_by(monotonic_ns() + limits::kCommandPatience_ns);
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

Error not_started(const Error& why, const Command& command) {
  const bool format = why.code == ENOEXEC;
  return Error{command.named + " can't be run: " + why.what,
               format ? "its first line has to name what runs it, like #!/bin/sh"
                      : "see `twinblockd --check`, and whether what its first line names is there",
               why.code};
}

Error not_in_time(const Command& command, bool ended) {
  const std::string what = command.named + " did not end within " + format_duration(command.timeout_ns);
  if (ended)
    return Error{what + ", and was ended", "see what it waited for, or give it more time (" + command.setting + ")",
                 ETIMEDOUT};
  return Error{what + ", nor by SIGKILL", "it waits in the kernel, for a disk perhaps: see dmesg", ETIMEDOUT};
}

Result<int> judge(const Command& command, const Result<ChildProcess::End>& end) {
  if (!end) return Error{command.named + ": " + end.error().what, "see its lines in the log", end.error().code};
  if (end.value().signal == 0) return end.value().status;
  return Error{command.named + " was ended by signal " + std::to_string(end.value().signal) + " (" +
                   ::strsignal(end.value().signal) + ")",
               "see its lines in the log", ECANCELED};
}

}  // namespace

Status check_command(const std::string& named, const std::string& path, const std::string& setting) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0)
    return system_error(errno, named, "install it, or correct " + setting);
  if (!S_ISREG(info.st_mode)) return Error{named + " is not a file", "correct " + setting};
  if (info.st_uid != 0 && info.st_uid != ::geteuid())
    return Error{named + " belongs to user " + std::to_string(info.st_uid) + ", who can change it",
                 "chown root " + path};
  if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    return Error{named + " can be changed by other users of this host", "chmod go-w " + path};
  if (::access(path.c_str(), X_OK) != 0) return system_error(errno, named, "chmod +x " + path);
  return ok_status();
}

Result<int> run_command(const Command& command, const std::vector<std::string>& environment, int stop_fd,
                        Log& log, uint64_t deadline_ns, std::optional<ChildProcess>& left) {
  Descriptor input;
  if (command.lock != nullptr) {
    Result<Descriptor> taken = command.lock->take();
    if (!taken) return taken.error();
    input = std::move(taken.value());
  }
  Result<ChildProcess> child = ChildProcess::start(command.path, environment, input.get());
  input.reset();
  if (!child) return not_started(child.error(), command);
  bool in_time = false;
  bool ended = false;
  {
    Run run(child.value(), stop_fd, log, command.log_prefix);
    in_time = run.ends_by(deadline_ns);
    ended = in_time || run.end_it();
  }
  if (ended) {
    const Result<ChildProcess::End> end = child.value().wait();
    return in_time ? judge(command, end) : not_in_time(command, ended);
  }
  left.emplace(std::move(child.value()));
  return not_in_time(command, ended);
}

void wait_for_what_is_left(std::optional<ChildProcess>& left, int stop_fd) {
  pollfd until[] = {{left->end_fd(), POLLIN, 0}, {stop_fd, POLLIN, 0}};
  while (::poll(until, 2, -1) < 0 && errno == EINTR) continue;
  if ((until[0].revents & POLLIN) != 0) (void)left->wait();
  left.reset();
}

}  // namespace twinblock
