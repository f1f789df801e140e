#include "options.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace twinblock::sim {
namespace {

struct Mode {
  const char* name;
  unsigned weight;  // in "mixed"
  void (*apply)(Options& options);
};

constexpr std::array<Mode, 31> kModeTable{{
    {"calm", 1, [](Options&) {}},
    {"network", 3,
     [](Options& o) {
       o.faults.reset = o.faults.silence = 3;
       o.faults.pause = 2;
       o.faults.link = 4;
       o.faults.link_order = 3;
       o.silence_in_steps = o.depth % 4 == 0;
       o.fraying_links = o.depth % 8 == 1;
     }},
    // Something is wrong with one link or the other, but never with all of them for long.
    {"links", 4,
     [](Options& o) {
       o.session_lasts = true;
       // Enough for a write to be spread over links.
       o.volume_bytes = std::min(o.volume_bytes, kMiB);
       o.write_bytes_max = std::min(o.write_bytes_max, 256 * kKiB);
       if (o.links == 1 && o.depth % 4 != 0) o.links = 2;
       o.peer_timeout_ns = std::max(o.peer_timeout_ns, 2 * kSecond_ns);
       o.faults.interval_ns = std::min(o.faults.interval_ns, kSecond_ns);
       o.faults.link = 10;
       o.faults.link_order = o.depth % 3 == 0 ? 3 : 0;
       o.faults.switch_roles = o.depth % 5 == 0 ? 1 : 0;
       o.faults.slow_disk = o.depth % 2;
       o.faults.blackout = o.faults.order = 1;
       if (o.depth % 3 != 1) o.faults.blackout = 0;
     }},
    {"crash", 4,
     [](Options& o) {
       o.faults.kill = 4;
       o.faults.reset = o.faults.restart = o.faults.slow_disk = 1;
       o.faults.link = 2;
       o.faults.link_order = 1;
       o.quick_return = o.depth % 4 == 0;
     }},
    {"power", 4,
     [](Options& o) {
       o.faults.power_off = 4;
       o.faults.kill = o.faults.reset = o.faults.slow_disk = 1;
       o.faults.link = 2;
     }},
    {"disk", 3,
     [](Options& o) {
       o.faults.peer_disk_error = 3;
       o.faults.hang_disk = o.faults.slow_disk = 2;
       o.faults.kill = o.faults.power_off = 1;
       o.faults.local_disk_error = o.faults.reset = o.faults.link = 1;
       o.faults.silence = o.faults.switch_roles = o.depth % 2;
       o.failed_flushes = o.depth % 4 == 1;
       o.unreadable_source = o.depth % 4 >= 2;
       o.both_full = o.depth % 4 == 0;
     }},
    {"metadata", 2,
     [](Options& o) {
       o.faults.peer_metadata_error = 3;
       o.faults.interval_ns = std::max(o.faults.interval_ns, 2 * kSecond_ns);
       o.hot_bytes = 64 * kKiB;
       o.hot_ns = 2 * kSecond_ns;
       o.faults.hang_disk = o.faults.kill = o.faults.reset = 1;
       o.faults.local_metadata_error = 4;
       o.failed_demotion = o.depth % 4 == 1;
     }},
    {"hang", 1,
     [](Options& o) {
       o.faults.hang_disk = 1;
       o.faults.interval_ns = 8 * kSecond_ns;
       o.faulty_ns = 40 * kSecond_ns;
       o.think_max_ns = std::max(o.think_max_ns, 60 * kMillisecond_ns);
     }},
    {"roles", 3,
     [](Options& o) {
       o.faults.switch_roles = 4;
       o.faults.restart = o.faults.hang_disk = o.faults.silence = 1;
       o.faults.kill = o.faults.reset = o.faults.link = 2;
       o.faults.local_disk_error = o.depth % 3 == 1 ? 1 : 0;
       o.promotions = o.depth % 4 == 2;
     }},
    {"freeze", 1,
     [](Options& o) {
       o.freeze = true;
       o.faults.kill = o.faults.reset = o.faults.silence = o.faults.power_off = 1;
       o.faults.order = 2;
     }},
    // Long enough for regions to cool down and be forgotten.
    {"idle", 1,
     [](Options& o) {
       o.volume_bytes = std::max(o.volume_bytes, 256 * kKiB);
       o.write_bytes_max = 8 * kKiB;
       o.hot_bytes = 64 * kKiB;
       o.hot_ns = 5 * kSecond_ns;
       o.region_bytes = 64 * kKiB;
       o.think_max_ns = 800 * kMillisecond_ns;
       o.faulty_ns = 100 * kSecond_ns;
       o.disk_timeout_ns = 25 * kSecond_ns;
       o.absence_ns = 100 * kSecond_ns;
       // Nothing but the timer closes epochs.
       if (o.depth % 2 == 0) o.flush_share = o.fua_share = 0;
       o.faults.interval_ns = 12 * kSecond_ns;
       o.faults.kill = o.faults.power_off = o.faults.silence = 1;
       o.faults.hang_disk = 3;
     }},
    {"split", 2,
     [](Options& o) {
       o.split_brains = true;
       o.faulty_ns = std::min(o.faulty_ns, 6 * kSecond_ns);
       o.faults.kill = o.faults.power_off = o.faults.reset = 1;
     }},
    {"orders", 2,
     [](Options& o) {
       o.orders = true;
       o.faulty_ns = std::min(o.faulty_ns, 4 * kSecond_ns);
       o.faults.kill = o.faults.reset = 1;
     }},
    {"verify", 1,
     [](Options& o) {
       o.corruption = true;
       o.faults.order = 4;
       o.faults.reset = o.faults.kill = 1;
     }},
    // A node that is brought up to date loses its peer, or itself, again and again.
    {"resync", 2,
     [](Options& o) {
       o.faults.interval_ns = std::min(o.faults.interval_ns, 700 * kMillisecond_ns);
       o.faults.kill = o.faults.power_off = o.faults.restart = 2;
       o.faults.reset = o.faults.order = o.faults.link = 2;
       o.faults.local_disk_error = o.depth % 3 == 0 ? 1 : 0;
       o.demotion_in_resync = o.depth % 4 == 0;
       o.full_source = o.depth % 4 == 1;
       o.unreadable_source = o.depth % 4 == 2;
     }},
    // A disk that is slow and no more: nothing else is wrong then.
    {"slow", 1,
     [](Options& o) {
       o.slow_disk = true;
       o.volume_bytes = kMiB;
       o.write_bytes_max = kMiB;
       o.faulty_ns = kSecond_ns;
       o.disk_timeout_ns = 15 * kSecond_ns;
       o.zero_share = 0.3;
       o.flush_share += 0.05;
     }},
    // Disks are taken out and put back, each with its metadata, at any moment.
    {"swap", 2,
     [](Options& o) {
       o.faults.interval_ns = std::min(o.faults.interval_ns, 1500 * kMillisecond_ns);
       o.faults.swap = 4;
       o.faults.kill = o.faults.restart = o.faults.switch_roles = o.faults.reset = 1;
       o.faults.power_off = o.depth % 2;
       o.old_disk = o.depth % 4 == 1;
     }},
    // Hosts that have too much to do, and nothing else wrong with them. (Drawn apart in "mixed".)
    {"late", 0,
     [](Options& o) {
       o.session_lasts = true;
       o.hasty = false;
       o.links = 1 + o.depth % 3;
       o.peer_timeout_ns = std::max(o.peer_timeout_ns, 2 * kSecond_ns);
       o.disk_timeout_ns = std::max(o.disk_timeout_ns, 3 * o.peer_timeout_ns);
       // Less is not for hosts that have too much to do.
       o.link_timeout_ns = std::max(o.link_timeout_ns, 400 * kMillisecond_ns);
       o.late_max_ns = o.depth % 2 == 0 ? o.link_timeout_ns / 2 : o.peer_timeout_ns * 2 / 3;
       o.think_max_ns = std::max(o.think_max_ns, 30 * kMillisecond_ns);
       o.faulty_ns = 60 * kSecond_ns;
     }},
    {"lineage", 1, [](Options& o) { o.lineage = true; }},
    // (Drawn apart in "mixed".)
    {"witness", 0, [](Options& o) { o.witness = true; }},
    {"grow", 0, [](Options& o) { o.grow = true; }},
    {"rollback", 0, [](Options& o) { o.rollback = true; }},
    {"snapshot", 0, [](Options& o) { o.snapshot = true; }},
    {"unread", 0, [](Options& o) { o.unread = true; }},
    {"confirmed", 0, [](Options& o) { o.confirmed = true; }},
    {"far", 0, [](Options& o) { o.far = true; }},
    {"sole", 0, [](Options& o) { o.sole = true; }},
    {"vouched", 0, [](Options& o) { o.vouched = true; }},
    // A primary whose disk has died works on its peer's replica, and links break meanwhile.
    {"diskless", 0,
     [](Options& o) {
       o.faulty_ns = 40 * kSecond_ns;
       o.diskless_ns = 25 * kSecond_ns;
       o.faults.interval_ns = std::min(o.faults.interval_ns, 1500 * kMillisecond_ns);
       o.faults.local_disk_error = 4;
       o.faults.kill = o.faults.switch_roles = 1;
       o.freeze = o.depth % 8 == 7;
     }},
    // Keys are changed again and again, and now and then something is wrong with a link. (In "mixed"
    // drawn beside any of the others.)
    {"renewal", 0,
     [](Options& o) {
       o.session_lasts = true;
       // Sooner than answers come over a slow link, nothing would ever be answered.
       o.renew_ns = o.depth % 2 == 0 ? 600 * kMillisecond_ns : 2 * kSecond_ns;
       o.peer_timeout_ns = std::max(o.peer_timeout_ns, 2 * kSecond_ns);
       o.faults.link = o.depth % 3;
       o.faults.link_order = o.depth % 4 == 0 ? 2 : 0;
       o.faults.switch_roles = o.depth % 5 == 0 ? 1 : 0;
     }},
    // A primary's process ends again and again, and goes on by itself. (Drawn apart in "mixed".)
    {"resume", 0,
     [](Options& o) {
       o.resume = true;
       o.goes_on = o.depth % 4 == 1;
       o.word_and_kill = o.depth % 4 == 3;
       o.freeze = o.depth % 5 == 0;
       o.faults.interval_ns = std::min(o.faults.interval_ns, 2 * kSecond_ns);
       o.faults.kill = 6;
       o.faults.restart = o.faults.switch_roles = o.faults.reset = o.faults.silence = 1;
       o.faults.slow_disk = o.faults.order = o.faults.link = 1;
       o.faults.power_off = o.faults.hang_disk = o.depth % 2;
       o.faults.peer_disk_error = o.depth % 3 == 1 ? 1 : 0;
       o.faults.local_disk_error = o.depth % 3 == 2 ? 1 : 0;
       o.faults.pause = o.depth % 4 == 3 ? 1 : 0;
       o.faults.swap = o.depth % 8 == 4 ? 1 : 0;
     }},
}};

// --help names each.
constexpr bool is_listed(std::string_view name) {
  std::string_view rest = kModes;
  while (!rest.empty()) {
    const size_t length = std::min(rest.find(' '), rest.size());
    if (rest.substr(0, length) == name) return true;
    rest.remove_prefix(std::min(length + 1, rest.size()));
  }
  return false;
}
static_assert(std::all_of(kModeTable.begin(), kModeTable.end(), [](const Mode& each) { return is_listed(each.name); }));

// Runs of another kind, and their share of "mixed".
constexpr std::array<std::pair<const char*, double>, 8> kBeside{{{"witness", 0.06},
                                                                 {"grow", 0.04},
                                                                 {"rollback", 0.04},
                                                                 {"snapshot", 0.04},
                                                                 {"unread", 0.02},
                                                                 {"confirmed", 0.02},
                                                                 {"far", 0.02},
                                                                 {"sole", 0.02}}};

void vary(Options& o, Random& random) {
  constexpr std::array<uint64_t, 4> kSizes{64 * kKiB, 256 * kKiB, 512 * kKiB, kMiB};
  o.volume_bytes = kSizes[random.below(kSizes.size())];
  if (random.chance(0.3)) o.volume_bytes += 4 * kKiB * random.between(1, 7);
  constexpr std::array<uint32_t, 4> kRegions{64 * kKiB, 64 * kKiB, 128 * kKiB, 4 * kMiB};
  o.region_bytes = kRegions[random.below(kRegions.size())];
  o.write_bytes_max = random.chance(0.5) ? 64 * kKiB : 8 * kKiB;
  o.peer_timeout_ns = random.between(1, 5) * kSecond_ns;
  o.disk_timeout_ns = o.peer_timeout_ns + random.between(1, 8) * kSecond_ns;
  o.faulty_ns = random.spread(4 * kSecond_ns, 20 * kSecond_ns);
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
  // Apart, so that what is drawn above stays what it was.
  Random apart = random;
  if (apart.chance(0.25)) o.compressed_share = apart.unit();
  o.links = apart.chance(0.4) ? 1 : static_cast<unsigned>(apart.between(2, 3));
  o.link_timeout_ns = apart.spread(150 * kMillisecond_ns, 700 * kMillisecond_ns);
  o.hasty = apart.chance(0.3);
  // Of some dozens of blocks, or of more than the volume has.
  if (apart.chance(0.4)) o.cache_bytes = apart.spread(64 * kKiB, 2 * kMiB);
}

}  // namespace

bool make_options(const std::string& mode, Random& random, Options& options) {
  vary(options, random);
  unsigned weights = 0;
  for (const Mode& each : kModeTable) weights += each.weight;
  const uint64_t drawn = random.below(weights);
  // Apart, so that all others are drawn as they always were.
  Random apart = random;
  std::string drawn_apart;
  if (mode == "mixed") {
    if (apart.chance(0.08)) drawn_apart = "resume";
    else if (apart.chance(0.03)) drawn_apart = "late";
    Random copy = random;
    Random beside(~copy.next());
    for (const auto& [name, chance] : kBeside)
      if (drawn_apart.empty() && beside.chance(chance)) drawn_apart = name;
  }
  unsigned below = 0;
  for (const Mode& each : kModeTable) {
    const bool is_drawn = drawn >= below && drawn < below + each.weight;
    below += each.weight;
    const bool meant = mode != "mixed"       ? mode == each.name
                       : drawn_apart.empty() ? is_drawn
                                             : drawn_apart == each.name;
    if (!meant) continue;
    each.apply(options);
    if (mode == "mixed" && options.late_max_ns == 0 && apart.chance(0.1))
      options.renew_ns = apart.spread(600 * kMillisecond_ns, 6 * kSecond_ns);
    return true;
  }
  return false;
}

}  // namespace twinblock::sim
