#include "metadata/block_map.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "base/checks.h"
#include "base/limits.h"

namespace twinblock {
namespace {

static_assert(std::endian::native == std::endian::little,
              "bitmaps are stored and sent as they lie in memory; a big-endian port needs swaps");

constexpr uint64_t kBlock = limits::kBlockBytes;

// The bits [begin, end) of a 64-bit word, 0 <= begin < end <= 64.
uint64_t word_mask(uint64_t begin, uint64_t end) {
  const uint64_t high = end == 64 ? ~uint64_t{0} : (uint64_t{1} << end) - 1;
  return high & ~((uint64_t{1} << begin) - 1);
}

}  // namespace

BlockMap::BlockMap(uint64_t volume_bytes) { grow(volume_bytes); }

// Bits of a chunk whose first blocks are set. Those past its last block stay clear: merge() counts what is set.
std::unique_ptr<BlockMap::Bits> BlockMap::first_set(uint32_t blocks) {
  auto bits = std::make_unique<Bits>();
  for (uint64_t word = 0; word * 64 < blocks; ++word)
    (*bits)[word] = word_mask(0, std::min<uint64_t>(64, blocks - word * 64));
  return bits;
}

uint32_t BlockMap::blocks_in(uint64_t chunk) const {
  return static_cast<uint32_t>(std::min(kChunkBlocks, blocks_ - chunk * kChunkBlocks));
}

bool BlockMap::is_set(const Chunk& chunk, uint64_t block_in_chunk) const {
  if (!chunk.bits) return chunk.set != 0;
  return ((*chunk.bits)[block_in_chunk / 64] >> (block_in_chunk % 64) & 1) != 0;
}

// A chunk had `before` blocks set, and now has as many as it says.
void BlockMap::counted(uint64_t index, uint32_t before) {
  const uint32_t now = chunks_[index].set;
  set_blocks_ += now;
  set_blocks_ -= before;
  const uint64_t bit = uint64_t{1} << (index % 64);
  if (now != 0)
    used_[index / 64] |= bit;
  else
    used_[index / 64] &= ~bit;
}

// The first chunk at or after `index` that has a block set; `end` or more: none before that.
uint64_t BlockMap::next_used(uint64_t index, uint64_t end) const {
  end = std::min<uint64_t>(end, chunks_.size());
  while (index < end) {
    const uint64_t rest = used_[index / 64] >> (index % 64);
    if (rest != 0) return index + static_cast<uint64_t>(std::countr_zero(rest));
    index += 64 - index % 64;
  }
  return end;
}

void BlockMap::change_in_chunk(uint64_t index, uint64_t begin, uint64_t end, bool value) {
  Chunk& chunk = chunks_[index];
  const uint32_t all = blocks_in(index);
  const uint32_t before = chunk.set;
  if (before == (value ? all : 0)) return;
  if (end - begin == all) {
    chunk.bits.reset();
    chunk.set = value ? all : 0;
  } else {
    if (!chunk.bits) chunk.bits = first_set(before);  // all were clear, or all were set
    for (uint64_t word = begin / 64; word * 64 < end; ++word) {
      const uint64_t mask =
          word_mask(word * 64 < begin ? begin % 64 : 0, std::min<uint64_t>(64, end - word * 64));
      uint64_t& bits = (*chunk.bits)[word];
      const uint64_t after = value ? bits | mask : bits & ~mask;
      const int changed = std::popcount(bits ^ after);
      chunk.set += static_cast<uint32_t>(value ? changed : -changed);
      bits = after;
    }
    if (chunk.set == 0 || chunk.set == all) chunk.bits.reset();
  }
  counted(index, before);
}

void BlockMap::change(uint64_t first_block, uint64_t end_block, bool value) {
  TB_CHECK(end_block <= blocks_, "a range inside the volume");
  while (first_block < end_block) {
    const uint64_t chunk = first_block / kChunkBlocks;
    const uint64_t end = std::min(end_block, (chunk + 1) * kChunkBlocks);
    change_in_chunk(chunk, first_block % kChunkBlocks, end - chunk * kChunkBlocks, value);
    first_block = end;
  }
}

void BlockMap::set(uint64_t offset_bytes, uint64_t length_bytes) {
  if (length_bytes == 0) return;
  change(offset_bytes / kBlock, (offset_bytes + length_bytes - 1) / kBlock + 1, true);
}

void BlockMap::clear(uint64_t offset_bytes, uint64_t length_bytes) {
  const uint64_t end_bytes = offset_bytes + length_bytes;
  const uint64_t first = (offset_bytes + kBlock - 1) / kBlock;
  const uint64_t end = end_bytes >= volume_bytes_ ? blocks_ : end_bytes / kBlock;
  if (first < end) change(first, end, false);
}

void BlockMap::set_all() { change(0, blocks_, true); }

void BlockMap::clear_all() {
  for (uint64_t index = next_used(0, chunks_.size()); index < chunks_.size();
       index = next_used(index, chunks_.size())) {
    Chunk& chunk = chunks_[index];
    chunk.bits.reset();
    counted(index, std::exchange(chunk.set, 0));
  }
}

void BlockMap::grow(uint64_t volume_bytes) {
  TB_CHECK(volume_bytes >= volume_bytes_, "a volume never shrinks");
  if (!chunks_.empty()) {
    // "All set" without bits was said of fewer blocks than the last chunk is about to have.
    Chunk& last = chunks_.back();
    const uint64_t room = std::min(kChunkBlocks, (volume_bytes + kBlock - 1) / kBlock -
                                                     (chunks_.size() - 1) * kChunkBlocks);
    if (!last.bits && last.set != 0 && last.set < room) last.bits = first_set(last.set);
  }
  volume_bytes_ = volume_bytes;
  blocks_ = (volume_bytes + kBlock - 1) / kBlock;
  chunks_.resize((blocks_ + kChunkBlocks - 1) / kChunkBlocks);
  used_.resize((chunks_.size() + 63) / 64);
}

void BlockMap::merge(const BlockMap& other) {
  TB_CHECK(other.blocks_ == blocks_, "maps of one volume");
  for (uint64_t index = other.next_used(0, chunks_.size()); index < chunks_.size();
       index = other.next_used(index + 1, chunks_.size())) {
    const Chunk& theirs = other.chunks_[index];
    if (theirs.bits)
      merge_bits(index, *theirs.bits);
    else
      change_in_chunk(index, 0, blocks_in(index), true);
  }
}

void BlockMap::merge_bits(uint64_t index, const Bits& bits) {
  Chunk& mine = chunks_[index];
  if (mine.set == blocks_in(index)) return;
  if (!mine.bits) mine.bits = std::make_unique<Bits>();
  uint32_t set = 0;
  for (uint64_t word = 0; word < kWords; ++word) {
    (*mine.bits)[word] |= bits[word];
    set += static_cast<uint32_t>(std::popcount((*mine.bits)[word]));
  }
  const uint32_t before = std::exchange(mine.set, set);
  if (set == 0 || set == blocks_in(index)) mine.bits.reset();
  counted(index, before);
}

std::optional<BlockMap::ChunkView> BlockMap::next_chunk(uint64_t from_bytes) const {
  const uint64_t index = next_used((from_bytes + kChunkBytes - 1) / kChunkBytes, chunks_.size());
  if (index >= chunks_.size()) return std::nullopt;
  ChunkView view;
  view.offset_bytes = index * kChunkBytes;
  view.length_bytes = std::min(kChunkBytes, volume_bytes_ - view.offset_bytes);
  if (chunks_[index].bits) view.bits = std::as_bytes(std::span(*chunks_[index].bits));
  return view;
}

bool BlockMap::merge_chunk(const ChunkView& chunk) {
  const uint64_t index = chunk.offset_bytes / kChunkBytes;
  if (chunk.offset_bytes % kChunkBytes != 0 || index >= chunks_.size() ||
      chunk.length_bytes != std::min(kChunkBytes, volume_bytes_ - chunk.offset_bytes))
    return false;
  const uint32_t all = blocks_in(index);
  if (chunk.bits.empty()) {
    change_in_chunk(index, 0, all, true);
    return true;
  }
  Bits bits;
  if (chunk.bits.size() != sizeof bits) return false;
  std::memcpy(bits.data(), chunk.bits.data(), sizeof bits);
  for (uint64_t word = all / 64; word < kWords; ++word)
    if ((bits[word] & ~(word == all / 64 && all % 64 != 0 ? word_mask(0, all % 64) : 0)) != 0)
      return false;
  merge_bits(index, bits);
  return true;
}

void BlockMap::swap(BlockMap& other) noexcept {
  std::swap(volume_bytes_, other.volume_bytes_);
  std::swap(blocks_, other.blocks_);
  std::swap(set_blocks_, other.set_blocks_);
  chunks_.swap(other.chunks_);
  used_.swap(other.used_);
}

bool BlockMap::any(uint64_t offset_bytes, uint64_t length_bytes) const {
  if (set_blocks_ == 0 || length_bytes == 0) return false;
  const uint64_t from = offset_bytes / kBlock * kBlock;
  return next_run(from, kBlock, offset_bytes + length_bytes).has_value();
}

uint64_t BlockMap::set_bytes() const {
  if (set_blocks_ == 0) return 0;
  const uint64_t past_end = blocks_ * kBlock - volume_bytes_;
  const bool last_set = is_set(chunks_.back(), (blocks_ - 1) % kChunkBlocks);
  return set_blocks_ * kBlock - (last_set ? past_end : 0);
}

// The first block at or after `from` of a chunk that is not set; `end` at the most.
uint64_t BlockMap::end_of_run(const Chunk& chunk, uint64_t from, uint64_t end) const {
  if (!chunk.bits) return end;
  while (from < end) {
    const uint64_t clear = ~(*chunk.bits)[from / 64] >> (from % 64);
    if (clear != 0) return std::min(end, from + static_cast<uint64_t>(std::countr_zero(clear)));
    from += 64 - from % 64;
  }
  return end;
}

std::optional<ByteRange> BlockMap::next_run(uint64_t from_bytes, uint64_t longest_bytes,
                                            uint64_t until_bytes) const {
  if (set_blocks_ == 0) return std::nullopt;
  uint64_t block = (from_bytes + kBlock - 1) / kBlock;
  const uint64_t until = std::min(blocks_, until_bytes / kBlock + (until_bytes % kBlock != 0));
  const uint64_t end_chunk = (until + kChunkBlocks - 1) / kChunkBlocks;
  while (block < until) {
    const uint64_t index = next_used(block / kChunkBlocks, end_chunk);
    if (index >= end_chunk) break;
    block = std::max(block, index * kChunkBlocks);
    const Chunk& chunk = chunks_[index];
    if (chunk.bits) {
      const uint64_t in_chunk = block % kChunkBlocks;
      const uint64_t rest = (*chunk.bits)[in_chunk / 64] >> (in_chunk % 64);
      if (rest == 0) {
        block += 64 - in_chunk % 64;
        continue;
      }
      block += static_cast<uint64_t>(std::countr_zero(rest));
    }
    if (block >= until) break;
    const uint64_t longest = std::max<uint64_t>(1, longest_bytes / kBlock);
    const uint64_t first = block % kChunkBlocks;
    const uint64_t end =
        end_of_run(chunk, first, std::min<uint64_t>(blocks_in(index), first + longest));
    return ByteRange{block * kBlock,
                     std::min((index * kChunkBlocks + end) * kBlock, volume_bytes_)};
  }
  return std::nullopt;
}

}  // namespace twinblock
