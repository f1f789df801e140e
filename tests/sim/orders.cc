// The story of orders that are given at any moment of a split brain: to give up the one side or the
// other, at either node, repeated, contradicting each other; while the loser is connected, away or
// down, while it is primary and writes on, before and after it is promoted or demoted, and with crashes
// in between. Nobody waits for anything.
//
// The rule: what is overwritten, or would be after a crash, was named by an order. All that the loser
// had acknowledged was acknowledged before the giver of that order last heard it say what it holds,
// and it was not promoted since.
#include <cerrno>
#include <utility>

#include "report.h"
#include "world.h"

namespace twinblock::sim {

void World::orders() {
  do {
    const int host = 1 - primary_;
    separate(host);
    diverge(host);
    given_orders_.clear();
    shown_ = {};
    ordering_ = ordered_ = true;
    for (uint64_t turns = random_.between(3, 30); turns > 0 && !met(); --turns) order_turn();
    if (!met()) meet_at_last(random_.chance(0.5) ? host : 1 - host);
    go_on_with_winner();
  } while (random_.chance(0.4));
}

metadata::NodeRecord World::record_of(int host) {
  const auto file = node(host).metadata().contents();
  const auto loaded = metadata::load(metadata::reader_of(file), file.size(), options_.volume_bytes,
                                     node(host).name());
  if (!loaded) Report::violation(node(host).name() + ": " + loaded.error().what);
  return loaded.value().record;
}

// Whether one of the two knows the other's history by now: from then on it is settled who loses.
bool World::met() {
  const std::array<metadata::Generations, 2> now{record_of(0).generations,
                                                 record_of(1).generations};
  return now[0].knows(now[1].current) || now[1].knows(now[0].current) ||
         (node(0).running() && node(0).engine().status().peer.connected) ||
         (node(1).running() && node(1).engine().status().peer.connected);
}

void World::order_turn() {
  apart_generations_ = {record_of(0).generations.current, record_of(1).generations.current};
  const int host = static_cast<int>(random_.below(2));
  switch (random_.below(12)) {
    case 0: {
      const bool silent = random_.chance(0.5);
      network_.set_silent({silent, silent});
      break;
    }
    case 1:
      demote_if_primary(host);
      break;
    case 2:
      if (node(host).running() && !side_of(host).workload.is_open() &&
          !node(host).engine().is_primary())
        try_to_promote_side(host);
      break;
    case 3:
      if (node(host).running()) crash_of(host);
      break;
    case 4:
      for (const int each : {0, 1})
        if (!node(each).running()) revive(each);
      break;
    case 5:
      scheduler_.run_until(scheduler_.now_ns() +
                           random_.spread(10 * kMillisecond_ns, 3 * kSecond_ns));
      break;
    case 6:
      order_before_writes(host);
      break;
    default:
      order_at_any_time(host, random_.chance(0.5));
      break;
  }
  scheduler_.run_until(scheduler_.now_ns() + random_.spread(kMillisecond_ns, 500 * kMillisecond_ns));
}

// A primary says what it holds while its clients rest, the other node is ordered to give that up, and
// then the clients write, several at a time: all of them wait until the order is void.
void World::order_before_writes(int loser) {
  Side& side = side_of(loser);
  if (!side.workload.is_open() || !node(1 - loser).running()) return;
  side.workload.stop();
  wait(
      kAnswerMax_ns, [&] { return side.workload.idle(); }, "answers to all requests");
  const uint64_t rests_ns = scheduler_.now_ns();
  const auto heard_since = [&] {
    const auto heard_ns = node(1 - loser).engine().status().peer.heard_ns;
    return heard_ns && scheduler_.now_ns() - *heard_ns > rests_ns;
  };
  while (!heard_since() && !met() && scheduler_.now_ns() < rests_ns + 3 * kSecond_ns)
    scheduler_.run_until(scheduler_.now_ns() + 20 * kMillisecond_ns);
  order_at_any_time(1 - loser, true);
  DiskFaults& faults = node(loser).metadata().faults;
  faults.extra_delay_ns = 50 * kMillisecond_ns;
  scheduler_.run_until(scheduler_.now_ns() + random_.spread(kMillisecond_ns, kSecond_ns));
  side.workload.go_on();
  side.workload.burst();
  scheduler_.run_until(scheduler_.now_ns() + 100 * kMillisecond_ns);
  faults.extra_delay_ns = 0;
}

// Taken or not: it is all the same to the operator.
void World::order_at_any_time(int host, bool keep_local) {
  if (!node(host).running()) return;
  Engine& engine = node(host).engine();
  const auto trace = [host, this](const Result<std::string>& said) {
    if (Report::verbose())
      Report::trace(node(host).name(), said ? "is told: " + said.value()
                                            : "refuses: " + said.error().what);
  };
  const auto heard_ns = engine.status().peer.heard_ns;
  const uint64_t now = scheduler_.now_ns();
  // What it holds itself it knows.
  const uint64_t known_ns = !keep_local ? now : heard_ns ? now - *heard_ns : 0;
  Shown& shown = shown_.at(static_cast<size_t>(host)).at(keep_local ? 1 : 0);
  if (shown.process != node(host).process()) shown = {};
  if (random_.chance(0.3))
    engine.orders().resolve(keep_local, true, [&](const Result<std::string>& said) {
      trace(said);
      if (said) shown = {node(host).process(), known_ns};
    });
  if (known_ns > 0) given_orders_.push_back({keep_local ? 1 - host : host, known_ns});
  engine.orders().resolve(keep_local, false, [=, this](const Result<std::string>& said) {
    trace(said);
    check_shown(host, keep_local, known_ns, said);
  });
}

// An order does not take more than what its giver was shown before, if he looked: else it is refused, and
// he is shown that. (The last moments count for neither: what is heard was said a little earlier.)
void World::check_shown(int giver, bool keep_local, uint64_t known_ns,
                        const Result<std::string>& said) {
  const uint64_t on_its_way_ns = keep_local ? 500 * kMillisecond_ns : 0;
  Shown& shown = shown_.at(static_cast<size_t>(giver)).at(keep_local ? 1 : 0);
  if (shown.process == nullptr || shown.process != node(giver).process()) return;
  if (!said) {
    if (said.error().code == EAGAIN) shown.known_ns = known_ns;
    return;
  }
  const uint64_t last_ns = side_of(keep_local ? 1 - giver : giver).history.last_acknowledged_ns();
  if (last_ns > shown.known_ns && last_ns + on_its_way_ns < known_ns)
    Report::violation("an order at " + node(giver).name() + " takes what was acknowledged at " +
                      std::to_string(last_ns) + " ns, but it was shown what there was at " +
                      std::to_string(shown.known_ns) + " ns" + describe());
}

void World::demote_if_primary(int host) {
  if (!node(host).running() || !node(host).engine().is_primary()) return;
  demote_loser(host);
}

// What the guide says: the loser is demoted first, then its writes are given up.
void World::meet_at_last(int winner) {
  if (Report::verbose()) Report::trace("operator", "-- ends it for " + node(winner).name());
  network_.set_silent({false, false});
  for (const int each : {0, 1})
    if (!node(each).running()) revive(each);
  demote_if_primary(1 - winner);
  const uint64_t end_ns = scheduler_.now_ns() + kHealingMax_ns;
  while (!met()) {
    if (scheduler_.now_ns() > end_ns)
      Report::violation("orders after a demotion do not end a split brain" + describe());
    apart_generations_ = {record_of(0).generations.current, record_of(1).generations.current};
    for (const int each : {0, 1})
      if (!met()) order_at_any_time(each, each == winner);
    scheduler_.run_until(scheduler_.now_ns() + 500 * kMillisecond_ns);
  }
}

void World::go_on_with_winner() {
  network_.set_silent({false, false});
  for (const int each : {0, 1})
    if (!node(each).running()) revive(each);
  const auto connected = [this](int host) {
    return node(host).engine().status().peer.connected;
  };
  const auto together = [&] { return connected(0) && connected(1); };
  const auto settle = [&] {
    const uint64_t patience_ns = scheduler_.now_ns() + 5 * kSecond_ns;
    const auto apart = [&] {
      return scheduler_.now_ns() > patience_ns && says_split_brain(0) && says_split_brain(1);
    };
    wait(
        kHealingMax_ns, [&] { return together() || apart(); }, "a session after an order");
  };
  settle();
  // One node may have had a session for a moment, while the other one was promoted, which made the order void.
  const uint64_t end_ns = scheduler_.now_ns() + kHealingMax_ns;
  while (!together()) {
    if (scheduler_.now_ns() > end_ns) Report::violation("each order to end a split brain becomes void" + describe());
    meet_at_last(random_.chance(0.5) ? 0 : 1);
    settle();
  }
  wait(
      kHealingMax_ns,
      [&] {
        const VolumeState a = node(0).engine().volume_state(), b = node(1).engine().volume_state();
        return a == b && (a == VolumeState::kConnected || a == VolumeState::kDuplex);
      },
      "the end of the resync after an order");
  const metadata::Generations now = record_of(0).generations;
  const int winner = now.knows(apart_generations_[0]) ? 0 : 1;
  if (now.knows(apart_generations_[0]) && now.knows(apart_generations_[1]))
    Report::violation("nobody knows who lost" + describe());
  check_loss(1 - winner, "an order was carried out");
  if (!node(winner).engine().is_primary()) promote_side(winner);
  wait(
      kHealingMax_ns, [this] { return both_duplex(); }, "duplex after orders");
  if (winner == split_host_) std::swap(side_, other_side_);
  past_sides_.push_back(std::move(other_side_));
  split_host_ = -1;
  diverged_ = ordered_ = ordering_ = resolving_ = false;
  primary_ = winner;
  current_ = {true, true};
  intact_ = {true, true};
  knows_primary_ = left_behind_ = {};
}

void World::check_loss(int loser, const std::string& story) {
  const Side& side = side_of(loser);
  for (const GivenOrder& each : given_orders_)
    if (each.loser == loser && side.history.last_acknowledged_ns() <= each.heard_ns &&
        side.promoted_ns <= each.heard_ns)
      return;
  Report::violation(story + ", and " + node(loser).name() +
                    "'s writes would be given up without an order that names them: the last one was "
                    "acknowledged at " +
                    std::to_string(side.history.last_acknowledged_ns()) +
                    " ns, and it was promoted at " + std::to_string(side.promoted_ns) + " ns" +
                    describe());
}

}  // namespace twinblock::sim
