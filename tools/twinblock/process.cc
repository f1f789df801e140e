#include "twinblock/process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>

#include "base/units.h"
#include "io/posix/memory.h"
#include "io/posix/spawn.h"
#include "twinblock/exit_status.h"

extern char** environ;

namespace twinblock {
namespace {

constexpr uint64_t kPollInterval_ns = 10 * kMillisecond_ns;

// posix_spawn's file actions and attributes, released at the end.
struct SpawnSetup {
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  SpawnSetup() {
    posix_spawn_file_actions_init(&files);
    posix_spawnattr_init(&attributes);
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  }
  ~SpawnSetup() {
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attributes);
  }
  SpawnSetup(const SpawnSetup&) = delete;
  SpawnSetup& operator=(const SpawnSetup&) = delete;
};

std::vector<char*> argv_of(const std::vector<std::string>& args) {
  std::vector<char*> argv;
  argv.reserve(args.size() + 1);
  for (const std::string& arg : args) argv.push_back(const_cast<char*>(arg.c_str()));
  argv.push_back(nullptr);
  return argv;
}

Result<std::string> installed(const std::string& name) {
  std::string program = find_program(name);
  if (program.empty()) return refused(name + " is not installed");
  return program;
}

Result<pid_t> spawn(const std::vector<std::string>& args, const SpawnSetup& setup) {
  const Result<std::string> program = installed(args.front());
  if (!program) return program.error();
  const std::vector<char*> argv = argv_of(args);
  listen_to_children();
  pid_t pid = 0;
  const int error =
      posix_spawn(&pid, program.value().c_str(), &setup.files, &setup.attributes, argv.data(), environ);
  if (error != 0) return refused(system_error(error, "can't start " + program.value()).what);
  return pid;
}

struct Start {
  const char* program;
  char* const* argv;
  Whose whose;
};

// As of spawn.h.
[[gnu::noinline]] void become(const void* what) {
  const Start& start = *static_cast<const Start*>(what);
  if (start.whose == Whose::kUsers) be_ordinary();
  sigset_t none;
  sigemptyset(&none);
  const int in = open("/dev/null", O_RDONLY);
  const bool given = in == STDIN_FILENO || (in > 0 && dup2(in, STDIN_FILENO) == STDIN_FILENO && close(in) == 0);
  if (!given || setpgid(0, 0) != 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0 ||
      sigprocmask(SIG_SETMASK, &none, nullptr) != 0)
    return;
  execve(start.program, start.argv, environ);
}

std::string read_file(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string trimmed(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text;
}

bool is_program(const std::string& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && access(path.c_str(), X_OK) == 0;
}

// Of all that is open here, for who may live longer than this process: whoever reads what it prints waits for the end of
// that, and a server for the end of its clients' connections.
bool hold_nothing() {
  const int null = open("/dev/null", O_RDWR);
  if (null < 0) return false;
  for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (dup2(null, standard) < 0) return false;
  return close_range(STDERR_FILENO + 1, ~0U, 0) == 0;
}

// A file in memory for a program's output: short outputs, and no pipe to drain.
class Scratch {
 public:
  Scratch() {
    const int fd = memfd_create("twinblock-output", MFD_CLOEXEC);
    if (fd < 0) return;
    fd_ = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);  // the program's own three come after it
    close(fd);
  }
  ~Scratch() {
    if (fd_ >= 0) close(fd_);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  [[nodiscard]] int fd() const { return fd_; }  // -1: no memory, no descriptors
  [[nodiscard]] std::string path() const { return "/proc/self/fd/" + std::to_string(fd_); }

 private:
  int fd_ = -1;
};

}  // namespace

std::string find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) return is_program(name) ? name : "";
  const char* path = std::getenv("PATH");
  // The directories of system programs are often not in an ordinary user's PATH.
  std::istringstream dirs(std::string(path == nullptr ? "" : path) +
                          ":/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin");
  for (std::string dir; std::getline(dirs, dir, ':');) {
    std::string candidate = dir;
    candidate.append("/").append(name);
    if (dir.starts_with('/') && is_program(candidate)) return candidate;
  }
  return {};
}

Result<std::string> run_program(const std::vector<std::string>& args, uint64_t timeout_ns) {
  const Scratch output;
  const Scratch errors;
  if (output.fd() < 0 || errors.fd() < 0)
    return refused("can't make a file in memory for the output of " + args.front());
  SpawnSetup setup;
  posix_spawn_file_actions_adddup2(&setup.files, output.fd(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&setup.files, errors.fd(), STDERR_FILENO);
  const Result<pid_t> pid = spawn(args, setup);
  if (!pid) return pid.error();
  const Result<int> ended = reap(pid.value(), timeout_ns);
  if (!ended) return refused(args.front() + " " + ended.error().what);
  const int wait_status = ended.value();
  if (WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 0)
    return trimmed(read_file(output.path()));
  std::string why = last_line(errors.path());
  if (why.empty()) why = last_line(output.path());
  if (why.empty()) why = "it ended with status " + std::to_string(WEXITSTATUS(wait_status));
  return refused(args.front() + " failed: " + why);
}

Result<pid_t> start_background(const std::vector<std::string>& args, const std::string& log_path) {
  SpawnSetup setup;
  posix_spawn_file_actions_addopen(&setup.files, STDOUT_FILENO, log_path.c_str(),
                                   O_WRONLY | O_CREAT | O_APPEND, 0640);
  posix_spawn_file_actions_adddup2(&setup.files, STDOUT_FILENO, STDERR_FILENO);
  posix_spawnattr_setflags(&setup.attributes, POSIX_SPAWN_SETSID);
  return spawn(args, setup);
}

Result<pid_t> start_program(const std::vector<std::string>& args, Whose whose) {
  const Result<std::string> program = installed(args.front());
  if (!program) return program.error();
  const std::vector<char*> argv = argv_of(args);
  const Start start{program.value().c_str(), argv.data(), whose};
  const Result<pid_t> pid = spawn(start.program, become, &start);
  if (!pid) return refused("can't start " + pid.error().what);
  return pid;
}

Result<std::optional<int>> wait_status_of(pid_t pid) {
  int wait_status = 0;
  const pid_t ended = waitpid(pid, &wait_status, WNOHANG);
  if (ended < 0) return refused(system_error(errno, "ended, and nobody knows how").what);
  return ended == 0 ? std::optional<int>() : std::optional(wait_status);
}

Result<int> reap(pid_t pid, uint64_t timeout_ns) {
  const uint64_t deadline_ns = steady_now_ns() + timeout_ns;
  while (true) {
    const Result<std::optional<int>> ended = wait_status_of(pid);
    if (!ended) return ended.error();
    if (ended.value().has_value()) return *ended.value();
    if (steady_now_ns() > deadline_ns) {
      kill(pid, SIGKILL);
      return refused("did not end within " + format_duration(timeout_ns));
    }
    sleep_ns(kPollInterval_ns);
  }
}

std::optional<int> apart(const std::function<int()>& work, uint64_t timeout_ns) {
  listen_to_children();
  const pid_t child = fork();
  if (child < 0) return errno;
  if (child == 0) _exit(hold_nothing() ? work() : errno);
  const Result<int> ended = reap(child, timeout_ns);
  if (!ended) return std::nullopt;
  return WIFEXITED(ended.value()) ? WEXITSTATUS(ended.value()) : EINTR;
}

std::string last_line(const std::string& path) {
  std::ifstream file(path);
  std::string last;
  for (std::string line; std::getline(file, line);)
    if (!trimmed(line).empty()) last = trimmed(line);
  return last;
}

ProcessId identify_process(pid_t pid) {
  if (pid <= 0) return {};
  const std::string stat = read_file("/proc/" + std::to_string(pid) + "/stat");
  // The name in parentheses may hold spaces and parentheses itself.
  const size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos) return {};
  std::istringstream fields(stat.substr(name_end + 1));
  std::string field;
  fields >> field;
  if (field == "Z" || field == "X") return {};
  constexpr int kStartField = 22;
  for (int number = 4; number <= kStartField; ++number) fields >> field;
  return ProcessId{pid, std::strtoull(field.c_str(), nullptr, 10)};
}

bool process_runs(const ProcessId& process) {
  if (process.pid == 0) return false;
  const ProcessId now = identify_process(process.pid);
  return now.pid == process.pid && now.start_ticks == process.start_ticks;
}

bool wait_process_end(const ProcessId& process, uint64_t timeout_ns) {
  const uint64_t deadline_ns = steady_now_ns() + timeout_ns;
  while (process_runs(process)) {
    if (steady_now_ns() > deadline_ns) return false;
    sleep_ns(kPollInterval_ns);
  }
  return true;
}

void need_no_reclaim() {
#ifdef PR_SET_IO_FLUSHER
  prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0);
#endif
  (void)mlockall(MCL_CURRENT | MCL_FUTURE);
}

void sleep_ns(uint64_t ns) { std::this_thread::sleep_for(std::chrono::nanoseconds(ns)); }

uint64_t steady_now_ns() {
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                   std::chrono::steady_clock::now().time_since_epoch())
                                   .count());
}

}  // namespace twinblock
