#include "twinblock/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

#include "twinblock/json_fields.h"
#include "twinblock/sync_text.h"

namespace twinblock {
namespace {

constexpr size_t kBarWidth = 30;
constexpr size_t kColumnsUnknown = 80;
// Two seconds, as `wait` polls.
constexpr size_t kPollsStillMax = 10;
// Back to the line's start, and clear it.
constexpr const char* kRedraw = "\r\033[K";

// At most `columns` characters; UTF-8 sequences are kept whole.
std::string cut(const std::string& line, size_t columns) {
  size_t seen = 0;
  for (size_t i = 0; i < line.size(); ++i) {
    const bool starts = (static_cast<unsigned char>(line[i]) & 0xC0) != 0x80;
    if (starts && seen++ == columns) return line.substr(0, i);
  }
  return line;
}

}  // namespace

std::string progress_bar(double percent, const std::string& line, size_t width) {
  const double part = std::clamp(percent / 100, 0.0, 1.0);
  const auto filled = static_cast<size_t>(part * static_cast<double>(width));
  return "[" + std::string(filled, '#') + std::string(width - filled, '-') + "] " + line;
}

void ProgressLine::draw(const std::string& line) {
  std::fprintf(out_, "%s%s", kRedraw, cut(line, columns_ - 1).c_str());
  std::fflush(out_);
  drawn_ = true;
}

void ProgressLine::clear() {
  if (drawn_) std::fprintf(out_, "%s", kRedraw);
  std::fflush(out_);
  drawn_ = false;
}

void ProgressLine::print(const std::string& line) {
  clear();
  std::fprintf(out_, "%s\n", line.c_str());
  std::fflush(out_);
}

// Why the resync does not go as fast as it could, or at all.
std::string ResyncDisplay::hold_of(const nlohmann::json& status) {
  const nlohmann::json resync = object_at(status, "resync");
  const std::string volume = text_at(status, "volume");
  if (std::string hold = resync_hold(resync, volume); !hold.empty()) return hold;
  const uint64_t done_bytes = count_at(resync, "bytes_done");
  polls_still_ = done_bytes == done_bytes_ ? polls_still_ + 1 : 0;
  done_bytes_ = done_bytes;
  if (polls_still_ < kPollsStillMax) return {};
  const bool target = text_at(resync, "direction") == "target";
  return "nothing has moved for a while; ask" + std::string(target ? " on the source" : "") +
         ": twinblock why " + volume;
}

void ResyncDisplay::show(const nlohmann::json& status) {
  const nlohmann::json resync = object_at(status, "resync");
  const bool active = flag_at(resync, "active");
  if (!started_) last_resync_before_ = object_at(status, "last_resync");
  started_ = true;
  const std::string hold = active ? hold_of(status) : std::string();
  const double percent = number_at(resync, "percent");
  std::string other = "state: " + text_at(status, "state");
  // Why it is not a resync, or not yet.
  if (const std::string why = text_at(status, "status"); !why.empty()) other += ". " + why;
  if (line_.terminal()) {
    line_.draw(active ? "resync " + progress_bar(percent, resync_line(resync), kBarWidth) : other);
    // What holds it back has no place in the bar's line: it is said once, above it.
    if (!hold.empty() && hold != shown_) line_.print("resync: " + hold);
    shown_ = hold;
    return;
  }
  if (!active) {
    if (other != shown_) line_.print(other);
    shown_ = other;
    return;
  }
  const int tenth = static_cast<int>(percent / 10);
  if (tenth != tenth_shown_)
    line_.print("resync " + progress_bar(percent, resync_line(resync), kBarWidth));
  tenth_shown_ = tenth;
  if (!hold.empty() && hold != shown_) line_.print("resync: " + hold);
  shown_ = hold;
}

void ResyncDisplay::finish(const nlohmann::json& status) {
  line_.clear();
  const nlohmann::json last = object_at(status, "last_resync");
  if (started_ && last.is_object() && last != last_resync_before_)
    line_.print("resync done: " + last_resync_line(last));
}

void VerifyDisplay::show(const nlohmann::json& verify) {
  const double percent = verify_percent(verify);
  const std::string text = "verify " + progress_bar(percent, verify_line(verify), kBarWidth);
  if (line_.terminal()) {
    line_.draw(text);
    return;
  }
  const int tenth = static_cast<int>(percent / 10);
  if (tenth != tenth_shown_) line_.print(text);
  tenth_shown_ = tenth;
}

size_t terminal_columns(int fd) {
  if (isatty(fd) == 0) return 0;
  winsize size{};
  if (ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_col < 2) return kColumnsUnknown;
  return size.ws_col;
}

}  // namespace twinblock
