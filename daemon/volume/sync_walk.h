// The order in which a resync or a verification comes to what it has to do: cut into tasks for
// BlockSync, with holes apart from data, so that a hole of gigabytes is one question to the peer
// and none of it is read. Asks the local disk where its holes are; only a hint, since nothing is
// held meanwhile: BlockSync looks again. What a task leaves undone comes again.
//
// Where data and holes alternate in short pieces, it is not looked for holes at each: the stretch
// that is taken for data without looking doubles until a long hole is found.
//
// A run that the disk can't be read in comes again block by block, after all else: a disk that dies
// is asked first for what it still gives easily.
//
// Owned by the resync source or the verifier; loop thread only.
#pragma once

#include <deque>
#include <functional>
#include <optional>

#include "volume/block_sync.h"
#include "volume/core.h"

namespace twinblock {

class SyncWalk {
 public:
  // The first range at or after `from_bytes` that is to be done, as far as it is all of one kind.
  using Ranges = std::function<std::optional<ByteRange>(uint64_t from_bytes)>;
  struct Step {
    ByteRange range;
    bool hole = false;  // it seems to be one
  };

  // `looked`: next() may have something now.
  SyncWalk(Core& core, Ranges ranges, std::function<void()> looked);

  // From the start of the volume.
  void restart();
  // Data in steps of at most `run_bytes`, holes of at most `hole_bytes`. Nothing: the disk is being
  // asked, or all has been given out.
  [[nodiscard]] std::optional<Step> next(uint64_t run_bytes, uint64_t hole_bytes);
  // A task's end: what is left of it comes again.
  void ended(const BlockSync::Outcome& outcome);
  // A run of more than a block could not be read.
  void failed(const ByteRange& run);
  // The local disk is being asked.
  [[nodiscard]] bool looking() const { return looking_; }
  // Nothing is left to be given out, unless a task that is under way leaves something.
  [[nodiscard]] bool exhausted() const;

 private:
  [[nodiscard]] static Step take_from(std::deque<ByteRange>& ranges, uint64_t bytes_max);
  [[nodiscard]] std::optional<ByteRange> front() const;
  void took(const ByteRange& range);
  void look(uint64_t begin_bytes);
  void found();

  Core& core_;
  const Ranges ranges_;
  const std::function<void()> looked_;
  uint64_t cursor_ = 0;
  std::deque<ByteRange> plain_;  // left undone, to be done block by block
  std::deque<ByteRange> again_;  // left undone otherwise
  std::deque<ByteRange> singly_; // could not be read as a whole
  ByteRange data_;               // taken for data …
  ByteRange hole_;               // … and for a hole
  uint64_t stretch_bytes_ = 0;   // the next one that is taken for data
  bool looking_ = false;
  bool outdated_ = false;  // what the disk is being asked is not of interest any more
  DiskRequest request_;
};

}  // namespace twinblock
