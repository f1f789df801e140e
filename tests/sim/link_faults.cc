// Faults of single links, the operator's orders about them, and what is promised while one lives.
#include <algorithm>
#include <array>
#include <utility>

#include "control/status_words.h"
#include "report.h"
#include "world.h"

namespace twinblock::sim {
namespace {

// Bytes that a fault held back have arrived by then.
constexpr uint64_t kArrival_ns = 1100 * kMillisecond_ns;

const StatusView::Link* find(const StatusView& view, const std::string& name) {
  for (const StatusView::Link& link : view.links)
    if (link.name == name) return &link;
  return nullptr;
}

// What a host may have under way where the rate is limited: a queue that no heartbeat can pass.
uint64_t window_of(uint64_t bytes_per_s) { return std::max(bytes_per_s / 20, 16 * kKiB); }

const char* order_word(LinkOrder order) {
  constexpr std::array<const char*, 4> kWords{"add", "remove", "enable", "disable"};
  return kWords.at(static_cast<size_t>(order));
}

std::string at_hosts(const std::array<bool, 2>& at) {
  return at[0] && at[1] ? "both" : at[0] ? "alpha" : "beta";
}

}  // namespace

void World::make_lanes() {
  for (const LinkConfig& link : config_.links) {
    Lane lane;
    lane.name = link.name;
    // Hosts that are late have links that are not.
    if (!lanes_.empty() && random_.chance(0.3) && options_.late_max_ns == 0) {
      lane.usual.delay_max_ns = random_.spread(3 * kMillisecond_ns, options_.link_timeout_ns / 8);
      lane.usual.bytes_per_s = random_.spread(kMiB, 16 * kMiB);
      lane.usual.window_max_bytes = window_of(lane.usual.bytes_per_s);
      clogged_until_ns_ = ~uint64_t{0};
      network_.set_faults(lane.name, lane.usual);
    }
    lanes_.push_back(lane);
  }
}

// Whether both nodes use the link just now.
bool World::lane_up(const Lane& lane) {
  for (const auto& each : nodes_) {
    if (!each->running()) return false;
    const StatusView view = each->engine().status();
    const StatusView::Link* link = find(view, lane.name);
    if (link == nullptr || link->state != LinkState::kUp) return false;
  }
  return true;
}

// Whether the session may be expected to go on without this one.
bool World::others_carry(const Lane& lane) {
  const uint64_t now = scheduler_.now_ns();
  return std::any_of(lanes_.begin(), lanes_.end(), [&](const Lane& other) {
    if (&other == &lane || other.faulty || other.away) return false;
    return now > other.well_since_ns + kArrival_ns && (options_.hasty || lane_up(other));
  });
}

void World::link_fault() {
  Lane& lane = lanes_[random_.below(lanes_.size())];
  if (lane.faulty || lane.away) return;
  const uint64_t hosts = random_.between(1, 3);
  const std::array<bool, 2> at{(hosts & 1) != 0, (hosts & 2) != 0};
  const bool last = options_.session_lasts && !others_carry(lane);
  LinkFaults faults = lane.usual;
  std::string what;
  switch (last ? 0 : random_.below(7)) {
    case 0:  // it can be dialled again at once
      if (last && (!lane_up(lane) || scheduler_.now_ns() < lane.well_since_ns + kArrival_ns))
        return;
      lane.well_since_ns = scheduler_.now_ns();
      if (Report::verbose())
        Report::trace("network", "-- link " + lane.name + ": reset at " + at_hosts(at));
      network_.reset(lane.name, at);
      return;
    case 1:
    case 2:
      faults.cut = at;
      what = "cut, known to " + at_hosts(at);
      break;
    case 3:
    case 4:
      faults.silent = at;
      what = "silent from " + at_hosts(at);
      break;
    case 5:
      faults.delay_max_ns = random_.spread(5 * kMillisecond_ns, 300 * kMillisecond_ns);
      faults.window_max_bytes = random_.spread(kKiB, 256 * kKiB);
      if (random_.chance(0.5)) {
        faults.bytes_per_s = random_.spread(256 * kKiB, 4 * kMiB);
        faults.window_max_bytes = std::min(faults.window_max_bytes, window_of(faults.bytes_per_s));
      }
      clogged_until_ns_ = std::max(clogged_until_ns_, scheduler_.now_ns());
      lane.clogged = true;
      what = "clogged";
      break;
    default:
      lane.faulty = true;
      flap(lane, at, random_.between(2, 12));
      return;
  }
  if (Report::verbose()) Report::trace("network", "-- link " + lane.name + ": " + what);
  lane.faulty = true;
  network_.set_faults(lane.name, faults);
  scheduler_.after(
      random_.spread(10 * kMillisecond_ns, std::max(options_.absence_ns, 8 * kSecond_ns)), nullptr,
      [this, &lane] { mend(lane); });
}

// Both nodes' operators do, one soon after the other, or only one of them.
void World::renew_turn() {
  scheduler_.after(renewals_.spread(options_.renew_ns / 4, options_.renew_ns * 4), nullptr, [this] {
    if (!faults_on_) return;
    const uint64_t hosts = renewals_.between(1, 3);
    for (const int host : {0, 1})
      if ((hosts >> host & 1) != 0 && node(host).running() && !node(host).paused()) {
        if (Report::verbose()) Report::trace("operator", "-- " + node(host).name() + " renews links");
        node(host).engine().orders().renew_links();
      }
    renew_turn();
  });
}

void World::mend(Lane& lane) {
  if (!lane.faulty) return;
  if (Report::verbose()) Report::trace("network", "-- link " + lane.name + ": well");
  if (std::exchange(lane.clogged, false))
    clogged_until_ns_ = std::max(clogged_until_ns_, scheduler_.now_ns() + kArrival_ns);
  lane.faulty = false;
  lane.well_since_ns = scheduler_.now_ns();
  network_.set_faults(lane.name, lane.usual);
}

void World::flap(Lane& lane, const std::array<bool, 2>& at, uint64_t turns) {
  if (!lane.faulty) return;  // all were mended meanwhile
  if (turns == 0) {
    mend(lane);
    return;
  }
  LinkFaults faults = lane.usual;
  if (turns % 2 == 0) {
    if (Report::verbose())
      Report::trace("network", "-- link " + lane.name + ": flaps, known to " + at_hosts(at));
    faults.cut = at;
    workload().count_trouble();
  }
  network_.set_faults(lane.name, faults);
  scheduler_.after(random_.spread(kMillisecond_ns, 500 * kMillisecond_ns), nullptr,
                   [this, &lane, at, turns] { flap(lane, at, turns - 1); });
}

// All links at once, and not for long: nobody may have given the session up when they are back.
void World::blackout() {
  constexpr uint64_t kReturn_ns = kArrival_ns + 2 * kSecond_ns;
  if (options_.peer_timeout_ns < options_.link_timeout_ns + kReturn_ns) return;
  if (scheduler_.now_ns() < stranger_until_ns_) return;
  for (const Lane& lane : lanes_)
    if (lane.faulty || lane.away || !lane_up(lane)) return;
  for (Lane& lane : lanes_) lane.well_since_ns = scheduler_.now_ns() + kReturn_ns;
  silence(options_.link_timeout_ns);
}

// While all is well on the link: what a stranger does to a session that is in trouble anyway is
// not told from the trouble.
void World::stranger(Random& chances) {
  Lane& lane = lanes_[chances.below(lanes_.size())];
  const int host = static_cast<int>(chances.below(2));
  if (lane.faulty || lane.away) return;
  const uint64_t now = scheduler_.now_ns();
  bool came = false;
  switch (chances.below(3)) {
    case 0:
      came = network_.replay(lane.name, host);
      break;
    case 1:
      // In place of a link that is missing, it would keep it missing for a while.
      came = !options_.session_lasts && network_.answer_with_recording(lane.name, host);
      break;
    default:
      // Who has too much to do to answer is taken for dead when somebody says hello in its name.
      if (!session_watched_ || late_ || options_.hasty || now < lane.well_since_ns + kSecond_ns) return;
      stranger_until_ns_ = now + kSecond_ns;
      came = network_.say_hello(lane.name, host);
      break;
  }
  if (came && Report::verbose())
    Report::trace("network",
                  "-- link " + lane.name + ": a stranger speaks to " + node(host).name());
}

void World::set_silent(const Lane& lane, const std::array<bool, 2>& at) {
  LinkFaults faults = lane.usual;
  faults.silent = at;
  network_.set_faults(lane.name, faults);
}

// All links go silent, first in the direction of the secondary only. The primary goes on alone when
// it has not been heard for as long as the peer timeout, although it has heard the peer since.
void World::silence_in_steps() {
  const auto silence = [this](const std::array<bool, 2>& silent) {
    for (const Lane& lane : lanes_) set_silent(lane, silent);
  };
  const uint64_t began = scheduler_.now_ns();
  const uint64_t timeout = options_.peer_timeout_ns;
  workload().count_trouble();
  silence({primary_ == 0, primary_ == 1});
  scheduler_.run_until(began + random_.between(timeout / 2, timeout * 9 / 10));
  silence({true, true});
  scheduler_.run_until(began + timeout + 500 * kMillisecond_ns);
  if (node(primary_).engine().status().peer.connected)
    Report::violation(node(primary_).name() + " waits for a peer that does not hear it" +
                      describe());
  silence({false, false});
  wait(
      kHealingMax_ns, [this] { return settled(); }, "duplex after a silence");
}

// Links that come up again and again, carry what nodes say of themselves and small writes perhaps, and break with
// more. No client waits for that without end: the primary goes on alone.
void World::fraying_links() {
  constexpr uint64_t kLittle_bytes = 2 * kKiB;
  constexpr uint64_t kLonger_ns = 2 * kSecond_ns;  // than the peer timeout: who counts as lost is looked for, and told
  constexpr uint64_t kFrays_ns = 10 * kSecond_ns;
  workload().count_trouble();
  for (const Lane& lane : lanes_) {
    LinkFaults faults = lane.usual;
    faults.bytes_max = kLittle_bytes;
    network_.set_faults(lane.name, faults);
  }
  const uint64_t began = scheduler_.now_ns();
  const uint64_t timeout_ns = options_.peer_timeout_ns;
  uint64_t answers = workload().answers_total(), answered_ns = began;
  while (scheduler_.now_ns() < began + timeout_ns + kFrays_ns) {
    scheduler_.run_until(scheduler_.now_ns() + 50 * kMillisecond_ns);
    const uint64_t now = scheduler_.now_ns();
    if (const uint64_t all = workload().answers_total(); std::exchange(answers, all) != all) answered_ns = now;
    // One that waits may have begun beside an earlier fault, or wait for one before it over the same blocks, which got
    // through at the last moment: then it has its own time after that.
    const uint64_t waits_ns = std::min(workload().longest_wait_ns(), now - began);
    if (std::min(waits_ns, now - answered_ns) > timeout_ns + kLonger_ns || waits_ns > 2 * timeout_ns + kLonger_ns)
      Report::violation("a client has waited " + std::to_string(waits_ns / kMillisecond_ns) +
                        " ms beside links that carry no data" + describe());
  }
  for (const Lane& lane : lanes_) network_.set_faults(lane.name, lane.usual);
  wait(
      kHealingMax_ns, [this] { return settled(); }, "duplex after links that frayed");
}

void World::link_order() {
  const int host = static_cast<int>(random_.below(2));
  Lane& lane = lanes_[random_.below(lanes_.size())];
  // Apart, so that runs without contradictions stay what they were.
  Random apart = random_;
  if (Random chances = apart.fork(); chances.chance(0.3) && contradict(lane, host, chances)) return;
  if (!node(host).running() || node(host).paused()) return;
  const auto ignore = [](const Result<std::string>&) {};
  if (random_.chance(0.2)) {  // what changes nothing
    LinkConfig link;
    link.name = random_.chance(0.5) ? lane.name : "unknown";
    const bool known = link.name == lane.name;
    if (known && lane.away) return;
    node(host).engine().orders().change_link(
        known ? random_.chance(0.5) ? LinkOrder::kAdd : LinkOrder::kEnable
        : random_.chance(0.5) ? LinkOrder::kRemove
                              : LinkOrder::kDisable,
        link, ignore);
    return;
  }
  if (lane.away || lanes_.size() < 2 || (options_.session_lasts && !others_carry(lane))) return;
  const bool removed = random_.chance(0.5);
  lane.away = true;
  order_link(host, lane, removed ? LinkOrder::kRemove : LinkOrder::kDisable);
  scheduler_.after(random_.spread(10 * kMillisecond_ns, 5 * kSecond_ns), nullptr,
                   [this, &lane] { bring_back(lane); });
}

void World::order_link(int host, const Lane& lane, LinkOrder order, bool addressed) {
  LinkConfig link{lane.name, {}, 0};
  if (addressed)
    link = *std::find_if(config_.links.begin(), config_.links.end(),
                         [&](const LinkConfig& each) { return each.name == lane.name; });
  if (Report::verbose())
    Report::trace("operator", std::string(order_word(order)) + " link " + lane.name + " at " +
                                  node(host).name());
  node(host).engine().orders().change_link(order, link, [](const Result<std::string>& result) {
    if (!result && Report::verbose()) Report::trace("operator", "refused: " + result.error().what);
  });
}

// Two operators who do not know of each other: one order at each node, at once, that can't both
// hold. False: it is not possible just now.
bool World::contradict(Lane& lane, int host, Random& chances) {
  if (lane.away || lanes_.size() < 2 || (options_.session_lasts && !others_carry(lane)))
    return false;
  for (const auto& each : nodes_)
    if (!each->running() || each->paused()) return false;
  using enum LinkOrder;
  constexpr std::array<std::pair<LinkOrder, LinkOrder>, 3> kPairs{
      {{kDisable, kEnable}, {kRemove, kEnable}, {kRemove, kDisable}}};
  const auto [one, other] = kPairs.at(chances.below(kPairs.size()));
  lane.away = lane.contradicted = true;
  order_link(host, lane, one);
  order_link(1 - host, lane, other);
  scheduler_.after(chances.spread(10 * kMillisecond_ns, 5 * kSecond_ns), nullptr,
                   [this, &lane] { bring_back(lane); });
  return true;
}

// Whether both nodes say the same of it: that they use it, that it is disabled, or that there is
// none.
bool World::agreed(const Lane& lane) {
  std::array<int, 2> words{};
  for (const int host : {0, 1}) {
    if (!node(host).running() || node(host).paused()) return false;
    const StatusView view = node(host).engine().status();
    const StatusView::Link* link = find(view, lane.name);
    words.at(static_cast<size_t>(host)) = link == nullptr ? 0 : link->state == LinkState::kDisabled ? 1 : 2;
  }
  return words[0] == words[1];
}

// Whether a node's status says that the peer does not follow its order about the link: then the two
// will not agree by themselves.
bool World::parted(const Lane& lane) {
  for (const int host : {0, 1})
    if (node(host).running() && !node(host).paused() &&
        status_words(node(host).engine().status()).status.find("refuses that link " + lane.name + " is") !=
            std::string::npos)
      return true;
  return false;
}

// Added or enabled until both nodes have it, once they agree, or say that they do not.
void World::bring_back(Lane& lane) {
  lane.contradicted = lane.contradicted && !agreed(lane) && !parted(lane);
  if (lane.contradicted) {
    scheduler_.after(200 * kMillisecond_ns, nullptr, [this, &lane] { bring_back(lane); });
    return;
  }
  const int first = static_cast<int>(random_.below(2));
  bool complete = true;
  for (const int host : {first, 1 - first}) {
    if (!node(host).running() || node(host).paused()) {
      complete = false;
      continue;
    }
    const StatusView view = node(host).engine().status();
    const StatusView::Link* link = find(view, lane.name);
    if (link != nullptr && link->state != LinkState::kDisabled) continue;
    order_link(host, lane, link == nullptr ? LinkOrder::kAdd : LinkOrder::kEnable,
               random_.chance(0.5));
    complete = false;
    break;
  }
  if (complete) {
    lane.away = false;
    lane.well_since_ns = std::max(lane.well_since_ns, scheduler_.now_ns());
    return;
  }
  scheduler_.after(random_.spread(100 * kMillisecond_ns, kSecond_ns), nullptr,
                   [this, &lane] { bring_back(lane); });
}

// From now on the session may not be lost.
void World::watch_session() {
  wait(
      kHealingMax_ns,
      [this] {
        return settled() && std::all_of(lanes_.begin(), lanes_.end(),
                                        [this](const Lane& lane) { return lane_up(lane); });
      },
      "all links");
  for (const int host : {0, 1}) before_[static_cast<size_t>(host)] = node(host).engine().status();
  session_watched_ = true;
}

// While one link lives the two nodes are not parted, and nothing has to be copied.
void World::check_session() {
  if (!session_watched_) return;
  for (const auto& each : nodes_) {
    const VolumeState state = each->engine().volume_state();
    const bool promoting = promoting_ && state == VolumeState::kConnecting;
    if (state != VolumeState::kDuplex && state != VolumeState::kConnected && !promoting)
      Report::violation(each->name() + " is " + state_name(state) + " although a link lives" +
                        describe());
  }
}

// … nor have been meanwhile.
void World::check_parting() {
  if (!session_watched_) return;
  check_session();
  for (const int host : {0, 1}) {
    const StatusView now = node(host).engine().status();
    const StatusView& before = before_[static_cast<size_t>(host)];
    if (!now.peer.connected || now.peer_losses != before.peer_losses ||
        now.resync_bytes != before.resync_bytes)
      Report::violation(node(host).name() + " lost its peer although a link lives, and copied " +
                        std::to_string(now.resync_bytes - before.resync_bytes) + " bytes" +
                        describe());
  }
}

// A link that is well is used again without anybody's doing.
void World::check_links_return() {
  for (const Lane& lane : lanes_)
    wait(
        kHealingMax_ns, [&] { return !lane.away && lane_up(lane); }, ("link " + lane.name).c_str());
}

}  // namespace twinblock::sim
