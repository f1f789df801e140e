#include "io/posix/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
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

// posix_spawn(3) is safe beside other threads: nothing but system calls lies between fork and exec.
class SpawnRules {
 public:
  SpawnRules(int in, int out, int err) {
    check(posix_spawn_file_actions_init(&files_));
    const int files = in >= 0 ? kInputAgain + 1 : STDERR_FILENO + 1;
    if (in >= 0)
      check(posix_spawn_file_actions_adddup2(&files_, in, STDIN_FILENO));
    else
      check(posix_spawn_file_actions_addopen(&files_, STDIN_FILENO, "/dev/null", O_RDONLY, 0));
    check(posix_spawn_file_actions_adddup2(&files_, out, STDOUT_FILENO));
    check(posix_spawn_file_actions_adddup2(&files_, err, STDERR_FILENO));
    if (in >= 0) check(posix_spawn_file_actions_adddup2(&files_, STDIN_FILENO, kInputAgain));
    check(posix_spawn_file_actions_addclosefrom_np(&files_, files));
    check(posix_spawn_file_actions_addchdir_np(&files_, "/"));
    check(posix_spawnattr_init(&attributes_));
    sigset_t none;
    sigset_t all;
    sigemptyset(&none);
    sigfillset(&all);
    check(posix_spawnattr_setsigmask(&attributes_, &none));
    check(posix_spawnattr_setsigdefault(&attributes_, &all));
    check(posix_spawnattr_setflags(
        &attributes_, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF));
  }
  ~SpawnRules() {
    posix_spawn_file_actions_destroy(&files_);
    posix_spawnattr_destroy(&attributes_);
  }
  SpawnRules(const SpawnRules&) = delete;
  SpawnRules& operator=(const SpawnRules&) = delete;
  [[nodiscard]] const posix_spawn_file_actions_t* files() const { return &files_; }
  [[nodiscard]] const posix_spawnattr_t* attributes() const { return &attributes_; }

 private:
  static void check(int error) { TB_CHECK(error == 0, "posix_spawn takes the rules"); }
  posix_spawn_file_actions_t files_{};
  posix_spawnattr_t attributes_{};
};

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
  const SpawnRules rules(input, out.value().into.get(), err.value().into.get());
  std::vector<char*> words;
  words.reserve(environment.size() + 1);
  for (const std::string& word : environment) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  char* arguments[] = {const_cast<char*>(path.c_str()), nullptr};
  ChildProcess child;
  const int error = ::posix_spawn(&child.pid_, path.c_str(), rules.files(), rules.attributes(), arguments,
                                  words.data());
  if (error != 0) {
    child.pid_ = 0;
    return system_error(error, path);
  }
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
