// Which content lies in which block of the volume, as far as it is known: a table of a fixed size that forgets what was
// not asked for when it is full. What it says must be true of the disk: who changes the disk forgets the place first,
// and who learns a place says under the shard's lock that nothing has changed it meanwhile. Owned by ContentCache; any
// thread.
//
// The volume is cut into chunks, each of which belongs to one shard with a lock and buckets of its own. A lock, and no
// atomics: to learn and to forget exclude each other, or a place could be learned that was just forgotten. It
// is held for some tens of nanoseconds a block, and no data is copied under it. A chunk has an epoch, which is in each of its
// entries: to forget a whole chunk is to count it up.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "cache/content_digest.h"
#include "cache/zeroed_array.h"

namespace twinblock {

class PlaceIndex {
 public:
  struct Place {
    bool known = false;
    bool was_read = false;  // the disk was read there; else a write has told what lies there
    ContentTag tag{};
  };

  // Takes `budget_bytes` at the most, and less for a volume that has fewer blocks.
  PlaceIndex(uint64_t volume_bytes, uint64_t budget_bytes);

  // What is known of the blocks from `first` on.
  void find(uint64_t first, std::span<Place> into);
  // The blocks from `first` on hold these contents, unless `still_true`, which is asked under the lock, says no.
  void learn(uint64_t first, std::span<const ContentTag> tags, bool was_read, const std::function<bool()>& still_true);
  void forget(uint64_t first, uint64_t count);
  // Of these blocks the first few will be forgotten or asked for soon: what is known of them is fetched from memory.
  void expect(uint64_t first, uint64_t count) const;
  void forget_all();

  [[nodiscard]] uint64_t known() const { return known_.load(std::memory_order_relaxed); }
  [[nodiscard]] uint64_t places_max() const { return buckets_.size() * kWays; }
  [[nodiscard]] uint64_t memory_bytes() const { return buckets_.bytes() + chunks_.bytes(); }

 private:
  static constexpr size_t kWays = 8;
  static constexpr size_t kShardsMax = 64;
  // The tags of a bucket are one line of the processor's cache: whoever forgets a place needs no other.
  struct Bucket {
    uint64_t names[kWays];
    ContentTag tags[kWays];
  };
  struct Chunk {
    uint32_t epoch;  // of entries that count; one less than it is: it begins with zeroes
    uint32_t known;
  };
  struct Shard {
    std::mutex lock;
    size_t first_bucket = 0, buckets = 0;
    size_t hand = 0;  // where the next one is replaced
  };
  // An entry's name: its block, its chunk's epoch, which is never 0, and two marks. 0: there is none.
  static constexpr uint64_t kBlockBits = 34, kEpochBits = 28;
  static constexpr uint64_t kBlockMask = (uint64_t{1} << kBlockBits) - 1;
  static constexpr uint64_t kNameMask = (uint64_t{1} << (kBlockBits + kEpochBits)) - 1;
  static constexpr uint64_t kAsked = uint64_t{1} << 62;  // since the hand went by
  static constexpr uint64_t kWasRead = uint64_t{1} << 63;
  static constexpr uint32_t kEpochMax = (1u << kEpochBits) - 2;

  template <typename F>
  void each_chunk(uint64_t first, uint64_t count, F&& visit);
  [[nodiscard]] uint64_t name_of(uint64_t block) const;
  [[nodiscard]] size_t bucket_number(const Shard& shard, uint64_t block) const;
  Bucket& bucket_of(const Shard& shard, uint64_t block) { return buckets_[bucket_number(shard, block)]; }
  size_t way_for(Shard& shard, Bucket& bucket, uint64_t name);
  void remove(uint64_t& name);
  void forget_chunk(Shard& shard, uint64_t chunk);
  void clear(Shard& shard);

  const uint64_t blocks_;
  const uint64_t chunk_blocks_;
  ZeroedArray<Chunk> chunks_;    // each is guarded by its shard's lock, …
  ZeroedArray<Bucket> buckets_;  // … as are a shard's buckets
  std::vector<Shard> shards_;
  std::atomic<uint64_t> known_{0};
};

}  // namespace twinblock
