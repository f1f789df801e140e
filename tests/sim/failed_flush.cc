// Stories of what a disk's failure leaves behind that only a crash at the right moment shows: a flush that
// failed, and nobody on this host remembers it; a disk that dies while its peer records that it is whole; a
// demotion that the metadata disk did not take.
#include <algorithm>
#include <vector>

#include "report.h"
#include "world.h"

namespace twinblock::sim {

// At the very event, since some of these states last for milliseconds.
void World::wait_for_moment(const std::function<bool()>& until, const char* for_what) {
  scheduler_.run_until(scheduler_.now_ns() + kHealingMax_ns, until);
  wait(0, until, for_what);
}

// Whoever is taken away in a story stays away: also those restarts are over with which the faults ended.
void World::wait_for_restarts() {
  scheduler_.run_until(scheduler_.now_ns() + 500 * kMillisecond_ns);
  wait(
      kHealingMax_ns,
      [this] { return !restart_due_[0] && !restart_due_[1] && !kept_down_[0] && !kept_down_[1]; },
      "restarts");
}

void World::failed_flushes() {
  wait_for_restarts();
  errors_allowed_ = true;
  operator_rests_ = true;
  const uint64_t story = random_.below(4);
  // Drawn apart, so that what is drawn below stays what it was.
  Random apart = random_;
  if (apart.chance(0.2) && node(1 - primary_).data().cache_can_be_dropped())
    demoted_too_late();
  else if (apart.chance(0.2))
    dies_in_a_flush();
  else if (apart.chance(0.3))
    dies_before_the_record(apart.chance(0.5) ? primary_ : 1 - primary_, apart);
  else
    fail_a_flush(story);
  operator_rests_ = false;
  wait(
      kHealingMax_ns, [this] { return settled(); }, "duplex after a flush that failed");
  errors_allowed_ = false;
}

void World::fail_a_flush(uint64_t story) {
  switch (story) {
    case 0:
      copied_back();
      break;
    case 1:
      dies_early();
      break;
    case 2:
      stand_in_forgets();
      break;
    default:
      dies_while_nothing_is_sent();
      break;
  }
}

void World::fail_flush(int host) {
  node(host).data().faults.flush_error_chance = 1;
  workload().flush_all();
  wait(
      kHealingMax_ns,
      [&] { return node(host).data().flush_failed() && node(host).remembers_failed_flush(); },
      "a record of a failed flush");
}

void World::end_process(int host) {
  check_now();
  look();
  // Its failing disk may have made an operator quicker.
  if (node(host).running()) node(host).kill();
  process_gone(host);
}

void World::write_some() {
  const uint64_t writes = workload().writes_total() + random_.between(5, 20);
  wait(
      kHealingMax_ns, [&] { return workload().writes_total() >= writes; }, "writes");
}

// A primary without its peer, whose flush fails, has to be the source all the same. When the peer has all
// that its page cache shows, it loses power before it is copied back, and shows what is on its disk.
void World::copied_back() {
  const int source = primary_;
  const int target = 1 - source;
  end_process(target);
  write_some();
  fail_flush(source);
  intact_[static_cast<size_t>(source)] = false;
  end_process(source);
  restart(source);  // the disk fails still, so that the kernel can't be rid of its cache
  node(source).data().faults = DiskFaults{};
  restart(target);
  // Drawn apart, so that what is drawn below stays what it was.
  Random apart = random_;
  if (apart.chance(0.3)) {
    dies_when_whole(source, target);
    return;
  }
  if (apart.chance(0.3)) {
    loses_memory_midway(source, target);
    return;
  }
  bool whole = false;
  wait_for_moment(
      [&] {
        const metadata::NodeRecord record = record_of(target);
        whole = whole || (!record.inconsistent && record.generations.current ==
                                                      record_of(source).generations.current);
        return whole && !node(source).engine().status().peer.connected;
      },
      "a source that is to be copied back");
  const auto held = node(target).data().contents();
  const std::vector<std::byte> before(held.begin(), held.end());
  cut_power(source);
  restart(source);
  wait_for_two_secondaries();
  check_identical("after a source was copied back");
  if (!std::ranges::equal(node(target).data().contents(), before))
    Report::violation(node(source).name() + " took back what it had brought to " +
                      node(target).name() + describe());
  current_ = {true, true};
}

// … The peer dies when it has it on record that it is whole, before the source hears of it. Nothing that
// the peer misses is known then, and nothing says but the flag that the source's disk lacks any of it.
void World::dies_when_whole(int source, int target) {
  wait_for_moment(
      [&] {
        const metadata::NodeRecord record = record_of(target);
        return !record.inconsistent &&
               record.generations.current == record_of(source).generations.current;
      },
      "a target that has recorded that it is whole");
  if (record_of(source).inconsistent || !record_of(source).flush_failed)
    Report::violation(node(source).name() + " has heard already" + describe());
  end_process(target);
  restart(target);
  wait_for_two_secondaries();
  check_identical("after a target died when it was whole");
  if (!node(source).data().deceiving_sectors().empty())
    Report::violation(node(source).name() + " counts as whole, but shows what its disk does not hold" +
                      describe());
  current_ = {true, true};
}

// … The source loses power in the middle of the copy, when what it has sent is stable at the target, and in no set or intent
// of its own any more: its disk shows something older there, and no flag says so.
void World::loses_memory_midway(int source, int target) {
  const auto pace = [this, source](ResyncPace how, uint64_t bytes_per_s) {
    node(source).engine().orders().set_resync_pace(how, bytes_per_s, [](const Result<std::string>&) {});
  };
  pace(ResyncPace::kRate, 256 * kKiB);
  const auto resync = [this, source] { return node(source).engine().status().resync; };
  wait_for_moment([&] { return record_of(target).inconsistent; }, "a target that is marked");
  wait_for_moment([&] { return !record_of(target).inconsistent || resync().done_bytes >= resync().total_bytes / 2; },
                  "half of a copy");
  pace(ResyncPace::kPause, 0);
  scheduler_.run_until(scheduler_.now_ns() + 5 * limits::kIntentAge_ns);
  cut_power(source);
  restart(source);
  wait_for_two_secondaries();
  check_identical("after a source whose flush had failed lost its memory");
  current_ = {true, true};
}

// A primary's flush fails, its metadata disk hangs, and it dies when its peer has it on record that it holds the
// only good copy, before anything of that is on its own. Its page cache shows what its disk does not hold.
void World::dies_early() {
  const int host = primary_;
  const int other = 1 - host;
  slow_disks_ = true;
  forgets_flush_ = host;
  node(host).metadata().faults.hung_until_ns = scheduler_.now_ns() + 10 * kHealingMax_ns;
  node(host).data().faults.flush_error_chance = 1;
  workload().flush_all();
  wait_for_moment(
      [&] {
        const metadata::NodeRecord record = record_of(other);
        return record.all_dirty &&
               record.generations.current != record_of(host).generations.current;
      },
      "a record of the only good copy");
  current_ = {other == 0, other == 1};
  intact_[static_cast<size_t>(host)] = false;
  // The next process finds it in memory, where the host can compare that with the disk.
  if (check_random_.chance(0.5)) node(host).data().hide_medium();
  node(host).kill();
  process_gone(host);
  node(host).data().faults = node(host).metadata().faults = DiskFaults{};
  restart(host);
  wait_for_two_secondaries();
  check_identical("after a flush that was forgotten");
  if (!node(host).data().deceiving_sectors().empty())
    Report::violation(node(host).name() + " was brought up to date, but shows what its disk does not "
                                          "hold" + describe());
  forgets_flush_ = -1;
  current_ = {true, true};
}

// A primary's flush hangs, and fails when its process has been killed: nobody was told, and its page cache shows what
// its disk does not hold. That a flush hung is on record.
void World::dies_in_a_flush() {
  const int host = primary_;
  const int other = 1 - host;
  VirtualDisk& data = node(host).data();
  slow_disks_ = true;  // clients wait for it
  data.hold_next_flush();
  workload().flush_all();
  wait_for_moment([&] { return data.holds_flush(); }, "a flush that hangs");
  wait_for_moment([&] { return node(host).remembers_failed_flush(); }, "a record of a flush that hangs");
  current_ = {other == 0, other == 1};
  intact_[static_cast<size_t>(host)] = false;
  data.fail_with_process();
  end_process(host);
  restart(host);
  wait_for_two_secondaries();
  check_identical("after a process died in its flush");
  if (!data.deceiving_sectors().empty())
    Report::violation(node(host).name() + " was brought up to date, but shows what its disk does not hold" +
                      describe());
  current_ = {true, true};
}

// … It dies so soon that nothing is on record: the next process finds it out, from what memory shows.
void World::dies_before_the_record(int host, Random& apart) {
  const int other = 1 - host;
  const bool was_primary = host == primary_;
  VirtualDisk& data = node(host).data();
  slow_disks_ = true;  // clients wait for it
  data.hold_next_flush();
  workload().flush_all();
  wait_for_moment([&] { return data.holds_flush(); }, "a flush that hangs");
  scheduler_.run_until(scheduler_.now_ns() + apart.below(limits::kFlushOnRecord_ns));
  // Somebody may have been quicker, as its disk fails altogether by now.
  if (!node(host).running() || !data.holds_flush()) return;
  current_ = {other == 0, other == 1};
  intact_[static_cast<size_t>(host)] = false;
  data.fail_with_process();
  end_process(host);
  restart(host);
  if (was_primary) {
    wait_for_two_secondaries();
    check_identical("after a process died in its flush");
  } else {
    wait_for_moment([this] { return both_duplex(); }, "duplex after a secondary died in its flush");
  }
  if (!data.deceiving_sectors().empty())
    Report::violation(node(host).name() + " was brought up to date, but shows what its disk does not hold" +
                      describe());
  current_ = {true, true};
}

void World::let_the_disk_die(int host) {
  dead_disk_host_ = host;
  dead_is_metadata_ = disk_passes_ = false;
  disk_died_ns_ = scheduler_.now_ns();
  DiskFaults& faults = node(host).data().faults;
  faults.write_error_chance = faults.flush_error_chance = 1;
}

// A primary's disk dies while its peer, which has missed nothing, records that it is whole: it holds all
// that was acknowledged, and stands in.
void World::dies_while_nothing_is_sent() {
  const int host = primary_;
  const int other = 1 - host;
  workload().stop();
  workload().flush_all();
  wait(
      kHealingMax_ns, [&] { return workload().idle() && both_duplex(); }, "a flush");
  end_process(other);
  const Engine& engine = node(host).engine();
  wait_for_moment([&] { return !engine.status().peer.connected; }, "the end of a session");
  restart(other);
  // (Not where the flush that began alone left something to send.)
  wait_for_moment([&] { return engine.volume_state() == VolumeState::kDuplex; }, "duplex");
  if (!engine.status().resync.source) {
    workload().go_on();
    return;
  }
  node(other).metadata().faults.hung_until_ns =
      scheduler_.now_ns() + random_.spread(5 * kMillisecond_ns, 200 * kMillisecond_ns);
  let_the_disk_die(host);
  workload().flush_all();
  wait(
      kHealingMax_ns, [&] { return engine.volume_state() == VolumeState::kDiskless; },
      "a replica that stands in");
  node(other).metadata().faults = DiskFaults{};
  workload().go_on();
  write_some();
  check_rest(other);
  operator_rests_ = false;
  replace_local_disk();
  wait(
      kHealingMax_ns, [this] { return dead_disk_host_ < 0; }, "the disk's replacement");
}

// What was written is made stable on the only good replica, once.
void World::check_rest(int stands_in) {
  workload().stop();
  wait(
      kHealingMax_ns, [this] { return workload().idle(); }, "answers by a replica that stands in");
  VirtualDisk& disk = node(stands_in).data();
  scheduler_.run_until(scheduler_.now_ns() + 3 * limits::kEpochIdle_ns);
  if (disk.unflushed())
    Report::violation("what was acknowledged by the only good replica stays in its page cache" + describe());
  const uint64_t flushes = disk.flushes_total();
  scheduler_.run_until(scheduler_.now_ns() + 10 * limits::kEpochIdle_ns);
  if (disk.flushes_total() != flushes)
    Report::violation("the only good replica is flushed again and again, with nothing written" + describe());
  workload().go_on();
}

// A primary's disk dies, and its peer stands in; there a flush fails, and what that was to cover is gone
// from memory, too, when the next process begins. The primary must not go on with that.
void World::stand_in_forgets() {
  const int host = primary_;
  const int other = 1 - host;
  let_the_disk_die(host);
  wait(
      kHealingMax_ns,
      [&] { return node(host).engine().volume_state() == VolumeState::kDiskless; },
      "a replica that stands in");
  write_some();
  fail_flush(other);
  intact_[static_cast<size_t>(other)] = false;
  end_process(other);
  node(other).data().faults = DiskFaults{};
  restart(other);
  scheduler_.run_until(scheduler_.now_ns() + random_.spread(2 * kSecond_ns, 8 * kSecond_ns));
  operator_rests_ = false;
  replace_local_disk();
  wait(
      kHealingMax_ns, [this] { return dead_disk_host_ < 0; }, "the disk's replacement");
}

// The metadata disk dies while a demotion is recorded, with or without a peer. The primary stays
// primary, but after a crash its disk may say that it was not.
void World::failed_demotion() {
  wait_for_restarts();
  operator_rests_ = true;
  const int host = primary_;
  workload().stop();
  wait(
      kAnswerMax_ns, [this] { return workload().idle(); }, "answers to all requests");
  look();
  workload().close();
  const bool alone = random_.chance(0.3);
  if (alone) {
    end_process(1 - host);
    scheduler_.run_until(scheduler_.now_ns() + kSecond_ns);
  }
  dead_disk_host_ = host;
  dead_is_metadata_ = true;
  DiskFaults& faults = node(host).metadata().faults;
  (random_.chance(0.5) ? faults.write_error_chance : faults.flush_error_chance) = 1;
  bool failed = false;
  node(host).engine().orders().demote([&](const Result<std::string>& result) {
    if (result) Report::violation("a demotion is not on record" + describe());
    failed = true;
  });
  wait(
      kHealingMax_ns, [&] { return failed; }, "the end of a demotion");
  errors_allowed_ = alone;
  workload().open(node(host));
  for (int i = 0; i < 100; ++i) {
    scheduler_.run_until(scheduler_.now_ns() + 5 * kMillisecond_ns);
    check_crash();
  }
  if (alone) restart(1 - host);
  operator_rests_ = false;
  replace_local_metadata(alone);
  errors_allowed_ = false;
  wait(
      kHealingMax_ns, [this] { return settled(); }, "duplex after a demotion that failed");
}

}  // namespace twinblock::sim
