#include "io/posix/command_lock.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <thread>

#include "io/posix/child_process.h"

namespace twinblock {
namespace {

constexpr auto kLook = std::chrono::milliseconds(20);
constexpr int kLooksMax = 250;  // 5 s

bool is_number(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// Everybody who has it from a command.
void kill_holders(const struct stat& file) {
  std::error_code error;
  for (std::filesystem::directory_iterator each("/proc", error), end; !error && each != end; each.increment(error)) {
    const std::string pid = each->path().filename();
    if (!is_number(pid)) continue;
    for (const int fd : {STDIN_FILENO, ChildProcess::kInputAgain}) {
      struct stat input {};
      if (::stat((each->path() / "fd" / std::to_string(fd)).c_str(), &input) != 0) continue;
      if (input.st_dev == file.st_dev && input.st_ino == file.st_ino)
        (void)::kill(static_cast<pid_t>(std::stol(pid)), SIGKILL);
    }
  }
}

}  // namespace

Result<Descriptor> CommandLock::take() const {
  Descriptor file(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file.open()) return system_error(errno, path_);
  if (::flock(file.get(), LOCK_EX | LOCK_NB) == 0) return Result<Descriptor>(std::move(file));
  if (errno != EWOULDBLOCK) return system_error(errno, path_);
  return Error{"something that an earlier command has started still runs, and has " + path_ + " open",
               "see who: fuser -v " + path_, EBUSY, Retry::kLater};
}

bool CommandLock::held() const {
  const Result<Descriptor> taken = take();
  return !taken && taken.error().code == EBUSY;
}

Status CommandLock::end_what_is_left() const {
  struct stat file {};
  if (::lstat(path_.c_str(), &file) != 0) return errno == ENOENT ? ok_status() : Status(system_error(errno, path_));
  for (int look = 0; look < kLooksMax; ++look) {
    const Result<Descriptor> taken = take();
    if (taken) return ok_status();
    if (taken.error().code != EBUSY) return taken.error();
    kill_holders(file);
    std::this_thread::sleep_for(kLook);
  }
  return Error{"what a command of [copies] has left running does not end, and may write to the backing, or to a copy of it",
               "see who has it open: fuser -v " + path_, EBUSY};
}

}  // namespace twinblock
