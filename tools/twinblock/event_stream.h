// Follows a node's events without waiting for them, over restarts of the node. One long request after
// another. Not for several threads.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "twinblock/event_cursor.h"

namespace twinblock {

class EventStream {
 public:
  explicit EventStream(std::string socket_path) : socket_path_(std::move(socket_path)) {}
  ~EventStream() { disconnect(); }
  EventStream(const EventStream&) = delete;
  EventStream& operator=(const EventStream&) = delete;

  // What is readable when take() has something to tell; -1 while no node is asked.
  [[nodiscard]] int fd() const { return fd_; }

  // The events that have come; asks for more. An error: the node can't be asked, and is by the next
  // call. `restarted` is set when another process of the node has begun to answer: the events are its
  // own, from its first one on.
  Result<std::vector<nlohmann::json>> take(bool& restarted);

 private:
  Status ask();
  void disconnect();

  const std::string socket_path_;
  EventCursor cursor_;
  int fd_ = -1;
  std::string received_;
  bool heard_ = false;  // this process of the node has answered, so that it may be asked to wait
};

}  // namespace twinblock
