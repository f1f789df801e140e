// How far the events of a node have been read, over restarts of it. Pure.
#pragma once

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "twinblock/json_fields.h"

namespace twinblock {

class EventCursor {
 public:
  explicit EventCursor(uint64_t since = 0) : since_(since) {}

  // The number to ask with.
  [[nodiscard]] uint64_t since() const { return since_; }
  // Whether there are more already.
  [[nodiscard]] bool more() const { return since_ < last_; }

  // An answer to that: its events are passed over from then on. False, and nothing of it counts, when
  // another process of the node has answered, which numbers from 1 again: it is to be asked anew.
  [[nodiscard]] bool take(const nlohmann::json& answer) {
    const std::string instance = text_at(answer, "instance");
    const bool restarted = !instance_.empty() && instance != instance_;
    instance_ = instance;
    last_ = count_at(answer, "last");
    if (restarted || since_ > last_) since_ = 0;
    if (restarted) return false;
    for (const nlohmann::json& event : array_at(answer, "events"))
      since_ = std::max(since_, count_at(event, "number"));
    return true;
  }

 private:
  uint64_t since_;
  uint64_t last_ = 0;
  std::string instance_;
};

}  // namespace twinblock
