#include "io/posix/output_lines.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "base/limits.h"

namespace twinblock {
namespace {

// Of one call: whoever floods us must not keep us from looking at the clock.
constexpr size_t kReadsMax = 16;

}  // namespace

OutputLines::OutputLines(Log& log, Severity severity, std::string prefix)
    : log_(log), severity_(severity), prefix_(std::move(prefix)) {}

bool OutputLines::read_from(int fd) {
  std::array<char, 4096> bytes;
  for (size_t reads = 0; reads < kReadsMax;) {
    const ssize_t n = ::read(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno == EAGAIN;
    if (n == 0) return false;
    for (ssize_t i = 0; i < n; ++i) take(bytes[static_cast<size_t>(i)]);
    ++reads;
  }
  return true;
}

void OutputLines::take(char c) {
  if (c == '\n') {
    end_line();
    return;
  }
  if (line_.size() >= limits::kFenceLineBytesMax) {
    cut_ = true;
    return;
  }
  const auto byte = static_cast<unsigned char>(c);
  line_ += byte < 0x20 || byte == 0x7f ? ' ' : c;
}

void OutputLines::end_line() {
  while (!line_.empty() && line_.back() == ' ') line_.pop_back();
  if (!line_.empty() && ++lines_ <= limits::kFenceLinesMax)
    log_.log(severity_, prefix_ + line_ + (cut_ ? "..." : ""));
  line_.clear();
  cut_ = false;
}

void OutputLines::finish() {
  end_line();
  if (lines_ > limits::kFenceLinesMax)
    log_.log(severity_, prefix_ + std::to_string(lines_ - limits::kFenceLinesMax) +
                            " more lines were dropped");
  lines_ = 0;
}

}  // namespace twinblock
