#include "volume/node_state.h"

#include <algorithm>
#include <utility>

#include "base/limits.h"

namespace twinblock {

NodeState::NodeState(Disk& metadata, const Clock& clock, const Random& random, Start start)
    : clock_(clock),
      random_(random),
      record_failed_(std::move(start.record_failed)),
      store_(metadata, start.loaded.sequence),
      blank_(start.loaded.blank) {
  if (blank_) return;
  record_ = start.loaded.record;
  // What is of a volume of another size is refused when the node starts.
  if (record_.size_bytes != start.volume_bytes) return;
  // A backing without any data under a record that promises some: not mounted, or a new disk.
  // What is there is not believed; where there is a peer, it is copied from it.
  backing_lost_ = start.backing_is_empty && record_.held_data;
  crashed_ = record_.primary;
}

void NodeState::persist(metadata::SuperblockStore::Done done) {
  store_.update(record_, [this, done = std::move(done)](int error) {
    if (error != 0) record_failed_(error);
    done(error);
  });
}

void NodeState::move_on() { record_.state_id = random_(); }

void NodeState::begin_generation() {
  uint64_t fresh = random_();
  while (record_.generations.knows(fresh)) fresh = random_();
  record_.generations.advance(fresh);
  record_.generation_since_s = clock_.wall_ns() / kSecond_ns;
  record_.shared = false;
}

void NodeState::begin_generation_for(uint64_t replica) {
  begin_generation();
  record_.generations.settle();
  record_.begun_for = replica;
}

void NodeState::begin_volume(const metadata::NodeRecord& record) {
  const bool flush_failed = record_.flush_failed;
  record_ = record;
  record_.flush_failed = flush_failed;
  move_on();
  blank_ = crashed_ = backing_lost_ = took_over_ = false;
}

void NodeState::join(const Joined& joined) {
  record_.volume = joined.identity.volume;
  record_.node = joined.identity.node;
  record_.size_bytes = joined.identity.size_bytes;
  record_.region_bytes = joined.identity.region_bytes;
  record_.volume_uuid = joined.identity.volume_uuid;
  record_.generations = joined.told;
  record_.peer_primary = joined.peer_primary;
  record_.heard_term = joined.peer_term;
  blank_ = false;
}

void NodeState::leave_history() {
  move_on();
  record_.begun_for = 0;  // that was in another history
}

void NodeState::become_half_copied(const metadata::Generations& told) {
  record_.inconsistent = true;
  record_.generations = told;
  // A promotion whose writes are given up was not the later one: after a crash of both the source
  // counts, also where its own promotion was before.
  hear_term(record_.term);
  record_.term = record_.promoted_boot = 0;
  record_.discard = record_.keep = false;
  // What the source has yet to send is on its record.
  backing_lost_ = false;
}

void NodeState::become_whole(const metadata::Generations& told) {
  enter_generation(told);
  record_.inconsistent = record_.dirty = record_.primary = record_.shared = false;
  record_.all_dirty = record_.snapshot = record_.discard = record_.keep = false;
  crashed_ = backing_lost_ = took_over_ = false;
}

void NodeState::hold_sole_copy(const metadata::Generations& told) {
  enter_generation(told);
  record_.dirty = record_.all_dirty = true;
  record_.snapshot = false;
}

void NodeState::enter_generation(const metadata::Generations& told) {
  record_.generations = told;
  record_.generation_since_s = clock_.wall_ns() / kSecond_ns;
}

void NodeState::need_copy_back() {
  record_.dirty = record_.all_dirty = true;
  // Also when the host was started anew meanwhile, and nothing tells any more that a flush failed.
  record_.inconsistent = true;
}

void NodeState::begin_copy() {
  record_.dirty = true;
  record_.snapshot = false;  // the set may become larger than it
}

void NodeState::target_marked() {
  record_.keep = false;  // the order has been carried out
  record_.begun_for = 0;
  crashed_ = false;  // what may differ is in the dirty map, and the target no longer counts
}

void NodeState::found_equal() {
  backing_lost_ = false;
  settle();
}

void NodeState::made_equal() {
  record_.all_dirty = false;
  crashed_ = false;
  settle();
}

// What was to be remembered of the difference is past.
void NodeState::settle() {
  record_.generations.settle();
  record_.shared = record_.dirty = record_.snapshot = false;
  record_.keep = record_.discard = false;
  took_over_ = false;
}

void NodeState::take_along(uint64_t boot, uint64_t peer_instance, uint64_t peer_boot) {
  record_.boot = boot;
  record_.peer_instance = peer_instance;
  record_.peer_boot = peer_boot;
}

void NodeState::become_primary(bool alone) {
  // What a dead primary had under way may be on one of the two disks only; it tells which blocks
  // those are when it returns.
  if (alone && record_.peer_primary) took_over_ = true;
  record_.term = next_term();
  record_.snapshot = false;
  move_on();  // orders did not name what is written from now on
  record_.primary = true;
  record_.peer_primary = false;
}

void NodeState::resume_primary() {
  record_.snapshot = false;
  move_on();  // as for a promotion
  record_.primary = true;
}

void NodeState::become_secondary(bool more, bool for_good) {
  record_.primary = false;
  if (for_good) record_.promoted_boot = 0;
  record_.dirty = took_over_ || more;
}

void NodeState::hear_term(uint64_t term) {
  record_.heard_term = std::max(record_.heard_term, term);
}

uint64_t NodeState::next_term() const {
  const uint64_t last = std::max(record_.term, record_.heard_term);
  return std::max(last, last + 1);  // what a peer tells must not begin anew at 0
}

void NodeState::set_snapshot(bool valid, uint64_t bytes, uint32_t crc) {
  record_.snapshot = valid;
  record_.snapshot_bytes = valid ? bytes : 0;
  record_.snapshot_crc = valid ? crc : 0;
}

void NodeState::take_order(bool keep_local, const metadata::GivenUp& given_up) {
  record_.keep = keep_local;
  record_.discard = !keep_local;
  record_.given_up = given_up;
}

}  // namespace twinblock
