// Which blocks may differ from the peer's, as far as this node knows. A block goes from a write in
// flight to the open epoch, or to `dirty` when the peer has not got it; a resync brings it from there
// to the open epoch, and a flush on both nodes forgets it. So outside writes in flight and epochs,
// `dirty` holds every one; those in `coarse` only may differ, and are compared before they are sent;
// those in `unreadable` a resync leaves for later.
// Whatever may differ is also in the intents, or the record says all_dirty, or repairing, or is about another backing
// (invariant 3). Owned by Core; loop thread only.
#pragma once

#include <cstdint>
#include <optional>

#include "base/checks.h"
#include "metadata/block_map.h"
#include "metadata/intent_store.h"
#include "metadata/load.h"
#include "mirror/epochs.h"

namespace twinblock {

class Differences {
 public:
  explicit Differences(uint64_t volume_bytes)
      : dirty_(volume_bytes), coarse_(volume_bytes), unreadable_(volume_bytes), epochs_(volume_bytes) {}

  [[nodiscard]] const BlockMap& dirty() const { return dirty_; }
  [[nodiscard]] const BlockMap& coarse() const { return coarse_; }
  // Those of `dirty` that this node's own disk could not be read at.
  [[nodiscard]] const BlockMap& unreadable() const { return unreadable_; }
  [[nodiscard]] const Epochs& epochs() const { return epochs_; }
  // Whether all of these were to be compared: the peer may have them.
  [[nodiscard]] bool peer_may_have_unreadable() const;
  // No block is known to be missed, but for those in flight and in epochs.
  [[nodiscard]] bool none_known() const { return dirty_.empty(); }
  // … but for those that could not be read.
  [[nodiscard]] bool none_readable() const { return dirty_.set_blocks() == unreadable_.set_blocks(); }
  // The first run of `dirty` at or after `from_bytes`, and before `until_bytes`, that is not known to be unreadable;
  // it never crosses a chunk.
  [[nodiscard]] std::optional<ByteRange> next_readable(uint64_t from_bytes,
                                                       uint64_t until_bytes = ~uint64_t{0}) const;
  // The sets are about the peer that this node was last together with: false where this node's own
  // data is not believed.
  [[nodiscard]] bool valid() const { return valid_; }
  void set_valid(bool valid) { valid_ = valid; }
  // Whether any block there is missed, or in an epoch.
  [[nodiscard]] bool any(uint64_t offset_bytes, uint64_t length_bytes) const {
    return dirty_.any(offset_bytes, length_bytes) || epochs_.any(offset_bytes, length_bytes);
  }
  // What would be missed if the peer were lost now, but for writes in flight.
  [[nodiscard]] BlockMap without_peer(uint64_t volume_bytes) const {
    BlockMap blocks(volume_bytes);
    blocks.merge(dirty_);
    epochs_.add_to(blocks);
    return blocks;
  }

  // At start, of a node that has a record: what may differ, as far as the metadata disk tells.
  // `valid`: the data is there.
  void load(metadata::Loaded& loaded, const metadata::IntentStore& intents, bool valid);
  // The volume has become larger, by what is the same on both nodes.
  void grow(uint64_t volume_bytes) {
    dirty_.grow(volume_bytes);
    coarse_.grow(volume_bytes);
    unreadable_.grow(volume_bytes);
    epochs_.grow(volume_bytes);
  }
  // The peer has not got what was written here, or not for sure.
  void missed(uint64_t offset_bytes, uint64_t length_bytes) {
    dirty_.set(offset_bytes, length_bytes);
  }
  // These blocks may differ; that they do is not known.
  void may_differ(uint64_t offset_bytes, uint64_t length_bytes) {
    dirty_.set(offset_bytes, length_bytes);
    coarse_.set(offset_bytes, length_bytes);
  }
  // Every block is to be sent, or compared if it is in `coarse` …
  void all_missed() { dirty_.set_all(); }
  // … which all are.
  void all_may_differ() {
    dirty_.set_all();
    coarse_.set_all();
  }
  // What the other replica reads tells nothing: all that may differ is sent.
  void compare_nothing() { coarse_.clear_all(); }
  // A chunk of the target's own set, which came from outside. False: it is no chunk of this volume.
  [[nodiscard]] bool merge_chunk(const BlockMap::ChunkView& chunk, bool compare) {
    const bool merged = (!compare || coarse_.merge_chunk(chunk)) && dirty_.merge_chunk(chunk);
    check_coarse();
    return merged;
  }
  // The two are the same.
  void clear_all() {
    dirty_.clear_all();
    coarse_.clear_all();
    unreadable_.clear_all();
  }
  // The disk can't be read in this block, as long as nothing is written there.
  void found_unreadable(const ByteRange& block);
  // It may have changed its mind.
  void try_unreadable_again() { unreadable_.clear_all(); }

  // The peer has acknowledged a write, which this node's disk has taken, too, if it can.
  void acknowledged(uint64_t offset_bytes, uint64_t length_bytes) {
    epochs_.written(offset_bytes, length_bytes);
    if (!unreadable_.empty()) may_be_readable(offset_bytes, length_bytes);
  }
  // … what a resync sent or compared: it has that in its page cache only.
  void synced(const ByteRange& range) {
    epochs_.written(range.begin_bytes, range.length());
    dirty_.clear(range.begin_bytes, range.length());
    coarse_.clear(range.begin_bytes, range.length());
    unreadable_.clear(range.begin_bytes, range.length());
    check_coarse();
  }
  void flush_began() { epochs_.flush_began(); }
  void flush_completed() { epochs_.flush_completed(); }
  // The peer's replica is the only good one, and it has kept its memory: it misses nothing, and what it holds in memory
  // only the next flush there closes.
  void left_to_peer() {
    epochs_.reopened(dirty_);
    clear_all();
  }
  // What no flush has closed on both nodes is missed.
  void peer_lost() { epochs_.peer_lost(dirty_); }

 private:
  void may_be_readable(uint64_t offset_bytes, uint64_t length_bytes);
  // What is compared is a part of what may differ, as is what is left for later; the numbers tell of a slip.
  void check_coarse() const {
    TB_CHECK(coarse_.set_blocks() <= dirty_.set_blocks(),
             "what is compared before it is sent is among what may differ");
    TB_CHECK(unreadable_.set_blocks() <= dirty_.set_blocks(), "what is left for later is among what may differ");
  }

  BlockMap dirty_;
  BlockMap coarse_;
  BlockMap unreadable_;
  Epochs epochs_;
  bool valid_ = false;
};

}  // namespace twinblock
