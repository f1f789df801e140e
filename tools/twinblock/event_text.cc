#include "twinblock/event_text.h"

#include <algorithm>
#include <cctype>
#include <cstring>

#include "twinblock/json_fields.h"

namespace twinblock {
namespace {

using nlohmann::json;

bool plain(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || (c != 0 && std::strchr("._:/+,[]-", c) != nullptr);
  });
}

std::string value_text(const json& value) {
  if (value.is_string() && plain(value.get_ref<const std::string&>()))
    return value.get<std::string>();
  return json_text(value);
}

void add(std::string& line, const std::string& key, const json& value) {
  line += (line.empty() ? "" : " ") + key + ":" + value_text(value);
}

}  // namespace

std::string event_line(const json& event) {
  std::string line;
  if (!event.is_object()) return line;
  const auto leads = [](const std::string& key) {
    return key == "time" || key == "number" || key == "event" || key == "reason";
  };
  for (const char* key : {"time", "number", "event"})
    if (event.contains(key)) add(line, key, event[key]);
  for (const auto& [key, value] : event.items())
    if (!leads(key)) add(line, key, value);
  if (event.contains("reason")) add(line, "reason", event["reason"]);
  return line;
}

json dropped_event(uint64_t count) { return {{"event", "dropped"}, {"count", count}}; }

}  // namespace twinblock
