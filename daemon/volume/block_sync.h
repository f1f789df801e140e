// Makes ranges the same on both nodes, or only compares them, with writes going on: one more writer
// under the range lock (invariant 4). Which ranges, and what follows from it, is its owner's part.
// Loop thread only.
//
//   lock ─▶ hole? ─▶ zeroes to the peer
//        ─▶ read here, digests there ─▶ blocks that differ to the peer ─▶ unlock
#pragma once

#include <memory>
#include <vector>

#include "volume/core.h"
#include "volume/write_path.h"

namespace twinblock {

class BlockSync {
 public:
  struct Task {
    ByteRange range;       // on block boundaries; without may_be_hole kResyncRunBytesMax at most
    bool compare = false;  // blocks that are the same on both nodes are not sent
    bool send = true;      // false: differences are counted only
    bool may_be_hole = false;  // if it begins with a hole here, send that as zeroes
  };
  struct Outcome {
    ByteRange range;               // what was looked at: the task's range or its front
    uint64_t data_bytes = 0;       // sent as data
    uint64_t zero_bytes = 0;       // sent as zeroes
    uint64_t differing_bytes = 0;  // blocks that differed, with `compare`
    ByteRange first_difference;    // empty: none
  };
  class Owner {
   public:
    // A task has ended: what was sent has been acknowledged by the peer (not flushed).
    virtual void synced(const Outcome& outcome) = 0;
    // The local disk can't be read there.
    virtual void sync_failed(int error, uint64_t offset_bytes) = 0;
    // A task has ended in whatever way, and there is room for another.
    virtual void sync_has_room() = 0;

   protected:
    ~Owner() = default;
  };

  BlockSync(Core& core, WritePathOwner& disks, Owner& owner);
  ~BlockSync();

  void start(const Task& task);
  // Tasks go no further: those that wait for the peer end now, the others when their disk or range
  // comes back. None is reported but to sync_has_room().
  void session_lost();
  // The session stands, but tasks go no further than what has been sent. They come to their end one
  // after the other; none is to be started before all have.
  void halt();
  [[nodiscard]] size_t outstanding() const { return outstanding_; }
  // Gives up the buffers; nothing is outstanding.
  void release_memory();

 private:
  struct Run;

  void admitted(Run& run);
  void extent_known(Run& run);
  void read(Run& run);
  void read_done(Run& run);
  void answered(Run& run, const wire::FrameHeader& ack, std::span<const std::byte> payload);
  void proceed(Run& run);
  void compare(Run& run);
  void send(Run& run, ByteRange range);
  void send_zeroes(Run& run, ByteRange range);
  void finish_if_answered(Run& run);
  void end(Run& run);
  [[nodiscard]] bool abandoned(const Run& run) const;
  [[nodiscard]] bool stopped(const Run& run) const;

  Core& core_;
  WritePathOwner& disks_;
  Owner& owner_;
  uint64_t epoch_ = 0;  // grows with each lost session
  bool halted_ = false;
  size_t outstanding_ = 0;
  std::vector<std::unique_ptr<Run>> pool_;
  std::vector<Run*> free_;
};

}  // namespace twinblock
