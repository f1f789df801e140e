// Stories of full disks. First that of a source whose disk is full now and then while it brings the other node up to
// date. The client gets errors for writes then, which the target may have all the same: these blocks are
// to be copied again, however late in the resync it happens.
#include "report.h"
#include "world.h"

namespace twinblock::sim {

void World::full_source() {
  const int source = primary_;
  const int target = 1 - source;
  Engine& engine = node(source).engine();
  const auto ignore = [](const Result<std::string>&) {};
  write_without(target);
  engine.orders().set_resync_pace(ResyncPace::kRate, random_.spread(256 * kKiB, 8 * kMiB), ignore);
  restart(target);
  errors_allowed_ = true;
  DiskFaults& faults = node(source).data().faults;
  // In duplex a disk that refuses a write is given up, which is another story.
  const uint64_t full_until_ns = scheduler_.now_ns() + 5 * kSecond_ns;
  const uint64_t end_ns = full_until_ns + kHealingMax_ns;
  while (!both_duplex() && engine.volume_state() != VolumeState::kDiskless) {
    const bool still = scheduler_.now_ns() < full_until_ns;
    if (!still) engine.orders().set_resync_pace(ResyncPace::kAuto, 0, ignore);
    faults.full =
        still && engine.volume_state() == VolumeState::kResync && random_.chance(0.3);
    scheduler_.run_until(scheduler_.now_ns() + random_.spread(kMillisecond_ns / 2,
                                                             10 * kMillisecond_ns));
    if (scheduler_.now_ns() > end_ns)
      Report::violation("waited in vain for the end of a resync from a full disk" + describe());
  }
  faults.full = false;
  engine.orders().set_resync_pace(ResyncPace::kAuto, 0, ignore);
  // A write that failed during the resync may be answered by the target after it.
  workload().stop();
  wait(
      kAnswerMax_ns, [this] { return workload().idle(); }, "answers of a disk that was full");
  workload().go_on();
  if (engine.volume_state() == VolumeState::kDiskless) replace_full_disk(source);
  wait(
      kHealingMax_ns, [this] { return settled(); }, "duplex after a resync from a full disk");
  quiesce();
  errors_allowed_ = false;
  check_identical("after a resync from a full disk");
  workload().go_on();
}

// Both disks are full. Where they fill at the same write, as equal ones do, neither replica lacks what the other one has.
// Else each refuses what it has just then no room for, so that one may be given up for the other, which refuses other writes.
// Either way writes have no room, and all else goes on.
void World::both_full() {
  quiesce();
  no_room_ = true;
  Random copy = check_random_;  // what the others draw stays what it was
  Random apart = copy.fork();
  const bool at_the_same = apart.chance(0.5);
  for (const auto& each : nodes_) {
    each->data().faults.full = true;
    each->data().faults.full_chance = at_the_same ? 1 : apart.chance(0.5) ? 0.5 : 0.05;
  }
  workload().go_on();
  scheduler_.run_until(scheduler_.now_ns() + check_random_.spread(100 * kMillisecond_ns, 25 * kSecond_ns));
  workload().flush_all();
  workload().stop();
  wait(
      kAnswerMax_ns, [this] { return workload().idle(); }, "answers of disks that are full");
  const bool given_up = !node(primary_).engine().status().disk_ok;
  if (given_up && at_the_same)
    Report::violation("both disks were full, and " + node(primary_).name() + "'s replica was given up" + describe());
  for (const auto& each : nodes_) each->data().faults.full = false;
  for (const auto& each : nodes_) each->data().faults.full_chance = 1;
  workload().go_on();
  if (given_up) replace_full_disk(primary_);
  wait(
      kHealingMax_ns, [this] { return settled(); }, "duplex after both disks were full");
  no_room_ = false;
  quiesce();
  check_identical("after both disks were full");
  workload().go_on();
}

void World::replace_full_disk(int host) {
  dead_is_metadata_ = false;
  dead_disk_host_ = host;
  replace_local_disk();
  wait(
      kHealingMax_ns, [this] { return dead_disk_host_ < 0; }, "the full disk's replacement");
}

}  // namespace twinblock::sim
