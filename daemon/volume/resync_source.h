// Brings the peer up to date from this node's dirty map, with writes going on. Owned by the engine;
// loop thread only.
//
//   begin ─▶ marking: the target records that it is half-copied (invariant 7), and takes a copy of what it
//                     holds before, where its file says so: then it is asked again until it has
//         ─▶ copying: runs of dirty blocks; those known coarsely are compared first
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
    // The target has recorded that it is half-copied: writes may go to it from now on.
    virtual void resync_target_marked() = 0;
    // The target is about to be told to record that it is whole: call record_target() when it is
    // durable that it may share the current generation from then on.
    virtual void resync_copied() = 0;
    // It has done so.
    virtual void resync_finished() = 0;
    // The source itself can't go on (its disk fails to read or flush).
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
  // How fast; stays from one resync to the next.
  [[nodiscard]] Pacer& pacer() { return pacer_; }
  [[nodiscard]] const Pacer& pacer() const { return pacer_; }
  // After the pacer was changed.
  void pace_changed() { pump(); }
  [[nodiscard]] bool active() const { return step_ != Step::kIdle; }
  [[nodiscard]] const Progress& progress() const { return progress_; }
  [[nodiscard]] const Sent& sent() const { return sent_; }

  void answered(const PeerAnswer& answer) override;

 private:
  enum class Step { kIdle, kMarking, kCopying, kFlushing, kRecording };

  // BlockSync::Owner
  void synced(const BlockSync::Outcome& outcome) override;
  void sync_failed(int error, uint64_t offset_bytes) override;
  void sync_has_room() override { pump(); }

  void send_generation(metadata::Generations generations, uint32_t flag);
  void mark();
  void copy();
  void pump();
  bool start_next(const Pacer::Allowance& allowed);
  [[nodiscard]] std::optional<ByteRange> next_range(uint64_t from_bytes) const;
  void flush();
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
  std::unique_ptr<Timer> report_timer_;
  std::unique_ptr<Timer> pace_timer_;
  metadata::Generations label_;  // what the target is told while it is marked
  std::unique_ptr<Timer> mark_again_;
};

}  // namespace twinblock
