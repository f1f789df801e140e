// Hosts that have too much to do: both nodes' loops stand still for a while, again and again, so that
// timers and reads come late. Nothing is wrong with the links or with anybody's disk: nothing may be
// taken for lost. What is lost in truth is given up all the same, by as much later as they were late.
#include <algorithm>

#include "report.h"
#include "world.h"

namespace twinblock::sim {
namespace {

// Ticks, trips, and what else goes by no timeout.
constexpr uint64_t kSome_ns = 600 * kMillisecond_ns;
// … of a link, beside which another one carries on.
constexpr uint64_t kTicks_ns = 400 * kMillisecond_ns;

}  // namespace

void World::begin_to_be_late() {
  late_ = true;
  late_max_ns_ = options_.late_max_ns;
  for (const int host : {0, 1}) late_turn(host);
}

void World::late_turn(int host) {
  // Sometimes hardly anything gets done between two times, sometimes a lot.
  const uint64_t busy_ns = random_.spread(3 * kMillisecond_ns, options_.link_timeout_ns);
  scheduler_.after(busy_ns, nullptr, [this, host] {
    if (!late_) return;
    if (!node(host).running() || node(host).paused()) return late_turn(host);
    const uint64_t still_ns = random_.spread(5 * kMillisecond_ns, late_max_ns_);
    if (Report::verbose())
      Report::trace(node(host).name(),
                    "-- stands still for " + std::to_string(still_ns / kMillisecond_ns) + " ms");
    node(host).stand_still();
    scheduler_.after(still_ns, nullptr,
                     [this, host, process = node(host).process()] {
                       if (process->still_since_ns > 0) scheduler_.resume(process);
                       late_turn(host);
                     });
  });
}

void World::check_late_loops() {
  check_parting();
  for (const int host : {0, 1})
    for (const StatusView::Link& link : node(host).engine().status().links)
      if (link.failovers > 0 || link.state != LinkState::kUp)
        Report::violation(node(host).name() + " gave link " + link.name + " up " +
                          std::to_string(link.failovers) + " times, and nothing was wrong with it" +
                          describe());
  // So that the time in which both are there gets on.
  late_max_ns_ = std::min(late_max_ns_, options_.link_timeout_ns / 2);
  if (lanes_.size() > 1) dead_link();
  dead_peer();
  late_ = false;
  for (const auto& each : nodes_)
    if (each->process()->still_since_ns > 0) each->go_on();
}

bool World::gave_up(int host, const std::string& name) {
  const auto links = node(host).engine().status().links;
  return std::any_of(links.begin(), links.end(), [&](const StatusView::Link& link) {
    return link.name == name && link.failovers > 0;
  });
}

// One link dies in silence, in both directions or in one.
void World::dead_link() {
  Lane& lane = lanes_[random_.below(lanes_.size())];
  const uint64_t hosts = random_.between(1, 3);
  if (Report::verbose()) Report::trace("network", "-- link " + lane.name + " dies");
  lane.faulty = true;
  set_silent(lane, {(hosts & 1) != 0, (hosts & 2) != 0});
  const uint64_t began = scheduler_.now_ns();
  const uint64_t late = scheduler_.stood_still_total_ns();
  const auto spent = [&] {
    return scheduler_.now_ns() - began - (scheduler_.stood_still_total_ns() - late);
  };
  const auto noticed = [&] { return gave_up(0, lane.name) || gave_up(1, lane.name); };
  const uint64_t bound = options_.link_timeout_ns + kTicks_ns;
  while (!noticed()) {
    const int64_t left = static_cast<int64_t>(bound) - static_cast<int64_t>(spent());
    if (left < 0)
      Report::violation("link " + lane.name + " is dead, and is not given up" + describe());
    scheduler_.run_until(scheduler_.now_ns() + 10 * kMillisecond_ns);
  }
}

// Then all of them.
void World::dead_peer() {
  session_watched_ = false;
  if (primary_ < 0) return;
  SimNode& at = node(primary_);
  workload().count_trouble();
  if (Report::verbose()) Report::trace("network", "-- all links die");
  for (Lane& lane : lanes_) {
    lane.faulty = true;
    set_silent(lane, {true, true});
  }
  const uint64_t began = scheduler_.now_ns();
  const uint64_t late = scheduler_.stood_still_total_ns();
  while (at.engine().status().peer.connected) {
    const uint64_t now = scheduler_.now_ns();
    if (now - began > options_.peer_timeout_ns + kSome_ns + scheduler_.stood_still_total_ns() - late)
      Report::violation(at.name() + " waits for a dead peer" + describe());
    scheduler_.run_until(now + 10 * kMillisecond_ns);
  }
}

}  // namespace twinblock::sim
