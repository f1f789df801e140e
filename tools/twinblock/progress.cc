#include "twinblock/progress.h"

#include <algorithm>

#include "twinblock/json_fields.h"
#include "twinblock/status_text.h"

namespace twinblock {
namespace {

constexpr size_t kBarWidth = 30;
// Back to the line's start, and clear it.
constexpr const char* kRedraw = "\r\033[K";

}  // namespace

std::string progress_bar(const nlohmann::json& resync, size_t width) {
  const double part = std::clamp(number_at(resync, "percent") / 100, 0.0, 1.0);
  const auto filled = static_cast<size_t>(part * static_cast<double>(width));
  return "[" + std::string(filled, '#') + std::string(width - filled, '-') + "] " +
         resync_line(resync);
}

void ProgressDisplay::show(const nlohmann::json& status) {
  const nlohmann::json resync = object_at(status, "resync");
  const bool active = flag_at(resync, "active");
  if (!started_) last_resync_before_ = object_at(status, "last_resync");
  started_ = true;
  const std::string state = text_at(status, "state");
  if (terminal_) {
    const std::string line =
        active ? "resync " + progress_bar(resync, kBarWidth) : "state: " + state;
    std::fprintf(out_, "%s%s", kRedraw, line.c_str());
    drawn_ = true;
  } else if (active) {
    const int tenth = static_cast<int>(number_at(resync, "percent") / 10);
    if (tenth != tenth_shown_)
      std::fprintf(out_, "resync %s\n", progress_bar(resync, kBarWidth).c_str());
    tenth_shown_ = tenth;
  } else if (state != state_shown_) {
    std::fprintf(out_, "state: %s\n", state.c_str());
  }
  state_shown_ = state;
  std::fflush(out_);
}

void ProgressDisplay::finish(const nlohmann::json& status) {
  if (drawn_) std::fprintf(out_, "%s", kRedraw);
  const nlohmann::json last = object_at(status, "last_resync");
  if (started_ && last.is_object() && last != last_resync_before_)
    std::fprintf(out_, "resync done: %s\n", last_resync_line(last).c_str());
  std::fflush(out_);
}

}  // namespace twinblock
