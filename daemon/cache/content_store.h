// The data of the cache of reads: blocks by their contents, each once, in memory of a fixed size. Which of them stay is
// decided by S3-FIFO (Yang, Zhang, Qiu, Yue, Rashmi: "FIFO queues are all you need for cache eviction", SOSP 2023): what
// comes in waits in a small queue; what was asked for more than once there moves to the main one, and all else leaves,
// so that a scan passes through a tenth of the room. Who comes back soon after that, which a list of ghosts tells, gets
// into the main queue at once; there each block that was asked for goes round once more. Owned by ContentCache; any thread.
//
// A content never changes, so nothing here can be stale: that is the PlaceIndex's affair. Contents are spread over
// shards by their digest, each with a lock, which is held for the copy of a block (some 100 ns): a reader that copied
// outside would have to keep the block from being replaced, which costs as much as the copy.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "cache/content_digest.h"
#include "cache/zeroed_array.h"

namespace twinblock {

class ContentStore {
 public:
  explicit ContentStore(uint64_t budget_bytes);
  ~ContentStore();

  // Copies the content of that digest, one block, if it is there.
  bool copy(const ContentTag& tag, std::byte* into);
  enum class Put {
    kAdded,
    kThere,    // an equal block was there, byte for byte
    kDiffers,  // another content has that digest: the block is not taken
  };
  Put put(const ContentTag& tag, const std::byte* block);

  [[nodiscard]] uint64_t blocks() const { return blocks_.load(std::memory_order_relaxed); }
  [[nodiscard]] uint64_t blocks_max() const;
  // All of it, whether or not it has been touched yet.
  [[nodiscard]] uint64_t memory_bytes() const;

 private:
  class Shard;

  Shard& shard_of(const ContentTag& tag);

  std::vector<std::unique_ptr<Shard>> shards_;
  std::atomic<uint64_t> blocks_{0};
};

}  // namespace twinblock
