// Makes ranges the same on both nodes, or only compares them, with writes going on: one more writer
// under the range lock (invariant 4). Which ranges, and what follows from it, is its owner's part.
// Loop thread only.
//
//   lock ─▶ hole here? ─▶ zeroes to the peer, or the question whether it is one there, too
//        ─▶ read here, digests there ─▶ blocks that differ to the peer ─▶ unlock
//
// A resync keeps sparseness: zeroes travel as a flag that lets the target make a hole of them, be
// they a hole or blocks of zeroes here.
#pragma once

#include <vector>

#include "base/pool.h"
#include "volume/core.h"
#include "volume/disk_health.h"

namespace twinblock {

class BlockSync {
 public:
  struct Task {
    ByteRange range;       // on block boundaries; kResyncRunBytesMax at most, unless it is a hole
    bool compare = false;  // blocks that are the same on both nodes are not sent
    bool send = true;      // false: differences are counted only
    bool hole = false;     // it seems to be one here; with `compare` nothing is sent
  };
  struct Outcome {
    ByteRange range;               // what was done: the task's range or its front, perhaps empty
    ByteRange plain;               // not done, as it is no hole on both nodes
    ByteRange rest;                // not done, what follows that
    uint64_t data_bytes = 0;       // sent as data
    uint64_t zero_bytes = 0;       // sent as zeroes
    uint64_t differing_bytes = 0;  // blocks that differed, with `compare`
    ByteRange first_difference;    // empty: none
  };
  class Owner {
   public:
    // A task has ended: what was sent has been acknowledged by the peer (not flushed), and what
    // was not done is to be done by others.
    virtual void synced(const Outcome& outcome) = 0;
    // The task, of this range, has done nothing: the local disk can't be read there, at one place at least.
    virtual void sync_failed(int error, const ByteRange& range) = 0;
    // A task has ended in whatever way, and there is room for another.
    virtual void sync_has_room() = 0;

   protected:
    ~Owner() = default;
  };

  BlockSync(Core& core, DiskHealth& disks, Owner& owner);
  ~BlockSync();

  void start(const Task& task);
  // Tasks go no further: those that wait for the peer end now, the others when their disk or range
  // comes back. None is reported but to sync_has_room().
  void session_lost();
  // The session stands, but tasks go no further than what has been sent. They come to their end one
  // after the other; none is to be started before all have.
  void halt();
  // The local disk was given up, and what it still has may never come back: tasks do not wait for that.
  void disk_left();
  [[nodiscard]] size_t outstanding() const { return outstanding_; }
  // The ranges that the peer was sent, and has not acknowledged: it may have any part of that.
  [[nodiscard]] std::vector<ByteRange> sent() const;
  // Gives up the buffers, unless a task has one, or the disk: of an earlier session one may, whose read hangs.
  void release_memory();

 private:
  struct Run;

  void admitted(Run& run);
  void look(Run& run);
  [[nodiscard]] bool answered_too_late(Run& run);
  void extent_known(Run& run);
  void ask_for_hole(Run& run);
  void hole_answered(Run& run, const PeerAnswer& answer);
  void leave(Run& run, uint64_t done_end, uint64_t plain_end);
  void read(Run& run);
  void read_done(Run& run);
  void answered(Run& run, const PeerAnswer& answer);
  void proceed(Run& run);
  void compare(Run& run);
  void send(Run& run, ByteRange range);
  void send_data(Run& run, ByteRange range);
  void send_zeroes(Run& run, ByteRange range);
  void finish_if_answered(Run& run);
  void end(Run& run);
  [[nodiscard]] bool abandoned(const Run& run) const;
  [[nodiscard]] bool stopped(const Run& run) const;

  Core& core_;
  DiskHealth& disks_;
  Owner& owner_;
  uint64_t epoch_ = 0;  // grows with each lost session
  bool halted_ = false;
  size_t outstanding_ = 0;
  Pool<Run> runs_;
};

}  // namespace twinblock
