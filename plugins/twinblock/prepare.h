// What a worker does to a write before the loop sees it, on its own thread: looks whether all is
// zero, cuts the data into pieces, each of which becomes one frame, compresses those for which it
// pays, computes their checksums, and the digests by which a cache of reads will know what lies there.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "volume/engine.h"

namespace twinblock {

class PreparedWrite {
 public:
  // `data` stays valid for as long as this object is used.
  PreparedWrite(Engine& engine, uint64_t offset_bytes, std::span<const std::byte> data);
  // When the write has ended.
  ~PreparedWrite();
  PreparedWrite(const PreparedWrite&) = delete;
  PreparedWrite& operator=(const PreparedWrite&) = delete;

  // Fills in what the request says of its data; the request must not outlive this object.
  void describe(ClientRequest& request) const;

 private:
  void cut(std::span<const std::byte> data);
  // Whether any piece was tried.
  bool compress(CompressionPolicy::Links links);
  [[nodiscard]] size_t compress(WirePiece& piece, CompressionPolicy::Choice choice,
                                std::span<std::byte> into);

  Engine& engine_;
  const bool all_zero_;
  uint64_t piece_bytes_ = 0;
  uint64_t compression_ns_ = 0;
  uint64_t demanded_bytes_ = 0;    // of the links
  std::array<WirePiece, 32> few_;  // without an allocation
  std::vector<WirePiece> many_;
  std::span<WirePiece> pieces_;
  std::vector<ContentTag> tags_;  // of its whole blocks, where there is a cache of reads
  std::unique_ptr<std::byte[]> room_;  // of compressed pieces
};

}  // namespace twinblock
