// The faults of the simulated pair.
#include <algorithm>
#include <array>
#include <cerrno>

#include "report.h"
#include "world.h"

namespace twinblock::sim {

void World::fault_turn() {
  scheduler_.after(
      random_.spread(options_.faults.interval_ns / 10 + 1, options_.faults.interval_ns * 3),
      nullptr, [this] {
        if (!faults_on_) return;
        if (dead_disk_host_ < 0)
          inject();
        else if (options_.diskless_ns > 0 && !dead_is_metadata_)
          trouble_beside_dead_disk();
        // Apart, so that who draws after it draws the same.
        Random apart = random_;
        if (Random chances = apart.fork(); chances.chance(0.2)) stranger(chances);
        fault_turn();
      });
}

void World::inject() {
  look();
  const FaultPlan& plan = options_.faults;
  const int host = static_cast<int>(random_.below(2));
  const std::array<std::pair<unsigned, std::function<void()>>, 18> kinds{{
      {plan.kill, [&] { kill(host); }},
      {plan.power_off,
       [&] {
         const bool both = random_.chance(0.3);
         power_off(host);
         if (both) power_off(1 - host);
       }},
      {plan.pause, [&] { pause(host); }},
      {plan.reset, [&] { network_.reset_all(); }},
      {plan.silence, [&] { silence(std::max(options_.absence_ns, 12 * kSecond_ns)); }},
      {plan.slow_disk,
       [&] {
         // A record that takes longer than the peer timeout costs the session.
         const bool data = random_.chance(0.75) || options_.session_lasts;
         VirtualDisk& disk = data ? node(host).data() : node(host).metadata();
         DiskFaults& faults = disk.faults;
         slow_disks_ = true;
         faults.extra_delay_ns =
             faults.extra_delay_ns > 0 ? 0 : random_.spread(kMillisecond_ns, kSecond_ns);
       }},
      {plan.hang_disk,
       [&] {
         const bool data = random_.chance(0.8);
         VirtualDisk& disk = data ? node(host).data() : node(host).metadata();
         disk.faults.hung_until_ns =
             scheduler_.now_ns() +
             random_.spread(10 * kMillisecond_ns, std::max(options_.absence_ns, 20 * kSecond_ns));
         const uint64_t end_ns = disk.faults.hung_until_ns + kSecond_ns;
         const auto self = static_cast<size_t>(host);
         hung_until_ns_[self] = std::max(hung_until_ns_[self], end_ns);
         if (!data) metadata_hung_until_ns_[self] = std::max(metadata_hung_until_ns_[self], end_ns);
         if (Report::verbose()) Report::trace(node(host).name(), "-- a disk hangs");
       }},
      {plan.peer_disk_error, [&] { peer_disk_error(); }},
      {plan.local_disk_error, [&] { local_disk_error(); }},
      {plan.switch_roles, [&] { begin_procedure(Procedure::kDemote); }},
      {plan.restart, [&] { begin_procedure(Procedure::kShutDown); }},
      {plan.peer_metadata_error, [&] { peer_metadata_error(); }},
      {plan.local_metadata_error, [&] { local_metadata_error(); }},
      {plan.order, [&] { give_order(); }},
      {plan.link, [&] { link_fault(); }},
      {plan.link_order, [&] { link_order(); }},
      {plan.blackout, [&] { blackout(); }},
      {plan.swap, [&] { swap_disks(host); }},
  }};
  if (random_.chance(0.1)) tempt();
  unsigned weights = 0;
  for (const auto& [weight, act] : kinds) weights += weight;
  if (weights == 0) return;
  workload().count_trouble();
  uint64_t drawn = random_.below(weights);
  for (const auto& [weight, act] : kinds) {
    if (drawn < weight) {
      act();
      last_trouble_ns_ = scheduler_.now_ns();
      return;
    }
    drawn -= weight;
  }
}

void World::process_gone(int host) {
  if (busy_host_ == host) {
    ++attempt_;
    promoting_ = false;
    procedure_ = Procedure::kNone;
    busy_host_ = -1;
  }
  if (primary_ != host) return;
  procedure_ = Procedure::kNone;
  primary_ = -1;
  survivor_ = current_[static_cast<size_t>(1 - host)] ? 1 - host : -1;
  workload().abandon();
}

bool World::bad_disk(int host) {
  for (const VirtualDisk* disk : {&node(host).data(), &node(host).metadata()})
    if (disk->has_failed() || disk->faults.full ||
        disk->faults.write_error_chance + disk->faults.flush_error_chance > 0)
      return true;
  return false;
}

// Whether clients are served only because this node lives: the other one's disks are bad.
bool World::stands_in(int host) {
  return host == primary_ && node(1 - host).running() && bad_disk(1 - host);
}

// A flush that is under way may fail when nobody waits for it any more, be it on record or not.
void World::fail_flush_in_death(int host) {
  VirtualDisk& data = node(host).data();
  if (data.flushing_ns() == 0 || !Random(check_random_).chance(0.5)) return;
  data.fail_with_process();
  intact_[static_cast<size_t>(host)] = false;
}

void World::kill(int host) {
  if (!node(host).running() || stands_in(host)) return;
  check_now();
  look();
  // What it had not flushed may be gone as soon as another process looks.
  if (node(host).data().flush_failed()) intact_[static_cast<size_t>(host)] = false;
  fail_flush_in_death(host);
  node(host).kill();
  process_gone(host);
  restart_later(host, 5 * kSecond_ns);
}

void World::power_off(int host) {
  if (node(host).powered() && !stands_in(host)) cut_power(host);
}

// Also of a node that stands in for the other one.
void World::cut_power(int host) {
  check_now();
  look();
  node(host).power_off();
  process_gone(host);
  intact_[static_cast<size_t>(host)] = false;
  restart_later(host, 8 * kSecond_ns);
}

void World::restart_later(int host, uint64_t longest_ns) {
  if (std::exchange(restart_due_[static_cast<size_t>(host)], true)) return;
  if (random_.chance(0.3)) longest_ns = std::max(longest_ns, options_.absence_ns);
  scheduler_.after(random_.spread(20 * kMillisecond_ns, longest_ns), nullptr, [this, host] {
    restart_due_[static_cast<size_t>(host)] = false;
    restart(host);
  });
}

void World::restart(int host) {
  node(host).power_on();
  // While the other node is promoted as the survivor, this one is kept down, as fencing does. Looked
  // at again soon, however long a node may be away: the promotion may be the last thing that happens.
  if (promoting_ && !node(host).running()) {
    if (std::exchange(kept_down_[static_cast<size_t>(host)], true)) return;
    scheduler_.after(100 * kMillisecond_ns, nullptr, [this, host] {
      kept_down_[static_cast<size_t>(host)] = false;
      restart(host);
    });
    return;
  }
  if (!node(host).running()) node(host).start();
}

void World::pause(int host) {
  if (!node(host).running() || node(host).paused()) return;
  node(host).pause();
  scheduler_.after(random_.spread(10 * kMillisecond_ns, 8 * kSecond_ns), nullptr,
                   [this, host, process = node(host).process()] {
                     if (node(host).process() == process && node(host).paused())
                       node(host).resume();
                   });
}

void World::silence(uint64_t at_most_ns) {
  const uint64_t which = random_.between(1, 3);
  network_.set_silent({(which & 1) != 0, (which & 2) != 0});
  if (Report::verbose())
    Report::trace("network", "-- silent from " + std::string((which & 1) != 0 ? "alpha " : "") +
                                 ((which & 2) != 0 ? "beta" : ""));
  scheduler_.after(random_.spread(50 * kMillisecond_ns, at_most_ns), nullptr,
                   [this, silence = network_.silences()] {
                     if (network_.silences() == silence) network_.set_silent({false, false});
                   });
}

void World::break_disk(VirtualDisk& disk) {
  switch (random_.below(3)) {
    case 0:
      disk.faults.full = true;
      break;
    case 1:
      disk.faults.write_error_chance = 0.3;
      break;
    default:
      disk.faults.flush_error_chance = 1;
      disk.faults.flush_error = std::array{EIO, ENOSPC, EDQUOT}.at(check_random_.below(3));
      break;
  }
}

// The secondary's disk fails for a while; the operator restarts twinblockd there afterwards.
void World::peer_disk_error() {
  if (primary_ < 0 || !node(1 - primary_).running()) return;
  const int host = 1 - primary_;
  break_disk(node(host).data());
  if (Report::verbose()) Report::trace(node(host).name(), "-- its disk fails requests");
  current_[static_cast<size_t>(host)] = false;
  scheduler_.after(random_.spread(100 * kMillisecond_ns, 5 * kSecond_ns), nullptr, [this, host] {
    DiskFaults& faults = node(host).data().faults;
    if (!healed_) faults.full = false;
    if (!healed_) faults.write_error_chance = faults.flush_error_chance = 0;
    if (dead_disk_host_ < 0 && primary_ == 1 - host && node(host).running() &&
        node(host).data().has_failed_for_good() && random_.chance(0.7))
      kill(host);
  });
}

// The same of its metadata disk. Nothing may be written there without it, but the data is good.
void World::peer_metadata_error() {
  if (primary_ < 0 || !node(1 - primary_).running()) return;
  const int host = 1 - primary_;
  break_disk(node(host).metadata());
  if (Report::verbose()) Report::trace(node(host).name(), "-- its metadata disk fails requests");
  scheduler_.after(random_.spread(100 * kMillisecond_ns, 5 * kSecond_ns), nullptr, [this, host] {
    if (!healed_) node(host).metadata().faults = DiskFaults{};
    if (dead_disk_host_ < 0 && primary_ == 1 - host && node(host).running() &&
        node(host).metadata().has_failed() && random_.chance(0.7))
      kill(host);
  });
}

// The primary's metadata disk dies while the peer is whole. The client may not notice. After a
// while the operator stops that node, moves the client to the peer and replaces the disk.
void World::local_metadata_error() {
  if (!may_lose_a_disk()) return;
  break_disk(node(primary_).metadata());
  dead_is_metadata_ = true;
  dead_disk_host_ = primary_;
  if (Report::verbose()) Report::trace(node(primary_).name(), "-- its metadata disk dies");
  scheduler_.after(random_.spread(100 * kMillisecond_ns, 5 * kSecond_ns), nullptr,
                   [this] { replace_local_metadata(); });
}

void World::replace_local_metadata(bool keep) {
  const int host = dead_disk_host_;
  const uint64_t what = keep ? 2 : random_.below(3);
  if (Report::verbose())
    Report::trace(node(host).name(),
                  what == 2 ? "-- its metadata disk works again" : "-- gets another metadata disk");
  if (node(host).running()) node(host).kill();
  process_gone(host);
  if (!keep) current_ = {host == 1, host == 0};
  const bool keeps_data = what == 0;
  left_behind_[static_cast<size_t>(host)] = false;
  if (what == 0)
    node(host).replace_metadata();
  else if (what == 1)
    node(host).replace_disks();
  else  // the trouble was passing
    node(host).metadata().faults = DiskFaults{};
  dead_disk_host_ = -1;
  joins_[static_cast<size_t>(host)] = keeps_data;
  restart_later(host, kSecond_ns);
}

// Whether the primary's disk may die now: the peer can stand in, and nothing else is wrong.
bool World::may_lose_a_disk() {
  if (primary_ < 0 || procedure_ != Procedure::kNone || !both_duplex() ||
      !node(primary_).engine().status().disk_error.empty() ||
      scheduler_.now_ns() - last_trouble_ns_ < kSecond_ns)
    return false;
  for (const auto& each : nodes_)
    for (const VirtualDisk* disk : {&each->data(), &each->metadata()})
      if (disk->faults.hung_until_ns > scheduler_.now_ns() || disk->faults.full ||
          disk->faults.write_error_chance + disk->faults.flush_error_chance > 0 ||
          disk->has_failed())
        return false;
  return true;
}

// Whether the node could serve alone, without anything that was promised being lost.
bool World::holds_all(int host) {
  if (!current_[static_cast<size_t>(host)] || bad_disk(host)) return false;
  // That it is whole must be there to stay.
  if (node(host).metadata().unflushed()) return false;
  if (node(host).running() && node(host).engine().volume_state() == VolumeState::kResync &&
      !node(host).engine().is_primary())
    return false;
  const auto file = node(host).metadata().contents();
  const auto loaded = metadata::load(metadata::reader_of(file), file.size(), options_.volume_bytes,
                                     node(host).name());
  return loaded && !loaded.value().blank && !loaded.value().record.inconsistent;
}

// The operator puts other disks into a node while the other node holds all: blank ones, or some
// that were taken out earlier, with the metadata that they had then.
void World::swap_disks(int host) {
  look();
  if (!holds_all(1 - host) || node(host).paused()) return;
  check_now();
  exchange_disks(host, &SimNode::swap_disks);
  swapped_[static_cast<size_t>(host)] = true;
  restart_later(host, 3 * kSecond_ns);
}

void World::exchange_disks(int host, void (SimNode::*how)()) {
  // With the host switched off for it, or while it runs.
  if (random_.chance(0.5))
    node(host).power_off();
  else if (node(host).running())
    node(host).kill();
  process_gone(host);
  (node(host).*how)();
  current_[static_cast<size_t>(host)] = knows_primary_[static_cast<size_t>(host)] = false;
  left_behind_[static_cast<size_t>(host)] = false;
  intact_[static_cast<size_t>(host)] = true;
  identical_ns_.clear();
}

// Someone tries to promote the secondary by mistake.
void World::tempt() {
  const int host = 1 - primary_;
  if (primary_ < 0 || !node(host).running() || node(host).paused() ||
      !knows_primary_[static_cast<size_t>(host)])
    return;
  node(host).engine().orders().promote(false, [this, host](const Result<std::string>& result) {
    if (result && primary_ == 1 - host)
      Report::violation(node(host).name() + " lets itself be promoted beside a primary" +
                        describe());
  });
}

// The primary dies, and is back before the one that was promoted instead has it on record that it
// goes on alone: until then only their terms say who was primary later.
void World::quick_return() {
  const int host = primary_;
  const int other = 1 - host;
  check_now();
  look();
  node(host).kill();
  process_gone(host);
  DiskFaults& faults = node(other).metadata().faults;
  faults.extra_delay_ns = 600 * kMillisecond_ns;
  wait(
      kHealingMax_ns, [&] { return primary_ >= 0; }, "a promotion after the primary's death");
  // A restart that was due already may have brought the first one back too early.
  if (primary_ == other) {
    restart(host);
    workload().flush_all();
    for (int i = 0; i < 100; ++i) {
      scheduler_.run_until(scheduler_.now_ns() + 5 * kMillisecond_ns);
      check_crash();
    }
  }
  faults.extra_delay_ns = 0;
  wait(
      kHealingMax_ns, [this] { return settled(); }, "duplex after a takeover");
}

// The secondary dies, and misses some writes before it is started again.
void World::write_without(int target) {
  check_now();
  look();
  node(target).kill();
  process_gone(target);
  const uint64_t writes = workload().writes_total() + random_.between(2, 20);
  wait(
      kHealingMax_ns, [&] { return workload().writes_total() >= writes; }, "writes in simplex");
}

// A primary is to bring the other one up to date, and has sent nothing yet.
void World::begin_paused_resync(int target) {
  Engine& engine = node(primary_).engine();
  engine.orders().set_resync_pace(ResyncPace::kPause, 0, [](const Result<std::string>&) {});
  write_without(target);
  restart(target);
  // A restart that was due already may have brought it back before anything was written.
  wait(
      kHealingMax_ns,
      [&] { return both_duplex() || engine.volume_state() == VolumeState::kResync; }, "a resync");
}

// The primary is demoted while it brings the other one up to date; then the target loses what it
// has not flushed, and the source dies. What is missing at the target now is what the source has
// left on record, also where it had been copied already.
void World::demotion_in_resync() {
  const int source = primary_;
  const int target = 1 - source;
  Engine& engine = node(source).engine();
  const auto ignore = [](const Result<std::string>&) {};
  begin_paused_resync(target);
  DiskFaults& faults = node(source).data().faults;
  slow_disks_ = true;  // long writes wait for many pieces of it
  faults.extra_delay_ns = 100 * kMillisecond_ns;
  engine.orders().set_resync_pace(ResyncPace::kRate, random_.spread(64 * kKiB, kMiB), ignore);
  scheduler_.run_until(scheduler_.now_ns() + random_.below(100 * kMillisecond_ns));
  begin_procedure(Procedure::kDemote);
  wait(
      kHealingMax_ns, [this] { return procedure_ == Procedure::kNone; }, "a demotion in a resync");
  faults.extra_delay_ns = 0;
  check_crash();
  power_off(target);
  kill(source);
  wait(
      kHealingMax_ns, [this] { return settled(); }, "duplex after a demotion in a resync");
}

void World::heal() {
  if (Report::verbose()) Report::trace("operator", "all faults end");
  healed_ = true;
  end_orders();
  network_.heal();
  for (Lane& lane : lanes_) mend(lane);
  for (const auto& each : nodes_) {
    each->data().faults = DiskFaults{};
    each->metadata().faults = DiskFaults{};
  }
  const int first = primary_ == 0 ? 1 : 0;  // not the one that serves
  for (const int host : {first, 1 - first}) {
    look();
    SimNode& each = node(host);
    if (each.running() && each.paused()) each.resume();
    // One that was full and has room again needs no help.
    if (each.running() && (each.data().has_failed_for_good() || each.metadata().has_failed()))
      kill(host);
    if (!each.running())
      scheduler_.after(random_.spread(20 * kMillisecond_ns, 500 * kMillisecond_ns), nullptr,
                       [this, host] { restart(host); });
  }
}

}  // namespace twinblock::sim
