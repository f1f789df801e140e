#include "volume/own_facts.h"

namespace twinblock {
namespace {

// What a crash would leave; but a session that has begun on the disk and stands by now, which is about to be on it, is one that
// stands: what was written and flushed in it is missed by no block map any more, and by who was not there.
metadata::Sessions sessions_to_tell(const NodeState& state) {
  metadata::Sessions told = state.durable().sessions;
  const uint64_t latest = state.record().sessions.stood.front();
  if (latest != 0 && told.begun == latest) told.stands(latest);
  return told;
}

}  // namespace

void OwnFacts::loaded(bool cache_is_gone) {
  forgot_ = core_.record().flush_failed && cache_is_gone;
  rebooted_ = boot_ == 0 || core_.record().boot != boot_ || forgot_;
}

SyncFacts OwnFacts::now() const {
  SyncFacts facts;
  facts.blank = core_.state().blank();
  facts.joinable = core_.state().blank() && core_.join_order().stands();
  facts.primary = roles_.passes_for_primary();
  facts.crashed = core_.state().crashed();
  const AloneRight& right = core_.stance().alone_right();
  facts.consented = roles_.is_primary() && right.asks(core_.record()) && core_.stance().may_promise_alone();
  facts.asks_register = right.witness() == WitnessKind::kEtcd;
  facts.asks_command = right.witness() == WitnessKind::kCommand;
  facts.resumes = roles_.resumption().under_way() && disks_.local_ok();
  facts.inconsistent = core_.record().inconsistent || disks_.left_aside();
  facts.backing_lost = core_.state().backing().lost();
  facts.other_backing = core_.state().backing().other();
  facts.moved_together = core_.state().backing().moved_together();
  facts.rebooted = core_.state().crashed() && rebooted_;
  facts.instance = instance_;
  facts.boot = boot_;
  // Also in a process before: what it followed the primary on is no longer on record then. (What memory held of another backing
  // is not this one's.)
  facts.forgot = forgot_ || core_.state().backing().other() || (core_.record().peer_primary && core_.record().followed_boot != boot_);
  facts.peer_instance = core_.record().peer_instance;
  facts.peer_boot = core_.record().peer_boot;
  facts.flush_failed = core_.record().flush_failed;
  facts.disk_failed = disks_.any_failed();
  const Differences& differences = core_.differences();
  facts.dirty = core_.record().dirty || core_.state().role().took_over() || !differences.none_known();
  facts.map_valid = differences.valid();
  facts.preferred = core_.node < core_.peer;
  facts.volume_uuid = core_.record().volume_uuid;
  facts.generations = core_.record().generations;
  facts.term = core_.record().term;
  // Without its disk it may not get on record what it is in, and its record counts no more.
  facts.sessions = disks_.local_ok() ? sessions_to_tell(core_.state()) : core_.record().sessions;
  facts.discard = core_.record().discard;
  facts.keep = core_.record().keep;
  if (facts.discard || facts.keep) facts.gives_up = core_.record().given_up.state_id;
  facts.state_id = core_.record().state_id;
  if (core_.state().blank()) facts.volume_uuid = core_.join_order().volume();
  facts.dirty_bytes = differences.dirty().set_bytes();
  facts.since_s = core_.record().generation_since_s;
  return facts;
}

}  // namespace twinblock
