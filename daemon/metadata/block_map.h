// A set of blocks of limits::kBlockBytes, sparse: chunks of 32768 blocks (128 MiB of volume) that
// are all clear, all set, or a bitmap of 4 KiB, so that an idle map of a large volume and a full
// one both cost little. A bit for each chunk says whether anything in it is set: what is searched
// costs the chunks that are used, and 64 KiB of such bits at the most (64 TiB), not the volume.
// Loop thread only.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/limits.h"

namespace twinblock {

// Half-open, in bytes, on block boundaries (the last block may be cut by the volume's end).
struct ByteRange {
  uint64_t begin_bytes = 0;
  uint64_t end_bytes = 0;
  [[nodiscard]] uint64_t length() const { return end_bytes - begin_bytes; }
};

class BlockMap {
 public:
  static constexpr uint64_t kChunkBlocks = 32768;
  static constexpr uint64_t kChunkBytes = kChunkBlocks * limits::kBlockBytes;
  static constexpr size_t kChunkBitmapBytes = kChunkBlocks / 8;

  // One chunk as it is stored and sent. Block i of it is bit i % 8 of byte i / 8.
  struct ChunkView {
    uint64_t offset_bytes = 0;        // a multiple of kChunkBytes
    uint64_t length_bytes = 0;        // kChunkBytes; less only at the volume's end
    std::span<const std::byte> bits;  // kChunkBitmapBytes; empty: all blocks are set
  };

  explicit BlockMap(uint64_t volume_bytes);

  // All blocks that [offset, offset + length) touches.
  void set(uint64_t offset_bytes, uint64_t length_bytes);
  // All blocks that lie wholly in the range (its end may be the volume's end): a block is never
  // forgotten by a partial range.
  void clear(uint64_t offset_bytes, uint64_t length_bytes);
  void set_all();
  void clear_all();
  // The volume has become larger; what is new of it is clear. No less than before.
  void grow(uint64_t volume_bytes);
  // this |= other; same volume size.
  void merge(const BlockMap& other);
  void swap(BlockMap& other) noexcept;

  // Whether any block that the range touches is set.
  [[nodiscard]] bool any(uint64_t offset_bytes, uint64_t length_bytes) const;
  [[nodiscard]] bool empty() const { return set_blocks_ == 0; }
  [[nodiscard]] uint64_t set_blocks() const { return set_blocks_; }
  // What the set blocks cover, not past the volume's end.
  [[nodiscard]] uint64_t set_bytes() const;
  // The first run of set blocks at or after `from_bytes`, at most `longest_bytes` long; a run never
  // crosses a chunk. With `until_bytes`: if it begins before that.
  [[nodiscard]] std::optional<ByteRange> next_run(uint64_t from_bytes, uint64_t longest_bytes,
                                                  uint64_t until_bytes = ~uint64_t{0}) const;

  // The first chunk with a set block that begins at or after `from_bytes`; go on at its end. The
  // bits are valid until the map changes.
  [[nodiscard]] std::optional<ChunkView> next_chunk(uint64_t from_bytes) const;
  // Adds the blocks of a chunk that came from outside. False, and nothing is changed, when it is no
  // chunk of this volume: wrong place, length or bitmap size, or a bit past the volume's end.
  [[nodiscard]] bool merge_chunk(const ChunkView& chunk);

 private:
  static constexpr uint64_t kWords = kChunkBlocks / 64;
  using Bits = std::array<uint64_t, kWords>;
  struct Chunk {
    std::unique_ptr<Bits> bits;  // null: all clear, or all set when set == blocks of the chunk
    uint32_t set = 0;
  };

  static std::unique_ptr<Bits> first_set(uint32_t blocks);
  [[nodiscard]] uint32_t blocks_in(uint64_t chunk) const;
  [[nodiscard]] bool is_set(const Chunk& chunk, uint64_t block_in_chunk) const;
  void change(uint64_t first_block, uint64_t end_block, bool value);
  void change_in_chunk(uint64_t chunk, uint64_t begin, uint64_t end, bool value);
  void merge_bits(uint64_t chunk, const Bits& bits);
  void counted(uint64_t chunk, uint32_t before);
  [[nodiscard]] uint64_t next_used(uint64_t chunk, uint64_t end) const;
  [[nodiscard]] uint64_t end_of_run(const Chunk& chunk, uint64_t from, uint64_t end) const;

  uint64_t volume_bytes_ = 0;
  uint64_t blocks_ = 0;
  uint64_t set_blocks_ = 0;
  std::vector<Chunk> chunks_;
  std::vector<uint64_t> used_;  // a bit for each chunk that has a block set
};

}  // namespace twinblock
