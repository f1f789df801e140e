#include "io/posix/stderr_log.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstdlib>
#include <thread>
#include <utility>

#include "base/limits.h"
#include "io/posix/monotonic.h"
#include "io/posix/thread.h"

namespace twinblock {
namespace {

// A pipe is shared with others, who may fill it after it had room: a description of our own, and nobody else's, says
// that writes must not wait. None for anything else, and where the kernel refuses.
Descriptor without_waiting(int fd) {
  struct stat kind {};
  if (::fstat(fd, &kind) != 0 || !S_ISFIFO(kind.st_mode)) return {};
  return Descriptor(::open(("/proc/self/fd/" + std::to_string(fd)).c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC));
}

// As write(2) does. A socket, as journald's, can be told with each call that it must not wait.
ssize_t write_some(int fd, const char* from, size_t bytes) {
  const ssize_t n = ::send(fd, from, bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
  return n < 0 && errno == ENOTSOCK ? ::write(fd, from, bytes) : n;
}

}  // namespace

StderrLog::StderrLog(const std::string& who, int fd)
    : own_(without_waiting(fd)),
      fd_(own_.open() ? own_.get() : fd),
      prefix_("twinblock: " + who + ": "),
      levels_(std::getenv("JOURNAL_STREAM") != nullptr),
      writer_(start_thread("tb-log", [this] { write_lines(); })) {}

StderrLog::~StderrLog() {
  give_up_ns_ = monotonic_ns() + limits::kLogPatience_ns;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  filled_.notify_one();
  writer_.join();
}

// False: nobody has made room, and this log is to end.
bool StderrLog::wait_for_room() const {
  while (monotonic_ns() < give_up_ns_) {
    pollfd look{fd_, POLLOUT, 0};
    if (::poll(&look, 1, static_cast<int>(limits::kLogLook_ns / kMillisecond_ns)) > 0) return true;
  }
  return false;
}

// All or nothing, as far as we can: a log that can't be written is no reason to stop.
void StderrLog::write_all(const std::string& text) const {
  size_t written = 0;
  while (written < text.size() && wait_for_room()) {
    // A pipe that has room has it for that much.
    const ssize_t n = write_some(fd_, text.data() + written, std::min<size_t>(text.size() - written, PIPE_BUF));
    if (n > 0)
      written += static_cast<size_t>(n);
    else if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))  // somebody else was quicker
      std::this_thread::sleep_for(std::chrono::nanoseconds(limits::kLogLook_ns));
    else if (n == 0 || errno != EINTR)
      return;
  }
}

void StderrLog::log(Severity severity, const std::string& line) {
  std::string text = format(severity, line);
  {
    const std::lock_guard lock(mutex_);
    if (lines_.size() >= kLinesMax) {
      ++dropped_;
      return;
    }
    lines_.push_back(std::move(text));
  }
  filled_.notify_one();
}

std::string StderrLog::format(Severity severity, const std::string& line) const {
  std::string text;
  if (levels_)
    text = severity == Severity::kError ? "<3>" : severity == Severity::kWarning ? "<4>" : "<6>";
  text += prefix_;
  if (severity == Severity::kWarning) text += "warning: ";
  if (severity == Severity::kError) text += "error: ";
  for (const char c : line) text += c == '\n' ? ' ' : c;  // one line each, whatever it says
  return text += '\n';
}

void StderrLog::write_lines() {
  std::unique_lock lock(mutex_);
  for (;;) {
    filled_.wait(lock, [this] { return stopping_ || !lines_.empty(); });
    if (lines_.empty()) return;
    std::deque<std::string> lines = std::exchange(lines_, {});
    const uint64_t dropped = std::exchange(dropped_, 0);
    lock.unlock();
    for (const std::string& line : lines) write_all(line);
    if (dropped > 0)
      write_all(format(Severity::kWarning,
                       std::to_string(dropped) + " log lines were dropped: too many at once"));
    lock.lock();
  }
}

}  // namespace twinblock
