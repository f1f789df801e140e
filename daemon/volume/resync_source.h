// Brings the peer up to date from this node's dirty map, with writes going on. Owned by the engine;
// loop thread only.
//
//   begin ─▶ marking: the target records that it is half-copied (invariant 7), and takes a copy of what it
//                     holds before, where its file says so: then it is asked again until it has
//         ─▶ copying: runs of dirty blocks; those known coarsely are compared first; those that this
//                     node's disk can't be read at stay dirty, and are tried again when a client
//                     writes there, and from time to time
//         ─▶ flushing: both disks
//         ─▶ recording: the target records that it is whole, in the source's generation
//         ─▶ done: the source records that generation as shared
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "volume/block_sync.h"
#include "volume/core.h"
#include "volume/disk_health.h"
#include "volume/flush_group.h"
#include "volume/pacer.h"
#include "volume/progress.h"
#include "volume/simplex_gate.h"
#include "volume/status_view.h"
#include "volume/sync_walk.h"
#include "volume/write_path.h"

namespace twinblock {

class ResyncSource final : public PeerRequest, private BlockSync::Owner {
 public:
  class Owner {
   public:
    // The target is asked to record that it is half-copied, and says that it can't yet.
    virtual void resync_target_waits() = 0;
    // The target has recorded that it is half-copied: writes may go to it from now on.
    virtual void resync_target_marked() = 0;
    // The target is about to be told to record that it is whole: call record_target() when it is
    // durable that it may share the current generation from then on.
    virtual void resync_copied() = 0;
    // It has done so.
    virtual void resync_finished() = 0;
    // Nothing is left to be copied but what the source's disk can't be read at: told once.
    virtual void resync_waits() = 0;
    // The source itself can't go on (its disk failed, or fails to flush).
    virtual void resync_failed(const std::string& why) = 0;

   protected:
    ~Owner() = default;
  };

  ResyncSource(Core& core, FlushGroup& flushes, WritePath& writes, DiskHealth& disks,
               Owner& owner);
  ~ResyncSource();

  // What has travelled in a resync.
  using Sent = StatusView::ResyncSent;

  // The target is told that it is an unfinished copy of `label`, which is durable here.
  void begin(const metadata::Generations& label);
  // Both replicas are the same: only the target's record is brought up to date.
  void begin_with_nothing_to_send();
  void record_target();
  void session_lost();
  // The peer, which is whole, stands in for this node's disk: what was read there for an earlier session may never come.
  void disk_left() { sync_.disk_left(); }
  // How fast; stays from one resync to the next.
  [[nodiscard]] Pacer& pacer() { return pacer_; }
  [[nodiscard]] const Pacer& pacer() const { return pacer_; }
  // After the pacer was changed.
  void pace_changed() { pump(); }
  [[nodiscard]] bool active() const { return step_ != Step::kIdle; }
  [[nodiscard]] const Progress& progress() const { return progress_; }
  [[nodiscard]] const Sent& sent() const { return sent_; }
  // All but what can't be read here has been copied, and waits for that.
  [[nodiscard]] bool waits_for_disk() const { return retry_at_ns_ != 0; }

  void answered(const PeerAnswer& answer) override;

 private:
  enum class Step { kIdle, kMarking, kCopying, kFlushing, kRecording };

  // BlockSync::Owner
  void synced(const BlockSync::Outcome& outcome) override;
  void sync_failed(int error, const ByteRange& range) override;
  void sync_has_room() override { pump(); }

  void send_generation(metadata::Generations generations, uint32_t flag);
  void mark();
  void copy();
  void pump();
  bool start_next(const Pacer::Allowance& allowed);
  [[nodiscard]] std::optional<ByteRange> next_range(uint64_t from_bytes) const;
  void flush();
  void wait_for_disk();
  void look_again();
  void report();

  Core& core_;
  FlushGroup& flushes_;
  WritePath& writes_;
  DiskHealth& disks_;
  Owner& owner_;
  BlockSync sync_;
  SyncWalk walk_;
  Pacer pacer_;
  Step step_ = Step::kIdle;
  uint64_t resync_number_ = 0;  // tells the end of an earlier one's flush from this one's
  Progress progress_;
  Sent sent_;
  uint64_t retry_began_ns_ = 0;  // of what could not be read; 0: all is tried for the first time
  uint64_t retry_at_ns_ = 0;     // the next one; 0: there is something else to do before
  bool wait_told_ = false;
  std::unique_ptr<Timer> report_timer_;
  std::unique_ptr<Timer> pace_timer_;
  metadata::Generations label_;  // what the target is told while it is marked
  std::unique_ptr<Timer> mark_again_;
};

}  // namespace twinblock
