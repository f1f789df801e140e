// What happened to a node, in order: the last events, numbered from 1, with the time of day. Loop
// thread only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace twinblock {

// Of an event: "link" -> "main". Names have letters, digits and '_' only.
using EventDetails = std::vector<std::pair<const char*, std::variant<std::string, uint64_t>>>;

struct Event {
  uint64_t number = 0;
  uint64_t wall_ns = 0;        // since 1970
  const char* name = nullptr;  // "link-lost", …: docs/events.md
  EventDetails details;
};

class EventLog {
 public:
  explicit EventLog(size_t kept) : kept_(kept) {}

  // Long texts are cut; the oldest event goes when there is no more room.
  void add(uint64_t wall_ns, const char* name, EventDetails details);
  [[nodiscard]] uint64_t last() const { return last_; }  // the newest one's number; 0: none yet
  // The events after number `since`, oldest first, at most `max`.
  [[nodiscard]] std::vector<Event> after(uint64_t since, size_t max) const;
  // How many after `since` are not kept any more.
  [[nodiscard]] uint64_t dropped_after(uint64_t since) const;

 private:
  static constexpr size_t kTextBytesMax = 400;

  const size_t kept_;
  std::deque<Event> events_;
  uint64_t last_ = 0;
};

}  // namespace twinblock
