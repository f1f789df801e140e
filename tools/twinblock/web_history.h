// What the last hour was like, volume by volume, for the page. Pure; one thread.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

namespace twinblock {

class WebHistory {
 public:
  static constexpr uint64_t kStep_ms = 5'000;
  static constexpr size_t kPointsMax = 720;  // an hour

  // What a node answered at `now_ms` (since 1970): its `status` and its `latency` of the last 10 s. More often than
  // each kStep_ms adds nothing.
  void add(const std::string& volume, const nlohmann::json& status, const nlohmann::json& latency, uint64_t now_ms);
  // One that was taken away.
  void forget(const std::string& volume) { volumes_.erase(volume); }
  // {"volumes": {"r0": [{"time_ms", "write_bytes_per_s", "read_bytes_per_s", "p50_ns", "p99_ns"}, …]}}, oldest
  // first. p50 and p99 are of the size that was written most; null where nothing was. A node that began anew counts
  // from there.
  [[nodiscard]] nlohmann::json shown() const;

 private:
  struct Volume {
    std::deque<nlohmann::json> points;
    uint64_t time_ms = 0, write_bytes = 0, read_bytes = 0;  // at the last point
    double uptime_s = 0;
  };
  std::map<std::string, Volume> volumes_;
};

}  // namespace twinblock
