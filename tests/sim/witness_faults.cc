// What happens to two nodes and their witness.
#include <algorithm>
#include <memory>
#include <utility>

#include "report.h"
#include "witnessed.h"

namespace twinblock::sim {

// Blank ones, or some that were taken out before, with the metadata that they had then: the other node
// holds all that was acknowledged.
void Witnessed::swap_disks(int host) {
  const bool half_copied = lives(host) && lives(1 - host) && node(1 - host).engine().is_primary() &&
                           node(host).engine().status().data == DataState::kInconsistent;
  // (A command knows nodes and no generations: it would consent to an old disk.)
  if ((!at_one() && !half_copied) || !swaps_ || config_.witness.kind == WitnessKind::kCommand) return;
  // A claim of the disks that go which the witness still names, though both were together since, would
  // take an operator's word.
  const auto& entry = register_.entry();
  if (!entry || !node(1 - host).engine().status().mine.generations.knows(entry->generation)) return;
  stop(host, false);
  node(host).swap_disks();
  swapped_ = host;
}

void Witnessed::fault() {
  const int host = static_cast<int>(random_.below(2));
  switch (random_.below(12)) {
    case 0:
      stop(host, true);
      break;
    case 1:
      stop(host, false);
      break;
    case 2:
      if (lives(host)) {
        node(host).pause();
        scheduler_.after(random_.spread(50 * kMillisecond_ns, 8 * kSecond_ns), nullptr,
                         [this, host, process = node(host).process()] {
                           if (node(host).process() == process && node(host).paused()) node(host).resume();
                         });
      }
      break;
    case 3:
    case 4:
      network_.set_silent({random_.chance(0.6), random_.chance(0.6)});
      break;
    case 5:
      if (client(host).open) client(host).leaves = true;
      break;
    case 6:
      network_.set_silent({false, false});
      break;
    case 7:
      node(host).metadata().faults.extra_delay_ns =
          random_.chance(0.5) ? 0 : random_.spread(kMillisecond_ns, 300 * kMillisecond_ns);
      break;
    case 8:
      swap_disks(host);
      break;
    case 9:
      word_about_a_dead_peer();
      break;
    default:
      witness_fault();
      break;
  }
}

// It is true: the primary's process has ended. It is back at any moment of what the order takes, and nothing else
// happens until the two have met, nor does it get the witness' consent: who goes on by himself makes it a lie.
void Witnessed::word_about_a_dead_peer() {
  // (A command is told of no word, and has who was given it fenced when the other one is back.)
  if (!at_one() || config_.witness.kind == WitnessKind::kCommand) return;
  network_.set_silent({false, false});
  const auto reached = register_.reached;
  const int dead = node(0).engine().is_primary() ? 0 : 1;
  const int host = 1 - dead;
  register_.reached[static_cast<size_t>(dead)] = false;
  node(host).metadata().faults.extra_delay_ns = random_.spread(10 * kMillisecond_ns, kSecond_ns);
  node(dead).kill();
  gone(dead);
  start_later(dead, 2 * config_.peer_timeout_ns);
  const auto true_still = std::make_shared<bool>(true);
  scheduler_.after(random_.spread(kMillisecond_ns, 2 * config_.peer_timeout_ns), node(host).process(),
                   [this, host, true_still] {
                     may_ask_[static_cast<size_t>(host)] = true;
                     if (*true_still)
                       node(host).engine().orders().promote({true, true}, [](const Result<std::string>&) {});
                   });
  const uint64_t end = scheduler_.now_ns() + kHealingMax_ns;
  do {
    scheduler_.run_until(scheduler_.now_ns() + 20 * kMillisecond_ns);
    look();
  } while (!at_one() && scheduler_.now_ns() < end);
  *true_still = false;
  register_.reached = reached;
}

// Both are there, and so is the witness: the secondary, or the process that follows on it, is promoted as soon as it may be,
// and the primary reads for as long as it may.
void Witnessed::cut_apart(Random& apart) {
  if (!at_one()) return;
  register_.up = true;
  register_.reached = {true, true};
  register_.lost = register_.late = 0;
  network_.set_silent({true, true});
  const int secondary = node(0).engine().is_primary() ? 1 : 0;
  if (apart.chance(0.5)) {
    node(secondary).kill();
    gone(secondary);
    start_later(secondary, 300 * kMillisecond_ns);
  }
  for (const uint64_t end = scheduler_.now_ns() + 6 * kSecond_ns; scheduler_.now_ns() < end; look()) {
    // Beside its clients' writes, none of which is answered.
    const Client& reader = client(1 - secondary);
    if (lives(1 - secondary) && reader.open && !reader.leaves) ask(1 - secondary, ClientOp::kRead);
    scheduler_.run_until(scheduler_.now_ns() + 20 * kMillisecond_ns);
  }
  network_.set_silent({false, false});
}

// Both are there, and so is the witness. The primary's disk stands still, and is back sooner or later, or has failed by then:
// where that takes long, its clients are not kept from the other node for longer than until that is promoted.
void Witnessed::stall_disk(Random& apart) {
  constexpr uint64_t kSettled_ns = 15 * kSecond_ns;
  const auto settled = [this] {
    return at_one() && (config_.witness.kind != WitnessKind::kEtcd || register_is_settled());
  };
  if (!at_one()) return;
  network_.set_silent({false, false});
  register_.up = true;
  register_.reached = {true, true};
  register_.lost = register_.late = fence_.useless = 0;
  for (const int host : {0, 1}) node(host).metadata().faults.extra_delay_ns = 0;
  scheduler_.run_until(scheduler_.now_ns() + kSettled_ns, settled);
  // What was silent until now may still cost the session; a primary that loses it first gets the right to go on.
  const uint64_t peer_timeout_ns = std::max(config_.peer_timeout_ns, other_file_.peer_timeout_ns);
  scheduler_.run_until(scheduler_.now_ns() + peer_timeout_ns + kSecond_ns);
  const int host = settled() && node(0).engine().is_primary() ? 0 : 1;
  if (!settled() || !client(host).open || client(host).leaves) return;
  const uint64_t began_ns = scheduler_.now_ns();
  const ProcessPtr process = node(host).process();
  const uint64_t until_ns = began_ns + apart.spread(kSecond_ns, 60 * kSecond_ns);
  DiskFaults& faults = node(host).data().faults;
  faults.hung_until_ns = until_ns;
  Random end = apart;
  if (end.chance(0.3)) faults.write_error_chance = faults.flush_error_chance = 1;
  faults.half_hangs_for_ns = end.chance(0.5) ? end.spread(kSecond_ns, 60 * kSecond_ns) : 0;
  if (Report::verbose()) Report::trace(node(host).name(), "-- its disk stands still");
  // The promoter's turn and the witness' answer, after the peer has let the primary's reads run out.
  const uint64_t bound_ns = config_.disk_timeout_ns + peer_timeout_ns + 7 * kSecond_ns;
  const auto serves = [this, host] { return lives(1 - host) && node(1 - host).engine().is_primary(); };
  const uint64_t all_back_ns = until_ns + faults.half_hangs_for_ns + kSecond_ns;
  for (bool served = false; scheduler_.now_ns() < all_back_ns; look()) {
    scheduler_.run_until(scheduler_.now_ns() + 20 * kMillisecond_ns);
    if (scheduler_.now_ns() >= until_ns) continue;
    served = served || serves();
    // (A witness that has lost its memory meanwhile consents to nobody; and a process that was fenced may be back before
    // the other node is promoted.)
    const bool is_command = config_.witness.kind == WitnessKind::kCommand;
    const bool may_be_served = is_command ? node(host).process() == process : register_.entry().has_value();
    if (!served && may_be_served && scheduler_.now_ns() - began_ns > bound_ns)
      Report::violation(node(host).name() + "'s disk stands still, and nobody serves in its place" + describe());
  }
  faults.half_hangs_for_ns = 0;  // those that do know it
}

// An operator does, where a primary waits for its peer: the witness is asked from now on.
void Witnessed::let_go_on(Random& apart) {
  const int host = static_cast<int>(apart.below(2));
  if (lives(host)) node(host).engine().orders().go_on_alone(false, [](const Result<std::string>&) {});
}

// Its writes would wait all the same, and the peer could not go on any more.
void Witnessed::check_that_it_waits(int host) {
  const StatusView view = node(host).engine().status();
  const bool has_met = view.peer.silent_ns.has_value();
  if (view.role == Role::kPrimary && !has_met && !may_ask_[static_cast<size_t>(host)])
    Report::violation(node(host).name() + " goes on without its peer, though its clients wait for that" + describe());
}

// How one is taken out of service: host by host, and it is away already. What waited for it goes on.
void Witnessed::without_witness() {
  without_ = true;
  if (config_.witness.kind == WitnessKind::kEtcd) register_.up = false;
  else fence_.useless = 1;
  const int primary = node(0).engine().is_primary() ? 0 : 1;
  for (const int host : {1 - primary, primary}) {
    node(host).kill();
    gone(host);
    node(host).set_config(unwitnessed_);
    const uint64_t until = scheduler_.now_ns() + random_.spread(10 * kMillisecond_ns, 4 * config_.peer_timeout_ns);
    scheduler_.run_until(until);
    start(host);
    const int other = 1 - host;
    const uint64_t end = scheduler_.now_ns() + kHealingMax_ns;
    const uint64_t acknowledged = acknowledged_;
    const uint64_t asked = ids_;
    const auto answered_all = [&] {
      const auto& waiting = client(other).requests;
      return at_one() && acknowledged_ > acknowledged + 5 && (waiting.empty() || waiting.begin()->first > asked);
    };
    scheduler_.run_until(end, answered_all);
    if (!answered_all()) Report::violation("without a witness, what waited for it waits still" + describe());
  }
  register_.up = true;
}

void Witnessed::witness_fault() {
  fence_.useless = random_.chance(0.5) ? 0 : random_.unit();
  switch (random_.below(6)) {
    case 0:
      register_.up = !register_.up;
      break;
    case 1:
      register_.reached = {random_.chance(0.5), random_.chance(0.5)};
      break;
    case 2:
      register_.lost = random_.chance(0.5) ? 0 : 0.6;
      break;
    case 3:
      register_.late = swaps_ || random_.chance(0.5) ? 0 : 0.6;
      break;
    case 4:
      if (swaps_ || random_.chance(0.5)) break;
      // It takes a while to put it up again.
      register_.up = false;
      scheduler_.after(3 * kSecond_ns, nullptr, [this] {
        register_.forget();
        register_.up = true;
      });
      break;
    default:
      register_.up = true;
      register_.reached = {true, true};
      break;
  }
}

}  // namespace twinblock::sim
