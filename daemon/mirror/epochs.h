// Epochs: what the peer has acknowledged but not yet flushed. A block is forgotten only when a
// flush that began after its write has completed on both nodes (invariant 3). Flushes are grouped:
// one is under way at a time, and those that arrive meanwhile share the next. Pure; loop thread
// only.
#pragma once

#include <cstdint>

#include "base/checks.h"
#include "metadata/block_map.h"

namespace twinblock {

class Epochs {
 public:
  explicit Epochs(uint64_t volume_bytes) : open_(volume_bytes), closing_(volume_bytes) {}

  void grow(uint64_t volume_bytes) {
    open_.grow(volume_bytes);
    closing_.grow(volume_bytes);
  }
  // A write was acknowledged by the peer.
  void written(uint64_t offset_bytes, uint64_t length_bytes) {
    open_.set(offset_bytes, length_bytes);
  }
  // A flush begins on both nodes: it covers all that was written before.
  void flush_began() {
    flushing_ = true;
    if (closing_.empty()) {
      closing_.swap(open_);
    } else {
      closing_.merge(open_);
      open_.clear_all();
    }
  }
  // It has completed on both nodes, or on the one whose replica is the only good one and on record as that: what it covers is
  // forgotten.
  void flush_completed() {
    TB_CHECK(flushing_, "an epoch is closed by a flush that began after its writes");
    flushing_ = false;
    closing_.clear_all();
  }
  // The peer is lost, or a flush failed: everything not forgotten is added to `dirty`.
  void peer_lost(BlockMap& dirty) {
    add_to(dirty);
    open_.clear_all();
    closing_.clear_all();
    flushing_ = false;  // what it covered is the dirty map's: it closes nothing any more
  }
  // Of these the peer, which has kept its memory, has what counts; no flush has closed them there.
  void reopened(const BlockMap& blocks) { open_.merge(blocks); }
  [[nodiscard]] bool any(uint64_t offset_bytes, uint64_t length_bytes) const {
    return open_.any(offset_bytes, length_bytes) || closing_.any(offset_bytes, length_bytes);
  }
  void add_to(BlockMap& blocks) const {
    blocks.merge(open_);
    blocks.merge(closing_);
  }
  [[nodiscard]] bool empty() const { return open_.empty() && closing_.empty(); }

 private:
  BlockMap open_;
  BlockMap closing_;
  bool flushing_ = false;  // on both nodes
};

}  // namespace twinblock
