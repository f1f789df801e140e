// Compares the replicas block by block, by digests, with writes going on; on the primary, in
// duplex. It finds what the two nodes' records can't know of: blocks that a disk changed by itself.
// With repair, this node's blocks go over the peer's. That is no write: it is in no intents, since if this node died, its
// peer's blocks would go over this node's wherever there is an intent, and those are the bad ones. A flag on record says
// instead that a repair has begun and is not complete, and `status` that it is to be ordered anew. (A peer that is lost
// meanwhile gets what it may lack when it is back.) Owned by the engine; loop thread only.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "volume/block_sync.h"
#include "volume/core.h"
#include "volume/disk_health.h"
#include "volume/flush_group.h"
#include "volume/pacer.h"
#include "volume/progress.h"
#include "volume/sync_walk.h"
#include "volume/write_path.h"

namespace twinblock {

class Verifier final : private BlockSync::Owner {
 public:
  struct Report {
    bool repair = false;
    std::string ended;  // why it ended; empty while it runs
    bool complete = false;
    uint64_t compared_bytes = 0;
    uint64_t differing_bytes = 0;
    uint64_t repaired_bytes = 0;
    std::vector<ByteRange> differences;  // the first kDifferencesMax of them
    size_t unreadable_places = 0;        // blocks of the local disk, which were not compared …
    std::string unreadable;              // … and the first of them: a sentence
  };
  static constexpr size_t kDifferencesMax = 16;

  Verifier(Core& core, FlushGroup& flushes, WritePath& writes, DiskHealth& disks);

  // In duplex; not while one runs.
  void begin(bool repair);
  void stop(const std::string& why);
  // The peer stands in for this node's disk, which may never answer.
  void disk_left() { sync_.disk_left(); }
  // Called by the engine: the session is gone.
  void session_lost(const std::string& reason);
  // It was stopped, but some of what it had begun is still under way.
  [[nodiscard]] bool ending() const { return !active() && sync_.outstanding() > 0; }
  [[nodiscard]] bool active() const { return progress_.active(); }
  [[nodiscard]] const Progress& progress() const { return progress_; }
  // Of the last one; nothing compared and no end: there was none.
  [[nodiscard]] const Report& report() const { return report_; }
  [[nodiscard]] bool begun() const { return begun_; }

 private:
  void synced(const BlockSync::Outcome& outcome) override;
  void sync_failed(int error, const ByteRange& range) override;
  void sync_has_room() override { pump(); }
  void record();
  void pump();
  [[nodiscard]] bool start_next(const Pacer::Allowance& allowed);
  void finish();
  void conclude(int flush_error);
  void end(const std::string& why);

  Core& core_;
  FlushGroup& flushes_;
  WritePath& writes_;
  DiskHealth& disks_;
  BlockSync sync_;
  SyncWalk walk_;
  Pacer pacer_;
  Progress progress_;
  Report report_;
  bool begun_ = false;
  uint64_t number_ = 0;  // tells the record and the flush of an earlier one from this one's
  bool awaits_disk_ = false;  // for the record at its beginning, or the flush at its end
  std::unique_ptr<Timer> timer_;
};

}  // namespace twinblock
