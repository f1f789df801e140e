// The story of a disk that works, but slowly: each request takes seconds, zeroes and flushes as many
// more as they are long. That is not a disk that hangs: the pair stays together, and a node that
// comes back is brought up to date once. Nor are links dead that get new connections meanwhile.
#include "report.h"
#include "world.h"

namespace twinblock::sim {

namespace {

constexpr uint64_t kSlow_ns = 5 * kSecond_ns;
// A flush of the whole volume, after all that was before it, and some more.
constexpr uint64_t kSlowest_ns = 6000 * kSecond_ns;

}  // namespace

void World::slow_disk() {
  slow_disks_ = true;
  const int target = 1 - primary_;
  Engine& engine = node(primary_).engine();
  DiskFaults& faults = node(target).data().faults;
  if (random_.chance(0.5)) {
    write_without(target);
    faults.slow_ns = kSlow_ns;
    restart(target);
    const uint64_t losses = engine.status().peer_losses;
    wait(
        kSlowest_ns, [this] { return settled(); }, "the end of a resync to a slow disk");
    if (engine.status().peer_losses != losses)
      Report::violation("a resync to a disk that is only slow was broken off" + describe());
  }
  watch_session();
  faults.slow_ns = kSlow_ns;
  const uint64_t slow_for_ns = random_.spread(30 * kSecond_ns, 200 * kSecond_ns);
  if (renewals_.chance(0.5)) {
    scheduler_.run_until(scheduler_.now_ns() + slow_for_ns / 2);
    for (const int host : {0, 1}) node(host).engine().orders().renew_links();
    scheduler_.run_until(scheduler_.now_ns() + slow_for_ns / 2);
  } else {
    scheduler_.run_until(scheduler_.now_ns() + slow_for_ns);
  }
  workload().stop();
  wait(
      kSlowest_ns, [this] { return workload().idle(); }, "answers of a slow disk");
  workload().flush_all();
  wait(
      kSlowest_ns, [this] { return workload().idle(); }, "a flush of a slow disk");
  check_parting();
  session_watched_ = false;
  faults.slow_ns = 0;
  workload().go_on();
  wait(
      kSlowest_ns, [this] { return settled(); }, "duplex after a slow disk");
}

}  // namespace twinblock::sim
