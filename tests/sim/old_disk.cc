// The story of a disk that comes back after another one had its place: the source begins a generation
// for it. The node dies before it has that on record, again and again, and so does the source: that
// may not push what the two still know of each other out of the history.
#include "metadata/disk_format.h"
#include "report.h"
#include "world.h"

namespace twinblock::sim {

void World::old_disk() {
  const int source = primary_;
  const int target = 1 - source;
  swapped_ = {};  // nobody takes these disks for ones that were away for too long
  const auto exchange = [&](void (SimNode::*how)()) {
    exchange_disks(target, how);
    scheduler_.run_until(scheduler_.now_ns() + random_.spread(100 * kMillisecond_ns, kSecond_ns));
  };
  exchange(&SimNode::put_in_blank_disks);
  restart(target);
  wait(
      kHealingMax_ns, [this] { return settled(); }, "duplex with a new disk");
  exchange(&SimNode::put_back_disks);
  for (size_t i = 0; i <= metadata::kHistoryEntries && primary_ == source; ++i) {
    node(target).metadata().faults.extra_delay_ns = 600 * kMillisecond_ns;
    restart(target);
    const auto meets = [&] {
      return node(target).running() && node(target).engine().status().peer.connected;
    };
    wait(
        kHealingMax_ns, [&] { return meets(); }, "a session with an old disk");
    scheduler_.run_until(scheduler_.now_ns() + random_.spread(kMillisecond_ns, 500 * kMillisecond_ns));
    check_now();
    node(target).kill();
    process_gone(target);
  }
  node(target).metadata().faults.extra_delay_ns = 0;
  restart(target);
  wait(
      kHealingMax_ns, [this] { return settled(); }, "duplex with an old disk");
}

}  // namespace twinblock::sim
