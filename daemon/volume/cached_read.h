// One read of a client's beside the loop: what is cached is copied, the disk is asked for the rest, and that is kept.
// Before it, its owner has taken a mark of the worker's view, and before the client is answered he asks whether that is
// unchanged, as for any read of the disk. Without a cache all is read from the disk. Owned by who reads, the plugin's worker
// or the simulator's client; on its thread. Whole blocks only: what a request has of a block in part is read from the disk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "volume/worker_view.h"

namespace twinblock {

class CachedRead {
 public:
  struct Run {
    uint64_t at_bytes, length_bytes;  // within the request
  };

  // Copies what is cached. Without a cache (nullptr) all is missing.
  CachedRead(ContentCache* cache, const WorkerView& view, InflightFilter::Mark mark, uint64_t offset_bytes,
             std::span<std::byte> into);
  CachedRead(const CachedRead&) = delete;
  CachedRead& operator=(const CachedRead&) = delete;

  // What is still to be read from the disk, in order: the gaps, or all at once where most of it is missing.
  [[nodiscard]] std::span<const Run> missing() const { return all_ ? std::span(&whole_, 1) : std::span(gaps_); }
  // Blocks that the cache has not.
  [[nodiscard]] size_t blocks_missing() const { return blocks_missing_; }
  // The rest was read, and the mark was unchanged afterwards. It may have changed again by now.
  void keep() const;

 private:
  void find_gaps(uint64_t begin_bytes);

  ContentCache* const cache_;
  const WorkerView& view_;
  const InflightFilter::Mark mark_;
  const uint64_t offset_bytes_;
  const Run whole_;
  uint64_t first_block_ = 0;
  std::span<std::byte> blocks_;  // the whole ones
  std::vector<bool> found_;
  size_t blocks_missing_ = 0;
  bool all_ = true;
  std::vector<Run> gaps_;
};

}  // namespace twinblock
