#include "volume/node_state.h"

#include <utility>

namespace twinblock {
namespace {

NodeState::Durable what_is_looked_at(const metadata::NodeRecord& record) {
  return {record.sessions, record.held_data, record.promoted_boot,
          record.keep,     record.discard,   record.given_up.state_id};
}

}  // namespace

NodeState::NodeState(Disk& metadata, const Clock& clock, const Random& random, Start start)
    : record_failed_(std::move(start.record_failed)),
      store_(metadata, start.loaded.sequence),
      history_(record_, clock, random),
      role_(record_, history_),
      company_(record_),
      backing_(record_, start.found, start.numbers),
      blank_(start.loaded.blank) {
  if (blank_) return;
  record_ = start.loaded.record;
  durable_ = what_is_looked_at(record_);
  backing_.load();
  crashed_ = record_.primary;
}

void NodeState::persist(metadata::SuperblockStore::Done done) {
  const Durable next = what_is_looked_at(record_);
  metadata::NodeRecord to_find = record_;
  if (stale_here_only_) to_find.inconsistent = false;
  store_.update(to_find, [this, done = std::move(done), next](int error) {
    if (error != 0) {
      record_failed_(error);
    } else {
      // (A file of an older version has no room for sessions.)
      const metadata::Sessions before = durable_.sessions;
      durable_ = next;
      if (!store_.has_sessions()) durable_.sessions = before;
    }
    done(error);
  });
}

void NodeState::hold_data(std::function<void()> then) {
  // (What a disk still had to do when a volume was begun in vain is nobody's any more.)
  if (blank_ || (record_.held_data && durable_.held_data)) {
    then();
    return;
  }
  record_.held_data = true;
  persist([then = std::move(then)](int) { then(); });
}

void NodeState::begin_volume(const metadata::NodeRecord& record) {
  const bool flush_failed = record_.flush_failed;
  const bool unwitnessed = record_.unwitnessed;
  record_ = record;
  record_.flush_failed = flush_failed;
  record_.unwitnessed = unwitnessed;
  backing_.begins_volume();
  history_.move_on();
  blank_ = crashed_ = false;
  role_.shares_what_it_took_over();
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
  backing_.joins();
  blank_ = false;
}

void NodeState::become_half_copied(const metadata::Generations& told, const std::optional<metadata::WayBack>& copy) {
  if (!record_.inconsistent) {
    record_.way_back = copy.value_or(metadata::WayBack{});
    if (copy) {
      record_.way_back.generations = record_.generations;
      record_.way_back.term = record_.term;
    }
  }
  record_.inconsistent = true;
  stale_here_only_ = false;
  record_.generations = told;
  record_.claim = 0;
  // A promotion whose writes are given up was not the later one: after a crash of both the source
  // counts, also where its own promotion was before.
  role_.give_up_term();
  record_.discard = record_.keep = false;
  backing_.is_to_be_filled();
}

void NodeState::become_whole(const metadata::Generations& told, uint64_t boot) {
  record_.followed_boot = boot;
  history_.enter(told);
  record_.inconsistent = record_.dirty = record_.primary = record_.shared = false;
  record_.all_dirty = record_.snapshot = record_.discard = record_.keep = false;
  record_.way_back = {};
  crashed_ = false;
  backing_.is_as_the_peer_s();
  role_.shares_what_it_took_over();
}

void NodeState::hold_sole_copy(const metadata::Generations& told) {
  history_.enter(told);
  record_.dirty = record_.all_dirty = true;
  record_.snapshot = false;
  record_.way_back = {};
}

void NodeState::begin_rollback() {
  backing_.take();
  history_.move_on();
  record_.dirty = record_.all_dirty = true;
  record_.snapshot = false;
}

// Whoever was the source may have acknowledged more since, as a primary: as long as it is away, this node takes
// the operator's word.
void NodeState::roll_back() {
  const metadata::WayBack was = std::exchange(record_.way_back, {});
  record_.way_back.taken_s = was.taken_s;
  history_.return_to(was.generations);
  record_.term = was.term;
  record_.inconsistent = record_.primary = false;
  crashed_ = false;
  record_.dirty = record_.all_dirty = true;
  record_.snapshot = false;
  record_.peer_primary = true;
  record_.followed_boot = 0;
  // Nobody has been asked yet whether this node may go on alone with it: the first write alone asks, and begins another.
  record_.shared = true;
}

void NodeState::need_copy_back() {
  record_.dirty = record_.all_dirty = true;
  // Also when the host was started anew meanwhile, and nothing tells any more that a flush failed.
  record_.inconsistent = true;
  stale_here_only_ = false;
}

void NodeState::begin_copy(bool all) {
  record_.dirty = true;
  record_.all_dirty = record_.all_dirty || all;
  record_.snapshot = false;  // the set may become larger than it
  backing_.take();           // of two nodes whose disks were copied with their records
}

void NodeState::target_marked() {
  record_.keep = false;  // the order has been carried out
  record_.begun_for = 0;
  record_.way_back = {};  // that this one was rolled back parts the two no more
  crashed_ = false;  // what may differ is in the dirty map, and the target no longer counts
}

void NodeState::found_equal(uint64_t boot) {
  record_.followed_boot = boot;
  backing_.is_found_equal();
  settle();
}

void NodeState::made_equal(uint64_t boot) {
  record_.followed_boot = boot;
  // All was copied, or compared. (Where a flush had failed, it may be on record and not have been.)
  if (record_.all_dirty && !record_.flush_failed) record_.repairing = false;
  record_.all_dirty = false;
  crashed_ = false;
  backing_.counts_as_vouched();
  settle();
}

// What was to be remembered of the difference is past.
void NodeState::settle() {
  history_.settle();
  record_.way_back = {};
  record_.dirty = record_.snapshot = false;
  record_.keep = record_.discard = false;
  role_.shares_what_it_took_over();
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
