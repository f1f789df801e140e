#include "twinblock/web_history.h"

#include "twinblock/json_fields.h"

namespace twinblock {
namespace {

using nlohmann::json;

// Of the size that was written most; null without writes.
json most_written(const json& latency) {
  json most;
  for (const json& each : array_at(latency, "classes"))
    if (count_at(each, "writes") > count_at(most, "writes")) most = each;
  return object_at(most, "total");
}

}  // namespace

void WebHistory::add(const std::string& volume, const json& status, const json& latency, uint64_t now_ms) {
  Volume& of = volumes_[volume];
  if (now_ms < of.time_ms) of = {};  // the clock was set back: what was before would be to come
  if (of.time_ms != 0 && now_ms < of.time_ms + kStep_ms) return;
  const json counters = object_at(status, "counters");
  const uint64_t written = count_at(counters, "write_bytes"), read = count_at(counters, "read_bytes");
  const double uptime_s = number_at(status, "uptime_s");
  const bool goes_on = of.time_ms != 0 && uptime_s >= of.uptime_s && written >= of.write_bytes && read >= of.read_bytes;
  if (goes_on) {
    const json total = most_written(latency);
    const uint64_t passed_ms = now_ms - of.time_ms;
    of.points.push_back({{"time_ms", now_ms},
                         {"write_bytes_per_s", (written - of.write_bytes) * 1000 / passed_ms},
                         {"read_bytes_per_s", (read - of.read_bytes) * 1000 / passed_ms},
                         {"p50_ns", total.is_object() ? json(count_at(total, "p50_ns")) : json()},
                         {"p99_ns", total.is_object() ? json(count_at(total, "p99_ns")) : json()}});
    if (of.points.size() > kPointsMax) of.points.pop_front();
  }
  of.time_ms = now_ms;
  of.write_bytes = written;
  of.read_bytes = read;
  of.uptime_s = uptime_s;
}

json WebHistory::shown() const {
  json volumes = json::object();
  for (const auto& [name, of] : volumes_) volumes[name] = of.points;
  return {{"step_ms", kStep_ms}, {"volumes", std::move(volumes)}};
}

}  // namespace twinblock
