// Brings the peer up to date from this node's dirty map, with writes going on: one more writer
// under the range lock. Owned by the engine; loop thread only.
//
//   begin ─▶ marking: the target records that it is half-copied (invariant 7)
//         ─▶ copying: runs of dirty blocks; holes and zeroes travel as flags
//         ─▶ flushing: both disks
//         ─▶ recording: the target records that it is whole, in the source's generation
//         ─▶ done: the source records that generation as shared
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "volume/core.h"
#include "volume/flush_group.h"
#include "volume/progress.h"
#include "volume/simplex_gate.h"
#include "volume/write_path.h"

namespace twinblock {

class ResyncSource final : public PeerRequest {
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

  ResyncSource(Core& core, FlushGroup& flushes, WritePath& writes, WritePathOwner& disks,
               Owner& owner);
  ~ResyncSource();

  void begin();
  // Both replicas are the same: only the target's record is brought up to date.
  void begin_with_nothing_to_send();
  void record_target();
  void session_lost();
  [[nodiscard]] bool active() const { return step_ != Step::kIdle; }
  [[nodiscard]] const Progress& progress() const { return progress_; }

  void answered(const wire::FrameHeader& ack, std::span<const std::byte> payload) override;

 private:
  struct Run;
  enum class Step { kIdle, kMarking, kCopying, kFlushing, kRecording };

  void send_generation(uint32_t flag);
  void pump();
  bool start_next_run();
  [[nodiscard]] bool stale(const Run& run) const;
  void run_admitted(Run& run);
  void cut(Run& run, uint64_t end_bytes);
  void read(Run& run);
  void extent_known(Run& run);
  void read_done(Run& run);
  void send_zeroes(Run& run);
  void run_answered(Run& run, int status);
  void end_run(Run& run);
  void flush();
  void report();
  [[nodiscard]] size_t runs_wanted() const;

  Core& core_;
  FlushGroup& flushes_;
  WritePath& writes_;
  WritePathOwner& disks_;
  Owner& owner_;
  Step step_ = Step::kIdle;
  uint64_t session_number_ = 0;  // tells callbacks of an earlier session from this one's
  uint64_t cursor_ = 0;
  uint64_t data_until_ = 0;  // the extent that begins before the cursor is data up to here
  Progress progress_;
  std::unique_ptr<Timer> report_timer_;
  std::vector<std::unique_ptr<Run>> pool_;
  std::vector<Run*> free_;
  size_t outstanding_ = 0;
};

}  // namespace twinblock
