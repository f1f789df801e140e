#include "options.h"

#include <array>

namespace twinblock::sim {
namespace {

struct Mode {
  const char* name;
  unsigned weight;  // in "mixed"
  void (*apply)(Options& options);
};

constexpr std::array<Mode, 8> kModeTable{{
    {"calm", 1, [](Options&) {}},
    {"network", 3,
     [](Options& o) {
       o.faults.reset = o.faults.silence = 3;
       o.faults.pause = 2;
     }},
    {"crash", 4,
     [](Options& o) {
       o.faults.kill = 4;
       o.faults.reset = o.faults.restart = o.faults.slow_disk = 1;
     }},
    {"power", 4,
     [](Options& o) {
       o.faults.power_off = 4;
       o.faults.kill = o.faults.reset = o.faults.slow_disk = 1;
     }},
    {"disk", 3,
     [](Options& o) {
       o.faults.peer_disk_error = 3;
       o.faults.hang_disk = o.faults.slow_disk = 2;
       o.faults.local_disk_error = o.faults.reset = 1;
     }},
    {"hang", 1,
     [](Options& o) {
       o.faults.hang_disk = 1;
       o.faults.interval_ns = 8 * kSecond_ns;
       o.faulty_ns = 40 * kSecond_ns;
     }},
    {"roles", 3,
     [](Options& o) {
       o.faults.switch_roles = 4;
       o.faults.restart = o.faults.hang_disk = o.faults.silence = 1;
       o.faults.kill = o.faults.reset = 2;
     }},
    {"freeze", 1,
     [](Options& o) {
       o.freeze = true;
       o.faults.kill = o.faults.reset = o.faults.silence = o.faults.power_off = 1;
     }},
}};

void vary(Options& o, Random& random) {
  constexpr std::array<uint64_t, 4> kSizes{64 * kKiB, 256 * kKiB, 512 * kKiB, kMiB};
  o.volume_bytes = kSizes[random.below(kSizes.size())];
  if (random.chance(0.3)) o.volume_bytes += 4 * kKiB * random.between(1, 7);
  o.write_bytes_max = random.chance(0.5) ? 64 * kKiB : 8 * kKiB;
  o.peer_timeout_ns = random.between(1, 5) * kSecond_ns;
  o.disk_timeout_ns = o.peer_timeout_ns + random.between(1, 8) * kSecond_ns;
  o.faulty_ns = random.spread(5 * kSecond_ns, 30 * kSecond_ns);
  o.depth = static_cast<unsigned>(random.between(1, 16));
  o.think_max_ns = random.spread(2 * kMillisecond_ns, 400 * kMillisecond_ns);
  o.flush_share = random.chance(0.2) ? 0 : 0.1 * random.unit();
  o.fua_share = random.chance(0.3) ? 0 : 0.3 * random.unit();
  o.zero_share = random.chance(0.3) ? 0 : 0.2 * random.unit();
  o.read_share = 0.1 + 0.5 * random.unit();
  if (random.chance(0.04)) {  // writes that travel in several frames
    o.volume_bytes = 8 * kMiB;
    o.write_bytes_max = 3 * kMiB;
    o.think_max_ns += 200 * kMillisecond_ns;
    o.flush_share += 0.05;
  }
  o.faults.interval_ns = random.spread(100 * kMillisecond_ns, 5 * kSecond_ns);
}

}  // namespace

bool make_options(const std::string& mode, Random& random, Options& options) {
  vary(options, random);
  unsigned weights = 0;
  for (const Mode& each : kModeTable) weights += each.weight;
  const uint64_t drawn = random.below(weights);
  unsigned below = 0;
  for (const Mode& each : kModeTable) {
    const bool is_drawn = drawn >= below && drawn < below + each.weight;
    below += each.weight;
    if (mode != each.name && !(mode == "mixed" && is_drawn)) continue;
    each.apply(options);
    return true;
  }
  return false;
}

}  // namespace twinblock::sim
