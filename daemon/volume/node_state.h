// What this node is: its durable record, and what goes with it that a process knows only while it lives. All
// read it; it changes by what happens to the node, one method each, so that what belongs together changes
// together: here, in its history (ReplicaHistory), in its role (RecordedRole), in what is known of its
// backing (KnownBacking), and with whom it was together (RecordedCompany). What is changed is durable when
// persist() says so. Owned by Core; loop thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "base/data_search.h"
#include "io/clock.h"
#include "io/disk.h"
#include "metadata/load.h"
#include "metadata/superblock_store.h"
#include "volume/known_backing.h"
#include "volume/recorded_company.h"
#include "volume/recorded_role.h"
#include "volume/replica_history.h"

namespace twinblock {

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
  [[nodiscard]] const KnownBacking& backing() const { return backing_; }
  [[nodiscard]] KnownBacking& backing() { return backing_; }
  [[nodiscard]] RecordedCompany& company() { return company_; }

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
    record_.forget_snapshot();
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
  // Its disk failed, and the peer is to stand in: what is here is stale. …
  void become_stale() {
    record_.inconsistent = true;
    stale_here_only_ = false;
  }
  // … The peer does not, and nobody was promised anything meanwhile: this process goes on without its disk, but the
  // next one is to find on record that this replica holds all that was acknowledged.
  void nobody_stood_in() { stale_here_only_ = true; }
  // All of it is to be copied back from the peer.
  void need_copy_back();

  // Towards the peer. This node holds writes that it may miss; …
  void hold_more() {
    record_.dirty = true;
    backing_.counts_as_vouched();
  }
  // … it is about to get them, and they may become more than the snapshot names. `all`: every block may be one.
  void begin_copy(bool all);
  void target_marked();
  // Both hold the same: found so when they met, or made so by a resync; on this boot of the host.
  void found_equal(uint64_t boot);
  void made_equal(uint64_t boot);
  // A session: whether both nodes have the same kind of witness.
  void both_ask(bool same) { record_.unwitnessed = !same; }

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

  const std::function<void(int error)> record_failed_;
  metadata::SuperblockStore store_;
  metadata::NodeRecord record_;
  Durable durable_;
  ReplicaHistory history_;
  RecordedRole role_;
  RecordedCompany company_;
  KnownBacking backing_;
  bool blank_;
  bool crashed_ = false;
  bool stale_here_only_ = false;  // that it is stale is this process's affair, and not on record
};

}  // namespace twinblock
