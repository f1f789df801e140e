#include "twinblock/event_stream.h"

#include <unistd.h>

#include <utility>

#include "twinblock/control_client.h"

namespace twinblock {

using nlohmann::json;

Result<std::vector<json>> EventStream::take(bool& restarted) {
  std::vector<json> events;
  restarted = false;
  while (true) {
    if (fd_ < 0)
      if (const Status asked = ask(); !asked) return asked.error();
    const Result<std::optional<json>> reply = read_control_reply(fd_, socket_path_, received_);
    if (!reply) {
      disconnect();
      heard_ = false;  // another process that has as many events would wait for one more
      return reply.error();
    }
    if (!reply.value().has_value()) return events;
    disconnect();
    heard_ = true;
    if (cursor_.take(*reply.value())) {
      const json more = array_at(*reply.value(), "events");
      events.insert(events.end(), more.begin(), more.end());
    } else {
      restarted = true;
      events.clear();
    }
  }
}

Status EventStream::ask() {
  const Result<int> begun = begin_control_request(
      socket_path_, "events", json{{"since", cursor_.since()}, {"wait", heard_}});
  if (!begun) return begun.error();
  fd_ = begun.value();
  return ok_status();
}

void EventStream::disconnect() {
  if (fd_ >= 0) close(std::exchange(fd_, -1));
  received_.clear();
}

}  // namespace twinblock
