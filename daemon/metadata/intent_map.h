// The bits of the intents: a region's is set if it may differ from the peer's after a crash. Of each the map
// knows whether it is on stable storage too, and when its region was touched last; of each page of them
// whether the disk has it as it is here. Pure; owned by the intent store, which writes the pages; loop
// thread only. Memory: four bits a region.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "metadata/changed_pages.h"
#include "metadata/disk_format.h"

namespace twinblock::metadata {

class IntentMap {
 public:
  struct Regions {
    uint64_t first;
    uint64_t last;  // inclusive
  };

  // What one age() asks `needed` about at the most: a few milliseconds.
  static constexpr uint64_t kAgeLooksMax = 65536;

  // Of a volume of no size yet: grow() comes next.
  explicit IntentMap(uint32_t region_bytes);

  // The new regions are clear, and their pages on the disk are.
  void grow(uint64_t volume_bytes);
  // A map that is clear begins with these bits, none of which counts as durable.
  void load(const std::vector<uint64_t>& words);

  [[nodiscard]] uint64_t volume_bytes() const { return volume_bytes_; }
  [[nodiscard]] uint32_t region_bytes() const { return uint32_t{1} << shift_; }
  // Those that a range of at least one byte, inside the volume, touches.
  [[nodiscard]] Regions regions_of(uint64_t offset_bytes, uint64_t length_bytes) const;

  // Whether all regions that the range touches are set durably; marks them as touched. A range of
  // at least one byte, inside the volume.
  [[nodiscard]] bool covered(uint64_t offset_bytes, uint64_t length_bytes) {
    const Regions range{offset_bytes >> shift_, (offset_bytes + length_bytes - 1) >> shift_};
    if (range.first != range.last) return covered_many(range);
    const uint64_t mask = uint64_t{1} << (range.first % 64);
    if ((durable_[range.first / 64] & mask) == 0) return false;
    touched_now_[range.first / 64] |= mask;
    return true;
  }
  [[nodiscard]] bool durable(Regions regions) const;

  // Sets and touches them. A page on which one is not durable is among the next that are taken.
  void set(Regions regions);
  void touch(Regions regions);
  // IntentStore::age(), of which it is the round.
  void age(const std::function<bool(uint64_t offset_bytes, uint64_t length_bytes)>& needed);
  // All bits.
  void clear();

  // Whether any page is not on the disk, nor taken for it, as it is here.
  [[nodiscard]] bool changed() const { return pages_.any(); }
  // Their images into `images`, ascending, at the most so many; those that are waited for first. They count as
  // written: what has changed meanwhile is changed again.
  void take_changed(size_t pages_max, uint64_t sequence, uint64_t tag, std::vector<IntentPage>& images);
  // They are on stable storage.
  void stored(std::span<const IntentPage> images);
  // The disk gets clear pages only: those with a bit are changed.
  void disk_is_cleared();

  // In runs of adjacent set regions, ascending, not past the volume's end.
  void for_each_set(
      const std::function<void(uint64_t offset_bytes, uint64_t length_bytes)>& visit) const;
  [[nodiscard]] bool any(uint64_t offset_bytes, uint64_t length_bytes) const;
  [[nodiscard]] uint64_t set_bytes() const;

 private:
  using PageState = ChangedPages::State;
  [[nodiscard]] bool covered_many(Regions regions);

  const unsigned shift_;  // region = offset >> shift_
  uint64_t volume_bytes_ = 0;
  uint64_t regions_ = 0;
  // A bit a region.
  std::vector<uint64_t> bits_;            // as it is to be
  std::vector<uint64_t> durable_;         // on stable storage, and in bits_
  std::vector<uint64_t> touched_now_;     // since the last age()
  std::vector<uint64_t> touched_before_;  // in the round before
  uint64_t set_regions_ = 0;
  uint64_t age_word_ = 0;  // where age() goes on
  ChangedPages pages_;
};

}  // namespace twinblock::metadata
