// What this node is: its durable record, and what goes with it that a process knows only while it
// lives. All read it; it changes by what happens to the node, one method each, so that what belongs
// together changes together. What is changed is durable when persist() says so. Owned by Core; loop
// thread only.
#pragma once

#include <cstdint>
#include <functional>

#include "io/clock.h"
#include "io/disk.h"
#include "metadata/load.h"
#include "metadata/superblock_store.h"

namespace twinblock {

class NodeState {
 public:
  using Random = std::function<uint64_t()>;  // never 0

  struct Start {
    const metadata::Loaded& loaded;  // what the metadata disk held
    uint64_t volume_bytes = 0;       // what it should be of
    bool backing_is_empty = false;
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
  // Held data once, but the backing was found without any.
  [[nodiscard]] bool backing_lost() const { return backing_lost_; }
  // Became primary without a peer that was primary, so that clients may have read what only this
  // node holds; it says that it is dirty until the two are the same again.
  [[nodiscard]] bool took_over() const { return took_over_; }

  // Makes the record durable.
  void persist(metadata::SuperblockStore::Done done);
  [[nodiscard]] const metadata::SuperblockStore& store() const { return store_; }

  // This replica holds, or is about to, what no order could have named yet. To be made durable before
  // anybody is promised any of it.
  void move_on();
  // A new history of writes begins, as soon as the record is durable.
  void begin_generation();
  // … for the replica in this state, which nobody else has, and which becomes the base at once.
  void begin_generation_for(uint64_t replica);

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

  // As the target, in the history that it was told. What it was in before is past: …
  void leave_history();
  // … it is an unfinished copy. What it may itself have changed stays on record until the end; …
  void become_half_copied(const metadata::Generations& told);
  // … it is the same as the source; …
  void become_whole(const metadata::Generations& told);
  // … it is the only one.
  void hold_sole_copy(const metadata::Generations& told);
  // Its disk failed, and the peer stands in: what is here is stale.
  void become_stale() { record_.inconsistent = true; }
  // All of it is to be copied back from the peer.
  void need_copy_back();

  // Towards the peer. This node holds writes that it may miss; …
  void hold_more() { record_.dirty = true; }
  // … it is about to get them, and they may become more than the snapshot names; …
  void begin_copy();
  // … and every block may be one of them.
  void know_no_difference() { record_.all_dirty = true; }
  void target_marked();
  // The peer may record the current generation as its own from now on.
  void share_generation() { record_.shared = true; }
  // Both hold the same: found so when they met, or made so by a resync.
  void found_equal();
  void made_equal();
  // This host has held since this boot all that was acknowledged.
  void note_boot(uint64_t boot) { record_.boot = boot; }
  // Whom this node takes along in what it writes from now on: its own host's boot, the peer's process
  // and the peer's host's boot.
  void take_along(uint64_t boot, uint64_t peer_instance, uint64_t peer_boot);

  // Who is primary. A promotion begins a term above all that were heard; `alone`: without a session.
  void become_primary(bool alone);
  // … goes on as what its last process was, under the same term.
  void resume_primary();
  // `more`: this node holds what the peer may miss. `for_good`: no later process goes on as primary.
  void become_secondary(bool more, bool for_good);
  // … which could not be recorded: it is primary still, and its disk may say that it is not. Whatever
  // it wrote alone would be in nobody's set after a crash.
  void demotion_not_recorded() { may_pass_for_secondary_ = true; }
  [[nodiscard]] bool may_pass_for_secondary() const { return may_pass_for_secondary_; }
  // … on this boot of the host; 0: it is past.
  void promoted_on(uint64_t boot) { record_.promoted_boot = boot; }
  // What was recorded of a role was taken back, or is past.
  void set_primary(bool primary) { record_.primary = primary; }
  void set_peer_primary(bool primary) { record_.peer_primary = primary; }
  // So that a promotion here has a higher term than any that this node has heard of. Not taken over
  // as its own: after a crash of both, the node that was promoted is the later one.
  void hear_term(uint64_t term);
  [[nodiscard]] uint64_t next_term() const;

  // The snapshot is the whole dirty set, or does not count.
  void set_snapshot(bool valid, uint64_t bytes, uint32_t crc);
  // What reads as written may not be on the disk, or is again.
  void set_flush_failed(bool failed) { record_.flush_failed = failed; }
  // The backing holds flushed data: found empty, it was lost.
  void hold_data() { record_.held_data = true; }
  // The operator's order to keep this node's writes, or to give them up; another one is void.
  void take_order(bool keep_local, const metadata::GivenUp& given_up);
  // One whose record failed: the operator is told so, and nothing is given up by it.
  void drop_order() { record_.keep = record_.discard = false; }

 private:
  void settle();
  void enter_generation(const metadata::Generations& told);

  const Clock& clock_;
  const Random& random_;
  const std::function<void(int error)> record_failed_;
  metadata::SuperblockStore store_;
  metadata::NodeRecord record_;
  bool blank_;
  bool crashed_ = false;
  bool backing_lost_ = false;
  bool took_over_ = false;
  bool may_pass_for_secondary_ = false;
};

}  // namespace twinblock
