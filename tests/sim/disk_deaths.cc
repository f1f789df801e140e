// The primary's data disk dies: at any moment, also beside other faults, so that the peer may be able
// to stand in, may be lost a moment later, or may not be there at all.
#include <algorithm>

#include "report.h"
#include "world.h"

namespace twinblock::sim {

// In duplex the peer has all that was acknowledged: the disk is broken for good. Else this is the
// only good copy, and the trouble passes (a cable, a path): no mirror can help against more.
void World::local_disk_error() {
  if (primary_ < 0 || dead_disk_host_ >= 0 || node(primary_).paused() ||
      procedure_ == Procedure::kShutDown || bad_disk(primary_) || bad_disk(1 - primary_) ||
      !node(primary_).engine().status().disk_error.empty())
    return;
  look();
  const int host = primary_;
  disk_passes_ = node(host).engine().volume_state() != VolumeState::kDuplex;
  dead_is_metadata_ = false;
  dead_disk_host_ = host;
  disk_died_ns_ = scheduler_.now_ns();
  diskless_seen_ns_ = 0;  // what was seen of an earlier one
  DiskFaults& faults = node(host).data().faults;
  faults.write_error_chance = random_.chance(0.5) ? 1 : 0.5;
  faults.flush_error_chance = 1;
  faults.read_error_chance = random_.chance(0.5) ? 1 : 0;
  if (Report::verbose())
    Report::trace(node(host).name(), disk_passes_ ? "-- its disk fails requests for a while"
                                                  : "-- its disk dies");
  if (random_.chance(0.3)) second_trouble(host);
  scheduler_.after(random_.spread(500 * kMillisecond_ns, std::max(options_.diskless_ns, 5 * kSecond_ns)),
                   nullptr, [this] { replace_local_disk(); });
}

// Of links, and of hosts that stand still: what a session outlives, or begins anew after.
void World::trouble_beside_dead_disk() {
  look();
  workload().count_trouble();
  const int host = static_cast<int>(random_.below(2));
  switch (random_.below(8)) {
    case 0:
      network_.reset_all();
      break;
    case 1:
      silence(std::max(options_.peer_timeout_ns * 2, kSecond_ns));
      break;
    case 2:
      pause(host);
      break;
    case 3:
      if (dead_disk_host_ == primary_) take_away(1 - primary_, random_.chance(0.5));
      break;
    default:
      link_fault();
      break;
  }
  last_trouble_ns_ = scheduler_.now_ns();
}

// What takes the other replica away as well.
void World::second_trouble(int host) {
  scheduler_.after(random_.spread(kMillisecond_ns, 2 * kSecond_ns), nullptr, [this, host] {
    if (dead_disk_host_ != host || primary_ != host) return;
    workload().count_trouble();
    switch (random_.below(3)) {
      case 0:
        network_.reset_all();
        break;
      case 1:
        silence(8 * kSecond_ns);
        break;
      default:
        take_away(1 - host, random_.chance(0.5));
        break;
    }
  });
}

// The primary's peer, although clients may be served by it alone: they get errors then.
void World::take_away(int host, bool power) {
  if (!node(host).running()) return;
  if (power) {
    cut_power(host);
    return;
  }
  check_now();
  look();
  end_node(host);
  restart_later(host, 3 * kSecond_ns);
}

// Whether an error is the truth: the primary's disk is broken, and no other replica stands in, or
// none did when the request began.
bool World::error_is_due(int host) {
  return no_good_replica(host) || (dead_disk_host_ == host && disk_passes_);
}

// The primary's disk is broken, and no other replica stands in.
bool World::no_good_replica(int host) {
  if (dead_disk_host_ != host || dead_is_metadata_) return false;
  const VolumeState state = node(host).engine().volume_state();
  return state != VolumeState::kDuplex && state != VolumeState::kDegraded &&
         state != VolumeState::kDiskless;
}

// While a replica stands in, the client moves there in order. Else the node is ended.
void World::replace_local_disk() {
  scheduler_.after(100 * kMillisecond_ns, nullptr, [this] {
    const int host = dead_disk_host_;
    if (host < 0) return;
    if (primary_ != host || (no_good_replica(host) && procedure_ == Procedure::kNone)) {
      disk_replaced(host);
      return;
    }
    // Writes may be held (on_peer_loss = freeze), so that a demotion never begins; and where it can't be
    // recorded, it never ends.
    const bool in_vain = no_good_replica(host) && scheduler_.now_ns() - disk_died_ns_ > 10 * kSecond_ns;
    if (in_vain || (procedure_ == Procedure::kNone && has_given_up_metadata(node(host)))) {
      disk_replaced(host);
      return;
    }
    begin_procedure(Procedure::kDemote);
    replace_local_disk();
  });
}

// Also where that leaves nobody who serves.
void World::end_node(int host) {
  if (!node(host).running()) return;
  if (node(host).data().flush_failed()) intact_[static_cast<size_t>(host)] = false;
  node(host).kill();
  process_gone(host);
}

// It came back, and the failing disk began to bring it up to date.
bool World::peer_is_half_copied(int host) {
  SimNode& peer = node(1 - host);
  if (peer.running()) return peer.engine().status().data == DataState::kInconsistent;
  return remains_of(peer, node(host), check_random_).facts.inconsistent;
}

void World::disk_replaced(int host) {
  const auto self = static_cast<size_t>(host);
  const bool was_primary = primary_ == host;
  // No replica would be left whole: the operator gets the old disk to work once more.
  if (peer_is_half_copied(host)) {
    disk_passes_ = true;
    current_ = {host == 0, host == 1};
  }
  if (Report::verbose())
    Report::trace(node(host).name(), disk_passes_ ? "-- its disk works again"
                                                  : "-- gets another disk");
  end_node(host);
  dead_disk_host_ = -1;
  restart_later(host, kSecond_ns);
  if (disk_passes_) {
    node(host).data().faults = DiskFaults{};
    return;
  }
  node(host).replace_disks();
  left_behind_[self] = false;
  current_ = {host == 1, host == 0};
  if (!was_primary) return;
  // What it acknowledged alone since its peer was lost is gone with its disk, as two failures at once
  // may cost; the peer has what both acknowledged.
  survivor_ = -1;
  intact_[self] = false;
}

}  // namespace twinblock::sim
