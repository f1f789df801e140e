#include "control/event_requests.h"

#include <string>
#include <variant>

#include "base/limits.h"
#include "control/requests.h"

namespace twinblock {
namespace {

using nlohmann::json;

json event_json(const Event& event) {
  json line = {
      {"number", event.number}, {"time", format_timestamp(event.wall_ns)}, {"event", event.name}};
  for (const auto& [key, value] : event.details)
    std::visit([&line, name = key](const auto& detail) { line[name] = detail; }, value);
  return line;
}

std::string render(const Engine& engine, uint64_t since) {
  const EventLog& log = engine.events().log();
  json events = json::array();
  for (const Event& event : log.after(since, limits::kEventsPerAnswer))
    events.push_back(event_json(event));
  return success({{"volume", engine.config().volume},
                  {"node", engine.node()},
                  {"instance", engine.instance()},
                  {"last", log.last()},
                  {"dropped", log.dropped_after(since)},
                  {"events", std::move(events)}});
}

}  // namespace

void answer_events(Engine& engine, const json& args, const Send& send) {
  const uint64_t since = args.value("since", uint64_t{0});
  const bool none_yet = engine.events().log().last() == since;
  if (!args.value("wait", false) || !none_yet) {
    send(render(engine, since));
    return;
  }
  if (!engine.events().wait([&engine, since, send] { send(render(engine, since)); }))
    send(failure("as many as can be wait for events of this node already",
                 "end some of the `twinblock events --follow`, or ask without --follow"));
}

}  // namespace twinblock
