// The story of promotions while a record takes long. Both nodes are secondary; the one that is asked has a
// metadata disk that hangs until the question is given up and asked again, so that the answer to the first
// comes when the second is waited for. Then one of them dies, the other is promoted without it, and it
// comes back to a primary that it does not know of, with a disk that is slow to record that. Then a
// primary dies, and comes back while its successor still does a flush that it began alone. At last one
// dies while its peer's disk fails at what it had sent.
//
// In the mode "resume" two stories of their own: a primary goes on beside a slow peer; one is promoted by the
// word that its peer is dead, and nothing comes of it.
#include <algorithm>
#include <utility>

#include "report.h"
#include "world.h"

namespace twinblock::sim {
namespace {

constexpr uint64_t kSlowRecord_ns = 300 * kMillisecond_ns;

}  // namespace

void World::promotions() {
  slow_disks_ = true;
  operator_rests_ = true;
  for (uint64_t turns = random_.between(1, 4); turns > 0; --turns) ask_twice();
  return_to_a_new_primary();
  wait(
      kHealingMax_ns, [this] { return settled(); }, "duplex after a return");
  return_during_a_flush();
  succeed_with_a_failing_disk();
  operator_rests_ = false;
  wait(
      kHealingMax_ns, [this] { return settled(); }, "duplex after promotions");
}

// Demoted in order; the two stay together.
void World::demote_primary() {
  const int host = primary_;
  demote_loser(host);
  demoted(host);
  wait_for_two_secondaries();
  current_ = {true, true};
}

void World::ask_twice() {
  demote_primary();
  const int host = static_cast<int>(random_.below(2));
  for (const Lane& lane : lanes_) {
    LinkFaults far = lane.usual;
    far.delay_max_ns = std::max(far.delay_max_ns, 100 * kMillisecond_ns);
    network_.set_faults(lane.name, far);
  }
  DiskFaults& faults = node(1 - host).metadata().faults;
  promote(host);
  faults.hung_until_ns =
      scheduler_.now_ns() + options_.peer_timeout_ns + random_.below(100 * kMillisecond_ns);
  while (promoting_) scheduler_.run_until(scheduler_.now_ns() + kMillisecond_ns);
  faults.extra_delay_ns = kSlowRecord_ns;
  while (primary_ < 0) {
    if (!promoting_) promote(host);
    scheduler_.run_until(scheduler_.now_ns() + kMillisecond_ns);
  }
  for (int i = 0; i < 100; ++i) {
    check_recorded_as_primary(host);
    scheduler_.run_until(scheduler_.now_ns() + 5 * kMillisecond_ns);
  }
  faults = DiskFaults{};
  for (const Lane& lane : lanes_) network_.set_faults(lane.name, lane.usual);
  wait(
      kHealingMax_ns, [this] { return settled(); }, "duplex after a promotion");
}

// Who was asked has said yes: a crash may not make it forget that (invariant 6).
void World::check_recorded_as_primary(int host) {
  SimNode& peer = node(1 - host);
  if (!node(host).engine().status().peer.connected || !peer.running()) return;
  const Remains left = remains_of(peer, node(host), check_random_);
  if (!left.peer_primary)
    Report::violation(node(host).name() + " is primary, but " + left.fate + ", " + peer.name() +
                      " would not know that" + describe());
}

void World::return_to_a_new_primary() {
  demote_primary();
  const int host = static_cast<int>(random_.below(2));
  check_now();
  node(1 - host).kill();
  process_gone(1 - host);
  clients_rest_ = true;
  promote(host);
  wait(
      kHealingMax_ns, [&] { return primary_ == host; }, "a promotion without the peer");
  clients_rest_ = false;
  DiskFaults& faults = node(1 - host).metadata().faults;
  faults.extra_delay_ns = kSlowRecord_ns;
  restart(1 - host);
  const Engine& engine = node(host).engine();
  wait(
      kHealingMax_ns, [&] { return engine.volume_state() == VolumeState::kDuplex; },
      "a session with nothing to send");
  records_watched_ = true;
  workload().go_on();
  scheduler_.run_until(scheduler_.now_ns() + kSecond_ns);
  records_watched_ = false;
  faults = DiskFaults{};
}

// A primary's process ends with writes under way, which may be on its own disk only, and goes on. Clients
// could read them there: not before the peer has the same, or is marked as half-copied.
void World::goes_on_beside_a_slow_peer() {
  wait_for_restarts();
  operator_rests_ = true;
  const int host = primary_;
  const int other = 1 - host;
  slow_disks_ = true;
  write_some();
  end_process(host);
  node(other).metadata().faults.extra_delay_ns = kSlowRecord_ns;
  restart(host);
  wait_for_moment(
      [&] {
        const StatusView view = node(host).engine().status();
        return view.role == Role::kPrimary && !view.mine.resumes;
      },
      "a primary that goes on");
  if (!record_of(other).inconsistent && !both_duplex())
    Report::violation(node(host).name() + " serves what a crash could take back" + describe());
  node(other).metadata().faults = DiskFaults{};
  operator_rests_ = false;
  wait(
      kHealingMax_ns, [this] { return settled(); }, "duplex after a primary has gone on");
}

// A primary dies, its peer's process ends as well, and the primary's host loses its memory: what was not flushed
// is in the peer's host's. By the word that the peer is dead the other one is promoted, and killed before it has
// acknowledged anything; so may the peer have been before, by the process that was there or by the next one. These
// promotions leave no trace: when the two meet, nothing is lost, which the history can't know that has heard of
// the word.
void World::killed_when_promoted_by_word() {
  wait_for_restarts();
  operator_rests_ = true;
  const int host = primary_;
  const int other = 1 - host;
  write_some();
  end_process(host);
  clients_rest_ = true;
  const History promised = history();
  if (random_.chance(0.5)) {
    if (random_.chance(0.5)) {
      end_process(other);
      restart(other);
    }
    promote(other);
    wait(
        kHealingMax_ns, [&] { return primary_ == other; }, "a promotion of the peer");
  }
  end_process(other);
  node(host).power_off();
  intact_[static_cast<size_t>(host)] = false;
  restart(host);
  promote(host);
  wait(
      kHealingMax_ns, [&] { return primary_ == host; }, "a promotion by the operator's word");
  scheduler_.run_until(scheduler_.now_ns() + random_.below(kSecond_ns));
  end_process(host);
  restart(host);
  restart(other);
  operator_rests_ = false;
  wait(
      kHealingMax_ns, [this] { return settled(); }, "duplex after a promotion by the operator's word");
  check_all_is_there(host, promised);
  clients_rest_ = false;
  workload().go_on();
}

// The peer has written nothing while it was primary, so that there is nothing to send to it; but who took
// over says so until the two are known to be the same. The flush ends while the peer is recording that.
void World::return_during_a_flush() {
  const int stays = primary_;
  const int dies = 1 - stays;
  demote_primary();
  clients_rest_ = true;
  promote(dies);
  wait(
      kHealingMax_ns, [&] { return primary_ == dies && both_duplex(); }, "a primary without writes");
  end_process(dies);
  promote(stays);
  wait(
      kHealingMax_ns, [&] { return primary_ == stays; }, "a promotion after the primary's death");
  workload().flush_all();
  restart(dies);
  const Engine& engine = node(stays).engine();
  // Where regions were written just before, or the flush was over before the session began and has its
  // generation, there is something to send; that begins with a flush of its own.
  const auto something_to_send = [&] {
    const metadata::Generations generations = engine.status().mine.generations;
    if (!node(dies).running()) return false;
    const StatusView view = node(dies).engine().status();
    return view.data == DataState::kInconsistent ||
           (view.peer.connected && (view.mine.dirty || generations.current != generations.base));
  };
  wait_for_moment(
      [&] {
        if (something_to_send()) return true;
        node(stays).data().faults.hung_until_ns = scheduler_.now_ns() + 20 * kMillisecond_ns;
        return engine.volume_state() == VolumeState::kDuplex;
      },
      "a session during a flush");
  node(dies).metadata().faults.hung_until_ns = scheduler_.now_ns() + kSlowRecord_ns;
  wait(
      kHealingMax_ns, [&] { return workload().idle() && both_duplex(); }, "the end of a flush");
  check_duplex_now();
  node(stays).data().faults = node(dies).metadata().faults = DiskFaults{};
  clients_rest_ = false;
  workload().go_on();
}

// What the dead primary had sent ends before the other one is promoted. Where it ends in an error, nobody
// may be served there: clients would get errors, and the replica that is well would be taken for the older.
void World::succeed_with_a_failing_disk() {
  const int dies = primary_;
  const int stays = 1 - dies;
  DiskFaults& faults = node(stays).data().faults;
  faults.hung_until_ns = scheduler_.now_ns() + kSlowRecord_ns;
  faults.write_error_chance = 1;
  scheduler_.run_until(scheduler_.now_ns() + 100 * kMillisecond_ns);
  end_process(dies);
  clients_rest_ = true;
  promote(stays);
  while (promoting_) scheduler_.run_until(scheduler_.now_ns() + kMillisecond_ns);
  if (primary_ == stays && !node(stays).engine().status().disk_error.empty())
    Report::violation(node(stays).name() + " was promoted with a disk that had failed" + describe());
  faults = DiskFaults{};
  if (primary_ < 0) end_process(stays);
  restart(dies);
  if (!node(stays).running()) restart(stays);
  clients_rest_ = false;
  if (primary_ >= 0) workload().go_on();
}

}  // namespace twinblock::sim
