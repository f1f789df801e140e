// A cache of reads by content: each content once, whatever number of places of the volume it lies in (docs/read-cache.md).
// PlaceIndex knows what lies where, ContentStore has the data, ContentDigest joins the two. Its memory is fixed when it is
// made, and begins empty with each process. Owned by WorkerView, through which all that changes the disk announces it, and
// all that reads asks; any thread, but for what says otherwise.
//
// What keeps a reader from data that is old:
//   - Who changes the disk raises the InflightFilter first, and has the places forgotten then, before the disk is given
//     anything (WorkerView::write_begins).
//   - Who has read the disk under a mark of that filter learns the places only if the filter says, asked under the lock of
//     the place, that nothing has begun there since the mark. To forget takes the same lock: what was learned before it is
//     gone, and whoever learns after it sees that the filter was raised.
//   - What a client has written is learned by the loop when that is acknowledged, while its range is held: nothing else
//     that could change the place has begun, as the loop alone begins it.
//   - Who is answered from here has a mark from before, and asks the filter afterwards, as who reads the disk does.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/limits.h"
#include "cache/cache_effort.h"
#include "cache/content_digest.h"
#include "cache/content_store.h"
#include "cache/equal_probe.h"
#include "cache/place_index.h"
#include "cache/reads_under_way.h"

namespace twinblock {

class ContentCache {
 public:
  struct Figures {
    uint64_t hits = 0, misses = 0;  // blocks that were asked for
    uint64_t equal_hits = 0;    // … of which no cache by place would have had: the place was not read since it was written
    uint64_t shared_blocks = 0;  // that were read, and whose content was there already
    uint64_t blocks = 0, blocks_max = 0;
    uint64_t places = 0, places_max = 0;
    uint64_t memory_bytes = 0, size_bytes = 0;
  };

  // Takes `size_bytes` in all, its index included.
  ContentCache(uint64_t volume_bytes, uint64_t size_bytes, const ContentDigest::Key& key);

  // What is known of the blocks from `first` on, whether or not their contents are here …
  [[nodiscard]] std::vector<PlaceIndex::Place> places(uint64_t first, size_t count);
  // … what is here of them, copied into their parts of `into`. `found` says of each block whether it was. How many
  // were not.
  size_t look(std::span<const PlaceIndex::Place> places, std::span<std::byte> into, std::vector<bool>& found);
  size_t look(uint64_t first, std::span<std::byte> into, std::vector<bool>& found) {
    return look(places(first, into.size() / limits::kBlockBytes), into, found);
  }
  // … and one of those contents, if it is here by now.
  [[nodiscard]] bool copy(const ContentTag& tag, std::byte* into) { return contents_.copy(tag, into); }
  // What was read there, of the blocks that `found` does not have.
  void keep(uint64_t first, std::span<const std::byte> data, const std::vector<bool>& found,
            const std::function<bool()>& still_true);
  // Whether there is time to keep() that: what was read, of the blocks that `found` does not have, …
  bool may_keep(std::span<const std::byte> data, const std::vector<bool>& found, uint64_t now_ns);
  // … and to have tags_of() what is to be written.
  bool may_learn(uint64_t offset_bytes, std::span<const std::byte> data, uint64_t now_ns);
  // Digests of the whole blocks in what is to be written, for written().
  std::vector<ContentTag> tags_of(uint64_t offset_bytes, std::span<const std::byte> data);
  // Loop thread, while the range is held: it was written and acknowledged.
  void written(uint64_t offset_bytes, std::span<const ContentTag> tags);

  // Any block that the range touches.
  void forget(uint64_t offset_bytes, uint64_t length_bytes);
  // … which will be soon: a hint.
  void expect(uint64_t offset_bytes, uint64_t length_bytes) const {
    places_.expect(offset_bytes / limits::kBlockBytes, length_bytes / limits::kBlockBytes);
  }
  void forget_all() { places_.forget_all(); }

  // What it may cost those who have other things to do.
  [[nodiscard]] CacheEffort& effort() { return effort_; }
  [[nodiscard]] ReadsUnderWay& under_way() { return under_way_; }
  [[nodiscard]] Figures figures() const;

 private:
  [[nodiscard]] uint64_t index_bytes() const {
    return places_.memory_bytes() + probe_.memory_bytes() + under_way_.memory_bytes();
  }

  const uint64_t size_bytes_;
  ContentDigest digest_;
  PlaceIndex places_;
  EqualProbe probe_;
  ReadsUnderWay under_way_;
  ContentStore contents_;
  CacheEffort effort_;
  std::atomic<uint64_t> hits_{0}, misses_{0}, equal_hits_{0}, shared_blocks_{0};
};

}  // namespace twinblock
