#include "io/posix/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <utility>

#include "base/checks.h"

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

// Whoever started this process may have it ignore how children end: then nobody learned that.
void listen_to_children() {
  struct sigaction now {};
  if (::sigaction(SIGCHLD, nullptr, &now) != 0) return;
  if (now.sa_handler != SIG_IGN && (now.sa_flags & SA_NOCLDWAIT) == 0) return;
  now.sa_flags &= ~SA_NOCLDWAIT;
  if (now.sa_handler == SIG_IGN) now.sa_handler = SIG_DFL;
  (void)::sigaction(SIGCHLD, &now, nullptr);
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

// What the node is, and a program that it starts need not be: the last to be killed when memory is short, and one for which the
// kernel frees memory without waiting for disks. As far as the node may take that back; who may set it may.
void be_ordinary() {
#ifdef PR_SET_IO_FLUSHER
  (void)::prctl(PR_SET_IO_FLUSHER, 0, 0, 0, 0);
#endif
  const int score = ::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (score < 0) return;
  (void)!::write(score, "0", 1);
  ::close(score);
}

// As dup2(2), but open in the program also where the two are the same, as a node without standard files may have it.
bool give(int from, int as) { return from == as ? ::fcntl(as, F_SETFD, 0) == 0 : ::dup2(from, as) >= 0; }

// In the child, whose memory is this process' until exec() while the thread that made it waits: nothing but system calls.
// Returns where it went wrong, with errno.
[[gnu::noinline]] void become(const Start& start) {
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

// Its process number, or why there is none. As posix_spawn(3) does it, which has no rule for be_ordinary(): no copy is made of
// this process' memory, and no signal is handled in the child.
Result<pid_t> spawn(const Start& start) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return system_error(errno, "no pipe for its start");
  const Descriptor told(ends[0]);
  Descriptor tells(ends[1]);
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t pid = ::vfork();  // NOLINT(clang-analyzer-security.insecureAPI.vfork)
  if (pid == 0) {
    become(start);  // NOLINT(clang-analyzer-unix.Vfork)
    const int error = errno;
    (void)!::write(ends[1], &error, sizeof error);
    ::_exit(EXIT_FAILURE);
  }
  const int failure = errno;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (pid < 0) return system_error(failure, start.path);
  tells.reset();
  // Nothing, where exec() has closed it.
  int error = 0;
  ssize_t n = 0;
  do n = ::read(told.get(), &error, sizeof error);
  while (n < 0 && errno == EINTR);
  if (n != sizeof error) return pid;
  while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
  return system_error(error, start.path);
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
  listen_to_children();
  std::vector<char*> words;
  words.reserve(environment.size() + 1);
  for (const std::string& word : environment) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  char* arguments[] = {const_cast<char*>(path.c_str()), nullptr};
  const Result<pid_t> pid = spawn({path.c_str(), arguments, words.data(), input, out.value().into.get(), err.value().into.get()});
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
