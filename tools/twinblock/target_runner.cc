#include "twinblock/target_runner.h"

#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sstream>
#include <utility>

#include "base/units.h"
#include "twinblock/exit_status.h"
#include "twinblock/process.h"

namespace twinblock {
namespace {

constexpr const char* kSystemctl = "systemctl";
// What systemd knows by heart.
constexpr uint64_t kAskManager_ns = 10 * kSecond_ns;
constexpr uint64_t kAbortPatience_ns = 10 * kSecond_ns;

Status check_program(const char* option, const std::string& path) {
  if (!find_program(path).empty()) return ok_status();
  return wrong_usage(std::string(option) + ": " + path + " is not a program that can be run",
                     "name an executable file by its absolute path");
}

Status check_unit(const std::string& unit) {
  if (find_program(kSystemctl).empty())
    return wrong_usage("there is no systemctl here, and so no " + unit,
                       "give programs that start and stop what uses the volume: --start, --stop");
  const Result<std::string> state = run_program(
      {kSystemctl, "show", "--property=LoadState", "--value", unit}, kAskManager_ns);
  if (!state) return refused(state.error().what, "is systemd the manager of this host?");
  if (state.value() == "loaded") return ok_status();
  return wrong_usage("there is no unit " + unit + " (systemd says: " + state.value() + ")",
                     "make one of what uses the volume, as /usr/share/doc/twinblock/failover.md "
                     "shows, or name another one with --target");
}

// How a child ended, as an error for users where it was no success.
Status outcome(const std::string& what, int wait_status) {
  if (WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 0) return ok_status();
  if (WIFEXITED(wait_status))
    return refused(what + " ended with status " + std::to_string(WEXITSTATUS(wait_status)));
  return refused(what + " was ended by signal " + std::to_string(WTERMSIG(wait_status)));
}

}  // namespace

TargetRunner::~TargetRunner() {
  if (pidfd_ >= 0) close(pidfd_);
}

Status TargetRunner::check() const {
  if (commands_.start.empty()) return check_unit(commands_.unit);
  const Status start = check_program("--start", commands_.start);
  return start ? check_program("--stop", commands_.stop) : start;
}

std::string TargetRunner::name() const {
  return commands_.start.empty() ? commands_.unit : "the target";
}

Status TargetRunner::begin_start() {
  if (!commands_.start.empty()) return run({commands_.start, commands_.volume});
  return run({kSystemctl, "start", commands_.unit});
}

Status TargetRunner::begin_stop() {
  return run(commands_.start.empty() ? stop_words()
                                     : std::vector<std::string>{commands_.stop, commands_.volume});
}

// A target is stopped before what belongs to it: whose end is waited for as well if it is named, too.
std::vector<std::string> TargetRunner::stop_words() const {
  std::vector<std::string> words{kSystemctl, "stop", commands_.unit};
  const Result<std::string> members = run_program(
      {kSystemctl, "show", "--property=ConsistsOf", "--value", commands_.unit}, kAskManager_ns);
  std::istringstream names(members ? members.value() : "");
  for (std::string name; names >> name;) words.push_back(name);
  return words;
}

Status TargetRunner::run(const std::vector<std::string>& words) {
  TB_CHECK(pidfd_ < 0, "one at a time");
  what_.clear();
  for (const std::string& word : words) what_ += (what_.empty() ? "" : " ") + word;
  const Result<pid_t> started = start_program(words, commands_.start.empty() ? Whose::kOwn : Whose::kUsers);
  if (!started) return started.error();
  pid_ = started.value();
  pidfd_ = static_cast<int>(syscall(SYS_pidfd_open, pid_, 0));
  aborted_ns_.reset();
  if (pidfd_ >= 0) return ok_status();
  const Status failed = refused(system_error(errno, "can't watch " + what_).what);
  int wait_status = 0;
  kill(-pid_, SIGKILL);
  waitpid(pid_, &wait_status, 0);
  return failed;
}

void TargetRunner::abort(uint64_t now_ns) {
  if (pidfd_ < 0) return;
  if (!aborted_ns_) {
    aborted_ns_ = now_ns;
    kill(-pid_, SIGTERM);
  } else if (now_ns >= *aborted_ns_ + kAbortPatience_ns) {
    kill(-pid_, SIGKILL);
  }
}

std::optional<Status> TargetRunner::ended() {
  if (pidfd_ < 0) return std::nullopt;
  const Result<std::optional<int>> status = wait_status_of(pid_);
  if (status && !status.value().has_value()) return std::nullopt;
  close(std::exchange(pidfd_, -1));
  return status ? outcome(what_, *status.value()) : refused(what_ + " " + status.error().what);
}

}  // namespace twinblock
