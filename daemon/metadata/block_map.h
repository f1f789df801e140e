// A set of blocks of limits::kBlockBytes, sparse: chunks of 32768 blocks (128 MiB of volume) that
// are all clear, all set, or a bitmap of 4 KiB, so that an idle map of a large volume and a full
// one both cost little. Loop thread only.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace twinblock {

// Half-open, in bytes, on block boundaries (the last block may be cut by the volume's end).
struct ByteRange {
  uint64_t begin_bytes = 0;
  uint64_t end_bytes = 0;
  [[nodiscard]] uint64_t length() const { return end_bytes - begin_bytes; }
};

class BlockMap {
 public:
  explicit BlockMap(uint64_t volume_bytes);

  // All blocks that [offset, offset + length) touches.
  void set(uint64_t offset_bytes, uint64_t length_bytes);
  // All blocks that lie wholly in the range (its end may be the volume's end): a block is never
  // forgotten by a partial range.
  void clear(uint64_t offset_bytes, uint64_t length_bytes);
  void set_all();
  void clear_all();
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
  // crosses a chunk.
  [[nodiscard]] std::optional<ByteRange> next_run(uint64_t from_bytes,
                                                  uint64_t longest_bytes) const;

 private:
  static constexpr uint64_t kChunkBlocks = 32768;
  static constexpr uint64_t kWords = kChunkBlocks / 64;
  using Bits = std::array<uint64_t, kWords>;
  struct Chunk {
    std::unique_ptr<Bits> bits;  // null: all clear, or all set when set == blocks of the chunk
    uint32_t set = 0;
  };

  [[nodiscard]] uint32_t blocks_in(uint64_t chunk) const;
  [[nodiscard]] bool is_set(const Chunk& chunk, uint64_t block_in_chunk) const;
  void change(uint64_t first_block, uint64_t end_block, bool value);
  void change_in_chunk(uint64_t chunk, uint64_t begin, uint64_t end, bool value);

  uint64_t volume_bytes_;
  uint64_t blocks_;
  uint64_t set_blocks_ = 0;
  std::vector<Chunk> chunks_;
};

}  // namespace twinblock
