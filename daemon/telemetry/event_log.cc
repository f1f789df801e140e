#include "telemetry/event_log.h"

#include <algorithm>

namespace twinblock {

void EventLog::add(uint64_t wall_ns, const char* name, EventDetails details) {
  for (auto& [key, value] : details)
    if (auto* text = std::get_if<std::string>(&value); text != nullptr)
      if (text->size() > kTextBytesMax) *text = text->substr(0, kTextBytesMax - 3) + "...";
  events_.push_back({++last_, wall_ns, name, std::move(details)});
  if (events_.size() > kept_) events_.pop_front();
}

std::vector<Event> EventLog::after(uint64_t since, size_t max) const {
  // Numbers have no gaps.
  const uint64_t first = last_ - events_.size() + 1;
  if (since >= last_) return {};
  const size_t from = since < first ? 0 : since - first + 1;
  const size_t count = std::min(max, events_.size() - from);
  const auto begin = events_.begin() + static_cast<std::ptrdiff_t>(from);
  return {begin, begin + static_cast<std::ptrdiff_t>(count)};
}

uint64_t EventLog::dropped_after(uint64_t since) const {
  const uint64_t gone = last_ - events_.size();
  return gone - std::min(gone, since);
}

}  // namespace twinblock
