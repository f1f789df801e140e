#include "cache/place_index.h"

#include <algorithm>
#include <bit>

#include "base/checks.h"
#include "base/limits.h"

namespace twinblock {
namespace {

constexpr uint64_t kChunksMax = 65536;
// More than these of a long write are fetched as they are needed, several at a time.
constexpr uint64_t kExpected = 8;
constexpr uint64_t kChunkBlocksMin = kMiB / limits::kBlockBytes;

uint64_t chunk_blocks_of(uint64_t volume_blocks) {
  return std::max(kChunkBlocksMin, std::bit_ceil((volume_blocks + kChunksMax - 1) / kChunksMax));
}

// Of the blocks of a small volume there are no more to know, but a bucket may be full by chance.
size_t buckets_of(uint64_t volume_blocks, uint64_t budget_bytes, size_t bucket_bytes, size_t ways) {
  const uint64_t most = (volume_blocks + volume_blocks / 2) / ways + 1;
  return std::max<uint64_t>(1, std::min(most, budget_bytes / bucket_bytes));
}

}  // namespace

PlaceIndex::PlaceIndex(uint64_t volume_bytes, uint64_t budget_bytes)
    : blocks_(volume_bytes / limits::kBlockBytes),
      chunk_blocks_(chunk_blocks_of(blocks_)),
      chunks_((blocks_ + chunk_blocks_ - 1) / chunk_blocks_),
      buckets_(buckets_of(blocks_, budget_bytes - std::min<uint64_t>(budget_bytes, chunks_.bytes()),
                          sizeof(Bucket), kWays)),
      shards_(std::max<size_t>(1, std::min({kShardsMax, chunks_.size(), buckets_.size()}))) {
  TB_CHECK(blocks_ <= kBlockMask + 1, "a block's number fits an entry");
  for (size_t i = 0; i < shards_.size(); ++i) {
    shards_[i].first_bucket = buckets_.size() * i / shards_.size();
    shards_[i].buckets = buckets_.size() * (i + 1) / shards_.size() - shards_[i].first_bucket;
  }
}

// Blocks behind the end that the volume had when this was made are never known.
template <typename F>
void PlaceIndex::each_chunk(uint64_t first, uint64_t count, F&& visit) {
  const uint64_t end = std::min(blocks_, first + count);
  for (uint64_t at = first; at < end;) {
    const uint64_t chunk = at / chunk_blocks_;
    const uint64_t stop = std::min(end, (chunk + 1) * chunk_blocks_);
    Shard& shard = shards_[chunk % shards_.size()];
    const std::lock_guard guard(shard.lock);
    visit(shard, chunk, at, stop);
    at = stop;
  }
}

uint64_t PlaceIndex::name_of(uint64_t block) const {
  return block | (uint64_t{chunks_[block / chunk_blocks_].epoch} + 1) << kBlockBits;
}

size_t PlaceIndex::bucket_number(const Shard& shard, uint64_t block) const {
  // Blocks next to each other lie apart (Fibonacci hashing), so that none of a run has to give way to another.
  const uint64_t hash = block * 0x9e3779b97f4a7c15;
  return shard.first_bucket + spread_over(hash, shard.buckets);
}

void PlaceIndex::find(uint64_t first, std::span<Place> into) {
  each_chunk(first, into.size(), [&](Shard& shard, uint64_t chunk, uint64_t at, uint64_t stop) {
    if (chunks_[chunk].known == 0) return;
    for (; at < stop; ++at) {
      Bucket& bucket = bucket_of(shard, at);
      const uint64_t name = name_of(at);
      for (size_t way = 0; way < kWays; ++way) {
        if ((bucket.names[way] & kNameMask) != name) continue;
        bucket.names[way] |= kAsked;
        into[at - first] = {true, (bucket.names[way] & kWasRead) != 0, bucket.tags[way]};
        break;
      }
    }
  });
}

// An entry of the same name, one that counts for nothing, or the first that nobody has asked for since the hand went by.
size_t PlaceIndex::way_for(Shard& shard, Bucket& bucket, uint64_t name) {
  size_t unused = kWays;
  for (size_t way = 0; way < kWays; ++way) {
    const uint64_t there = bucket.names[way] & kNameMask;
    if (there == name) return way;
    if (there == 0 || there != name_of(there & kBlockMask)) unused = way;
  }
  if (unused < kWays) return unused;
  const size_t start = shard.hand++;
  for (size_t i = 0; i < kWays; ++i) {
    const size_t way = (start + i) % kWays;
    if ((bucket.names[way] & kAsked) == 0) return way;
    bucket.names[way] &= ~kAsked;
  }
  return start % kWays;
}

void PlaceIndex::remove(uint64_t& name) {
  if (name != 0 && (name & kNameMask) == name_of(name & kBlockMask)) {
    --chunks_[(name & kBlockMask) / chunk_blocks_].known;
    known_.fetch_sub(1, std::memory_order_relaxed);
  }
  name = 0;
}

void PlaceIndex::learn(uint64_t first, std::span<const ContentTag> tags, bool was_read,
                       const std::function<bool()>& still_true) {
  each_chunk(first, tags.size(), [&](Shard& shard, uint64_t chunk, uint64_t at, uint64_t stop) {
    if (!still_true()) return;
    for (; at < stop; ++at) {
      Bucket& bucket = bucket_of(shard, at);
      const uint64_t name = name_of(at);
      const size_t way = way_for(shard, bucket, name);
      remove(bucket.names[way]);
      bucket.names[way] = name | (was_read ? kWasRead : 0);
      bucket.tags[way] = tags[at - first];
      ++chunks_[chunk].known;
      known_.fetch_add(1, std::memory_order_relaxed);
    }
  });
}

void PlaceIndex::forget(uint64_t first, uint64_t count) {
  each_chunk(first, count, [&](Shard& shard, uint64_t chunk, uint64_t at, uint64_t stop) {
    if (chunks_[chunk].known == 0) return;
    if (stop - at == chunk_blocks_) {
      forget_chunk(shard, chunk);
      return;
    }
    for (; at < stop; ++at) {
      Bucket& bucket = bucket_of(shard, at);
      const uint64_t name = name_of(at);
      for (uint64_t& there : bucket.names)
        if ((there & kNameMask) == name) remove(there);
    }
  });
}

void PlaceIndex::expect(uint64_t first, uint64_t count) const {
  for (uint64_t block = first; block < std::min(blocks_, first + std::min(count, kExpected)); ++block)
    __builtin_prefetch(&buckets_[bucket_number(shards_[block / chunk_blocks_ % shards_.size()], block)], 1);
}

void PlaceIndex::forget_all() {
  for (size_t index = 0; index < shards_.size(); ++index) {
    const std::lock_guard guard(shards_[index].lock);
    for (uint64_t chunk = index; chunk < chunks_.size(); chunk += shards_.size()) forget_chunk(shards_[index], chunk);
  }
}

void PlaceIndex::forget_chunk(Shard& shard, uint64_t chunk) {
  if (chunks_[chunk].known == 0) return;
  known_.fetch_sub(chunks_[chunk].known, std::memory_order_relaxed);
  chunks_[chunk].known = 0;
  // Before an epoch comes a second time, nothing may be left of the first.
  if (++chunks_[chunk].epoch == kEpochMax) clear(shard);
}

void PlaceIndex::clear(Shard& shard) {
  for (size_t i = 0; i < shard.buckets; ++i) buckets_[shard.first_bucket + i] = {};
  const auto index = static_cast<size_t>(&shard - shards_.data());
  for (uint64_t chunk = index; chunk < chunks_.size(); chunk += shards_.size()) {
    known_.fetch_sub(chunks_[chunk].known, std::memory_order_relaxed);
    chunks_[chunk] = {};
  }
}

}  // namespace twinblock
