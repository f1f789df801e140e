#include "io/posix/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/checks.h"
#include "io/posix/memory.h"
#include "io/posix/spawn.h"

namespace twinblock {
namespace {

constexpr int kKillPatience_ms = 1000;
constexpr int kInputAgain = ChildProcess::kInputAgain;

struct Pipe {
  Descriptor from;
  Descriptor into;
};

Result<Pipe> make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return system_error(errno, "no pipe for its output");
  Pipe made{Descriptor(ends[0]), Descriptor(ends[1])};
  // Ours only: a program expects its output to wait.
  if (::fcntl(ends[0], F_SETFL, O_NONBLOCK) != 0) return system_error(errno, "a pipe for its output");
  return made;
}

// What a child needs to become the program.
struct Start {
  const char* path;
  char* const* arguments;
  char* const* environment;
  int in;  // -1: /dev/null
  int out;
  int err;
};

// As dup2(2), but open in the program also where the two are the same, as a node without standard files may have it.
bool give(int from, int as) { return from == as ? ::fcntl(as, F_SETFD, 0) == 0 : ::dup2(from, as) >= 0; }

[[gnu::noinline]] void become(const void* given) {
  const Start& start = *static_cast<const Start*>(given);
  for (int signal = 1; signal < NSIG; ++signal) ::signal(signal, SIG_DFL);  // but for those that nobody may handle
  sigset_t none;
  sigemptyset(&none);
  be_ordinary();
  const bool has_input = start.in >= 0;
  const int in = has_input ? start.in : ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  const unsigned first_closed = has_input ? kInputAgain + 1 : STDERR_FILENO + 1;
  if (in < 0 || ::setsid() < 0 || ::chdir("/") != 0 || !give(in, STDIN_FILENO) ||
      !give(start.out, STDOUT_FILENO) || !give(start.err, STDERR_FILENO) ||
      (has_input && !give(STDIN_FILENO, kInputAgain)) ||
      ::close_range(first_closed, ~0U, CLOSE_RANGE_CLOEXEC) != 0 || ::sigprocmask(SIG_SETMASK, &none, nullptr) != 0)
    return;
  ::execve(start.path, start.arguments, start.environment);
}

// glibc 2.36 declares it for C only.
int open_pidfd(pid_t pid) { return static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)); }

bool ended_within(int end_fd, int patience_ms) {
  pollfd ended{end_fd, POLLIN, 0};
  return ::poll(&ended, 1, patience_ms) == 1;
}

}  // namespace

Result<ChildProcess> ChildProcess::start(const std::string& path, const std::vector<std::string>& environment,
                                         int input) {
  Result<Pipe> out = make_pipe();
  if (!out) return out.error();
  Result<Pipe> err = make_pipe();
  if (!err) return err.error();
  std::vector<char*> words;
  words.reserve(environment.size() + 1);
  for (const std::string& word : environment) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  char* arguments[] = {const_cast<char*>(path.c_str()), nullptr};
  const Start how{path.c_str(), arguments, words.data(), input, out.value().into.get(), err.value().into.get()};
  const Result<pid_t> pid = spawn(path.c_str(), become, &how);
  if (!pid) return pid.error();
  ChildProcess child;
  child.pid_ = pid.value();
  child.end_ = Descriptor(open_pidfd(child.pid_));
  if (!child.end_.open()) return system_error(errno, path + " can't be waited for (pidfd_open)");
  child.out_ = std::move(out.value().from);
  child.err_ = std::move(err.value().from);
  return Result<ChildProcess>(std::move(child));
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, 0)),
      end_(std::move(other.end_)),
      out_(std::move(other.out_)),
      err_(std::move(other.err_)) {}

ChildProcess::~ChildProcess() {
  if (pid_ == 0) return;
  signal_group(SIGKILL);
  // One that stands in the kernel is left to whoever inherits it.
  const bool ended = !end_.open() || ended_within(end_.get(), kKillPatience_ms);
  (void)::waitpid(pid_, nullptr, ended && end_.open() ? 0 : WNOHANG);
}

void ChildProcess::signal_group(int signal) const {
  TB_CHECK(pid_ != 0, "a process that was waited for has no number any more");
  (void)::kill(-pid_, signal);
}

Result<ChildProcess::End> ChildProcess::wait() {
  siginfo_t info{};
  int done = 0;
  do done = ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED);
  while (done != 0 && errno == EINTR);
  if (done != 0) return system_error(errno, "nobody knows how it ended");
  pid_ = 0;
  End end;
  (info.si_code == CLD_EXITED ? end.status : end.signal) = info.si_status;
  return end;
}

}  // namespace twinblock
