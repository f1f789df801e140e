// Clients that are made up, so that the truth about them is known, as the latency verb tells of them.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>

#include "base/units.h"
#include "twinblock/forecast.h"

namespace twinblock {

inline constexpr double kGbit = 1e9;

// `clients` writes of `bytes` under way at a time for 10 s, each of which takes `software_ns` and `wire_ns`, and
// waits `queue_ns` for others on the link.
struct Clients {
  uint64_t clients = 1, bytes = 65'536, pause_ns = 0;
  uint64_t software_ns = 100'000, wire_ns = 0, queue_ns = 0;
  uint64_t rate_bits_per_s = 1'000'000'000, carried_bytes_per_s = 0, way_ns = 0;
};

inline nlohmann::json latency_of(const Clients& of) {
  using nlohmann::json;
  const uint64_t total_ns = of.software_ns + of.wire_ns + of.queue_ns;
  const uint64_t writes = 10 * kSecond_ns * of.clients / (total_ns + of.pause_ns);
  // While one pauses the others go on; who is alone pauses alone.
  const uint64_t busy_ns = of.clients == 1 ? writes * total_ns : 10 * kSecond_ns;
  const auto times = [writes](uint64_t ns) {
    return json{{"count", writes}, {"sum_ns", writes * ns}, {"p50_ns", ns}, {"p90_ns", ns},
                {"p99_ns", ns + ns / 2}, {"max_ns", 2 * ns}};
  };
  return {{"volume", "r0"},
          {"node", "alpha"},
          {"window", "10s"},
          {"sample_every", 64},
          {"load",
           {{"busy_ns", busy_ns},
            {"depth_p99", of.clients},
            {"pause_p50_ns", of.pause_ns},
            {"dirtied", json::array({{{"minutes", 1}, {"bytes", 119'000'000}}})}}},
          {"classes",
           json::array({{{"class", "64K"},
                         {"bytes_max", 65'536},
                         {"bytes", writes * of.bytes},
                         {"writes", writes},
                         {"total", times(total_ns)},
                         {"stages",
                          {{"peer-queue", times(of.software_ns)},
                           {"wire", times(of.wire_ns)},
                           {"link-queue", times(of.queue_ns)}}}}})},
          {"links",
           json::array({{{"name", "link1"},
                         {"up", true},
                         {"rate_bits_per_s", of.rate_bits_per_s},
                         {"carried_bytes_per_s", of.carried_bytes_per_s},
                         {"way_ns", of.way_ns},
                         {"samples", 100},
                         {"alone_share", of.clients == 1 ? 1.0 : 0.0}}})}};
}

inline Workload workload(const Clients& of) { return workload_of(latency_of(of), 0).value(); }

inline double line_ns(const Clients& of, double bits_per_s) {
  return static_cast<double>(of.bytes) * 1e9 / payload_bytes_per_s(bits_per_s);
}

inline uint64_t whole(double value) { return static_cast<uint64_t>(value); }

}  // namespace twinblock
