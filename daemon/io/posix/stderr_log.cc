#include "io/posix/stderr_log.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <utility>

#include "io/posix/thread.h"

namespace twinblock {
namespace {

// All or nothing, as far as we can: a log that can't be written is no reason to stop.
void write_all(int fd, const std::string& text) {
  size_t written = 0;
  while (written < text.size()) {
    const ssize_t n = ::write(fd, text.data() + written, text.size() - written);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;
    written += static_cast<size_t>(n);
  }
}

}  // namespace

StderrLog::StderrLog(const std::string& who, int fd)
    : fd_(fd),
      prefix_("twinblock: " + who + ": "),
      levels_(std::getenv("JOURNAL_STREAM") != nullptr),
      writer_(start_thread("tb-log", [this] { write_lines(); })) {}

StderrLog::~StderrLog() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  filled_.notify_one();
  writer_.join();
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
    for (const std::string& line : lines) write_all(fd_, line);
    if (dropped > 0)
      write_all(fd_, format(Severity::kWarning,
                            std::to_string(dropped) + " log lines were dropped: too many at once"));
    lock.lock();
  }
}

}  // namespace twinblock
