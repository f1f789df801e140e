// What this node is: its durable record, and what goes with it that a process knows only while it
// lives. All read it; it changes by what happens to the node, one method each, so that what belongs
// together changes together: here, in its history (ReplicaHistory) and in its role (RecordedRole). What
// is changed is durable when persist() says so. Owned by Core; loop thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "base/data_search.h"
#include "io/clock.h"
#include "io/disk.h"
#include "metadata/load.h"
#include "metadata/superblock_store.h"
#include "volume/recorded_role.h"
#include "volume/replica_history.h"

namespace twinblock {

// io/posix/backing_number.h; 0: not known.
struct BackingNumbers {
  uint64_t backing = 0;
  uint64_t metadata = 0;  // of what the record lies in
};

class NodeState {
 public:
  using Random = ReplicaHistory::Random;

  struct Start {
    const metadata::Loaded& loaded;  // what the metadata disk held
    DataFound found = DataFound::kUnknown;  // in the backing
    BackingNumbers numbers;
    std::function<void(int error)> record_failed;  // the record could not be written
  };
  // `random` outlives it.
  NodeState(Disk& metadata, const Clock& clock, const Random& random, Start start);

  // As it is, or is about to be, on the metadata disk.
  [[nodiscard]] const metadata::NodeRecord& record() const { return record_; }
  // No record yet.
  [[nodiscard]] bool blank() const { return blank_; }
  // Was primary when it stopped: blocks in its intents may differ.
  [[nodiscard]] bool crashed() const { return crashed_; }
  // Held data once, but none were found in the backing.
  [[nodiscard]] bool backing_lost() const { return backing_lost_; }
  // … and nobody has said that what is there is right, by a promotion: the peer may have come up without its disk, too.
  [[nodiscard]] bool unvouched() const { return backing_lost_ && !vouched_; }
  // A session begins. Only a peer that found data, or is primary, shows by being the same, or by a copy, that what is here is.
  void meet(bool peer_is_believed) { peer_is_believed_ = peer_is_believed; }
  // This node, or the peer in a session, becomes primary; `both_whole`: they are the same by then.
  void vouch(bool both_whole) {
    vouched_ = peer_is_believed_ = true;
    backing_lost_ = backing_lost_ && !both_whole;
    take_backing();
  }
  // The record is about another backing than the one that is here: every block of it may differ from the peer's, whatever the
  // record says. It stays so, also in the processes to come, until the record is about what is here …
  [[nodiscard]] bool other_backing() const { return other_backing_; }
  // (It was copied together with its record, as that lies in another place, too.)
  [[nodiscard]] bool moved_together() const;
  // … from now on: before anything is written here.
  void take_backing();
  // What was found there when the process began.
  [[nodiscard]] DataFound found() const { return found_; }
  // A blank node has looked again.
  void found_now(DataFound found) { found_ = found; }

  // What of the record is on the disk, and what the next process will find.
  struct Durable {
    metadata::Sessions sessions;  // with a disk, this node tells its peer of no other
    bool held_data = false;
    uint64_t promoted_boot = 0;
    bool keep = false, discard = false;
    uint64_t given_up_state_id = 0;  // by them
  };
  [[nodiscard]] const Durable& durable() const { return durable_; }

  // Makes the record durable.
  void persist(metadata::SuperblockStore::Done done);
  // The metadata disk does not answer: all who wait for the record are told that it failed.
  void give_up_disk(int error) { store_.give_up(error); }
  [[nodiscard]] const metadata::SuperblockStore& store() const { return store_; }

  // What else changes of it.
  [[nodiscard]] ReplicaHistory& history() { return history_; }
  [[nodiscard]] const RecordedRole& role() const { return role_; }
  [[nodiscard]] RecordedRole& role() { return role_; }

  // How it comes to hold a volume. A new one; that a flush failed stays on record, since a new
  // history does not mend a disk.
  void begin_volume(const metadata::NodeRecord& record);
  // … the record of which could not be written.
  void volume_not_begun() { blank_ = true; }
  struct Joined {
    metadata::NodeRecord identity;  // volume, node, sizes
    metadata::Generations told;
    bool peer_primary = false;
    uint64_t peer_term = 0;
  };
  // The peer's.
  void join(const Joined& joined);

  // The volume has become larger. A snapshot of the smaller one would lie in the way of its pages; a copy of it
  // is no way back.
  void grow(uint64_t volume_bytes) {
    record_.size_bytes = volume_bytes;
    record_.way_back = {};
    set_snapshot(false, 0, 0);
  }

  // As the target, in the history that it was told, after it has left its own: it is an unfinished copy.
  // What it may itself have changed stays on record until the end; what it was stays, too, where a copy of
  // that was taken (`copy`); …
  void become_half_copied(const metadata::Generations& told, const std::optional<metadata::WayBack>& copy);
  // … it is the same as the source, on this boot of the host; …
  void become_whole(const metadata::Generations& told, uint64_t boot);
  // … it is the only one.
  void hold_sole_copy(const metadata::Generations& told);
  // That copy is about to be brought back: whatever the peer knows of what is missing here, every block may be;
  // …
  void begin_rollback();
  // … and has been, all of it.
  void roll_back();
  // Its disk failed, and the peer stands in: what is here is stale.
  void become_stale() { record_.inconsistent = true; }
  // All of it is to be copied back from the peer.
  void need_copy_back();

  // Towards the peer. This node holds writes that it may miss; …
  void hold_more() {
    record_.dirty = true;
    backing_lost_ = unvouched();
  }
  // … it is about to get them, and they may become more than the snapshot names. `all`: every block may be one.
  void begin_copy(bool all);
  void target_marked();
  // Both hold the same: found so when they met, or made so by a resync; on this boot of the host.
  void found_equal(uint64_t boot);
  void made_equal(uint64_t boot);
  // A session: whether both nodes have the same kind of witness.
  void both_ask(bool same) { record_.unwitnessed = !same; }
  // The page cache was dropped: what it held of the peer's writes is gone as by a new boot.
  void forget_boot() { record_.followed_boot = 0; }
  // This host has held since this boot all that was acknowledged.
  void note_boot(uint64_t boot) { record_.boot = boot; }
  // A session begins; it stands, so that the peer has begun it, too.
  void begin_session(uint64_t id, const metadata::Sessions& peer) { record_.sessions.begin(id, peer); }
  void share_sessions(const metadata::Sessions& peer, uint64_t id) {
    record_.sessions.stood = peer.stood;
    session_stands(id);
  }
  void session_stands(uint64_t id) { record_.sessions.stands(id); }
  // Whom this node takes along in what it writes from now on: its own host's boot, the peer's process
  // and the peer's host's boot.
  void take_along(uint64_t boot, uint64_t peer_instance, uint64_t peer_boot);

  // The snapshot is the whole dirty set, or does not count.
  void set_snapshot(bool valid, uint64_t bytes, uint32_t crc);
  // What reads as written may not be on the disk, or is again.
  void set_flush_failed(bool failed) { record_.flush_failed = failed; }
  // A flush takes long: who finds this, and nothing later, can't know how it ended.
  void set_flushing(bool flushing) { record_.flushing = flushing; }
  // The peer's blocks are to be made what this node's are; or all are.
  void set_repairing(bool repairing) { record_.repairing = repairing; }
  // The backing holds flushed data: found empty, it was lost. Who has been promised that they are flushed relies on that,
  // so `then` is called when it is on record: at once but for the first time. (Or when that failed, which the operator is
  // told.)
  void hold_data(std::function<void()> then);
  // The operator's order to keep this node's writes, or to give them up; another one is void.
  void take_order(bool keep_local, const metadata::GivenUp& given_up);
  // One whose record failed: the operator is told so, and nothing is given up by it.
  void drop_order() { record_.keep = record_.discard = false; }

 private:
  void settle();
  [[nodiscard]] Durable what_is_looked_at() const;
  void name_backing();
  void note_durable(const Durable& durable);

  const std::function<void(int error)> record_failed_;
  metadata::SuperblockStore store_;
  metadata::NodeRecord record_;
  Durable durable_;
  ReplicaHistory history_;
  RecordedRole role_;
  DataFound found_;
  const BackingNumbers numbers_;
  bool blank_;
  bool crashed_ = false;
  bool backing_lost_ = false;
  bool other_backing_ = false;
  bool vouched_ = false;
  bool peer_is_believed_ = false;
};

}  // namespace twinblock
