// The story of an operator who says that the peer is dead while it only can't be reached: two
// primaries, each with clients and a history of its own; nodes that crash meanwhile; a pair that
// refuses to come together, and says why, until somebody orders whose writes are given up.
#include <utility>

#include "control/status_words.h"
#include "report.h"
#include "world.h"

namespace twinblock::sim {

// More than once: an order is about one of them only.
void World::split_brain() {
  do {
    const int host = 1 - primary_;
    separate(host);
    diverge(host);
    see_split_brain();
    resolve(random_.chance(0.5) ? host : 1 - host);
    wait(
        kHealingMax_ns, [this] { return settled(); }, "duplex");
  } while (random_.chance(0.4));
}

// The network falls silent; the secondary is promoted on the operator's false word.
void World::separate(int host) {
  if (Report::verbose()) Report::trace("operator", "-- a split brain begins");
  network_.set_silent({true, true});
  split_host_ = host;
  other_side_ = std::make_unique<Side>(*this, history(), random_.fork());
  other_side_->history.branch(random_.next());
  wait(
      kHealingMax_ns, [&] { return !node(host).engine().status().peer.connected; },
      "the loss of the session");
  promote_side(host);
}

bool World::try_to_promote_side(int host) {
  Side& side = side_of(host);
  bool answered = false;
  bool primary = false;
  node(host).engine().orders().promote(true, [&](const Result<std::string>& result) {
    answered = true;
    primary = result.ok();
    // (Before anybody waits for it: the peer may hear of it within a millisecond.)
    if (primary) side.promoted_ns = scheduler_.now_ns();
    if (!result && Report::verbose()) Report::trace("operator", "refused: " + result.error().what);
  });
  wait(
      kHealingMax_ns, [&] { return answered; }, "the answer to a promotion");
  if (!primary) return false;
  if (std::exchange(side.unflushed_lost, false))
    side.history.unflushed_lost(scheduler_.now_ns());
  else
    side.history.failed_over(scheduler_.now_ns());
  if (ordering_) check_crash();  // before anything is written
  side.workload.open(node(host));
  return true;
}

// The operator insists.
void World::promote_side(int host) {
  while (!try_to_promote_side(host))
    scheduler_.run_until(scheduler_.now_ns() + 300 * kMillisecond_ns);
}

// Both accept writes, also through crashes, until each has some that the other lacks.
void World::diverge(int host) {
  const auto alone = [&](int each) {
    Engine& engine = node(each).engine();
    const VolumeState state = engine.status().state;
    if (state == VolumeState::kFrozen)
      engine.orders().go_on_alone(false, [](const Result<std::string>&) {});
    return state == VolumeState::kSimplex || state == VolumeState::kRefused;
  };
  wait(
      kHealingMax_ns, [&] { return alone(host) && alone(1 - host); }, "two primaries on their own");
  std::array<uint64_t, 2> writes{side_of(0).workload.writes_total(),
                                 side_of(1).workload.writes_total()};
  scheduler_.run_until(scheduler_.now_ns() + random_.spread(50 * kMillisecond_ns, 3 * kSecond_ns));
  for (int turns = static_cast<int>(random_.below(3)); turns > 0; --turns) {
    const int crashing = static_cast<int>(random_.below(2));
    crash_of(crashing);
    scheduler_.run_until(scheduler_.now_ns() + random_.spread(kMillisecond_ns, kSecond_ns));
    revive(crashing);
    promote_side(crashing);
    wait(
        kHealingMax_ns, [&] { return alone(crashing); }, "a primary on its own");
  }
  for (const int each : {0, 1})
    wait(
        kHealingMax_ns,
        [&, each] {
          return side_of(each).workload.writes_total() > writes[static_cast<size_t>(each)];
        },
        "a write of each side");
  diverged_ = true;
}

void World::crash_of(int host) {
  const bool power = random_.chance(0.5);
  check_now();
  Side& side = side_of(host);
  if (power)
    node(host).power_off();
  else
    node(host).kill();
  side.workload.abandon();
  side.unflushed_lost = side.unflushed_lost || power;
}

void World::revive(int host) {
  node(host).power_on();
  // The init system may have been quicker.
  if (!node(host).running()) node(host).start();
}

bool World::says_split_brain(int host) {
  const StatusView view = node(host).engine().status();
  return view.state == VolumeState::kRefused &&
         status_words(view).status.find("split brain") != std::string::npos;
}

// Once they can hear each other, both must say so, and both must go on serving what they have.
void World::see_split_brain() {
  network_.set_silent({false, false});
  wait(
      kHealingMax_ns, [this] { return says_split_brain(0) && says_split_brain(1); },
      "both sides to see the split brain");
  const std::array<uint64_t, 2> writes{side_of(0).workload.writes_total(),
                                       side_of(1).workload.writes_total()};
  for (const int host : {0, 1})
    wait(
        kHealingMax_ns,
        [&, host] {
          return side_of(host).workload.writes_total() > writes[static_cast<size_t>(host)];
        },
        "writes in spite of the split brain");
  for (const int host : {0, 1}) {
    if (status_words(node(host).engine().status()).status.find("order") != std::string::npos)
      Report::violation("an order is remembered that was about another split brain" + describe());
    const std::string before = metadata_in_words(host);
    OperatorOrders& orders = node(host).engine().orders();
    orders.resolve(random_.chance(0.5), true, [this](const Result<std::string>& said) {
      if (!said) Report::violation("resolve --dry-run: " + said.error().what + describe());
    });
    if (metadata_in_words(host) != before)
      Report::violation("a dry run changed something" + describe());
    if (!node(host).engine().is_primary())
      Report::violation(node(host).name() + " does not serve any more" + describe());
  }
}

// The record, as far as a dry run must leave it alone.
std::string World::metadata_in_words(int host) {
  const auto file = node(host).metadata().contents();
  const auto loaded = metadata::load(metadata::reader_of(file), file.size(), options_.volume_bytes,
                                     node(host).name());
  if (!loaded) Report::violation(node(host).name() + ": " + loaded.error().what);
  const metadata::NodeRecord& record = loaded.value().record;
  return metadata::format_generation(record.generations.current) + (record.keep ? " keep" : "") +
         (record.discard ? " discard" : "");
}

void World::demote_loser(int host) {
  Side& side = side_of(host);
  if (side.workload.is_open()) {
    side.workload.stop();
    wait(
        kHealingMax_ns, [&] { return side.workload.idle(); }, "answers to all requests");
    side.workload.close();
  }
  bool demoted = false;
  node(host).engine().orders().demote([&](const Result<std::string>& result) {
    if (!result) Report::violation("demotion fails: " + result.error().what + describe());
    demoted = true;
  });
  wait(
      kHealingMax_ns, [&] { return demoted; }, "a demotion");
}

// Given until it is taken, or no longer needed: a node that has just crashed does not know of the
// split brain yet.
void World::order(int host, bool keep_local) {
  const auto connected = [this] {
    return node(0).engine().status().peer.connected && node(1).engine().status().peer.connected;
  };
  bool taken = false;
  while (!taken && !connected()) {
    wait(
        kHealingMax_ns,
        [&] { return (says_split_brain(0) && says_split_brain(1)) || connected(); },
        "both sides to see the split brain");
    if (connected()) return;
    ordered_ = true;
    bool answered = false;
    node(host).engine().orders().resolve(keep_local, false, [&](const Result<std::string>& said) {
      answered = true;
      taken = said.ok();
    });
    wait(
        kHealingMax_ns, [&] { return answered; }, "the answer to an order");
  }
}

// Orders that contradict each other give up nobody's writes.
void World::contradict(int winner) {
  order(winner, true);
  order(1 - winner, true);
  scheduler_.run_until(scheduler_.now_ns() + 5 * kSecond_ns);
  if (!says_split_brain(0) || !says_split_brain(1))
    Report::violation("orders that contradict each other were carried out" + describe());
}

void World::resolve(int winner) {
  const int loser = 1 - winner;
  if (Report::verbose()) Report::trace("operator", "-- keeps " + node(winner).name() + "'s writes");
  const bool contradicted = random_.chance(0.2);
  if (contradicted) contradict(winner);
  node(loser).engine().orders().resolve(false, false, [this](const Result<std::string>& said) {
    if (said) Report::violation("a primary gave its own writes up" + describe());
  });
  // The order of the one that was told to keep its own is to be taken back there.
  const bool demoted_first = contradicted || random_.chance(0.5);
  if (demoted_first) {
    demote_loser(loser);
    scheduler_.run_until(scheduler_.now_ns() + 3 * kSecond_ns);
  }
  const bool at_loser = contradicted || (demoted_first && random_.chance(0.5));
  resolving_ = demoted_first;
  order(at_loser ? loser : winner, !at_loser);
  if (!demoted_first) {
    scheduler_.run_until(scheduler_.now_ns() + random_.below(3 * kSecond_ns));
    if (!says_split_brain(loser))
      Report::violation("a primary's writes were given up while it serves them" + describe());
    resolving_ = true;
    demote_loser(loser);
    // What it wrote since the order was given has made that void; how it is now is heard first.
    scheduler_.run_until(scheduler_.now_ns() + 3 * kSecond_ns);
    order(winner, true);
  }
  for (int turns = static_cast<int>(random_.below(3)); turns > 0; --turns) {
    scheduler_.run_until(scheduler_.now_ns() + random_.spread(kMillisecond_ns, 2 * kSecond_ns));
    const int crashing = static_cast<int>(random_.below(2));
    crash_of(crashing);
    scheduler_.run_until(scheduler_.now_ns() + random_.spread(kMillisecond_ns, kSecond_ns));
    revive(crashing);
    if (crashing == winner) promote_side(winner);
  }
  wait(
      kHealingMax_ns, [this] { return both_duplex(); }, "duplex after the order");
  if (winner == split_host_) std::swap(side_, other_side_);
  past_sides_.push_back(std::move(other_side_));
  split_host_ = -1;
  diverged_ = ordered_ = resolving_ = false;
  primary_ = winner;
  current_ = {true, true};
  intact_ = {true, true};
  knows_primary_ = left_behind_ = {};
}

}  // namespace twinblock::sim
