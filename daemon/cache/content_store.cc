#include "cache/content_store.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/checks.h"
#include "base/limits.h"

namespace twinblock {
namespace {

constexpr uint64_t kShardBytesMin = 8 * kMiB;
constexpr size_t kShardsMax = 16;
// The small queue's part of the room, and how often a block is known to have been asked for at most.
constexpr size_t kSmallPart = 10;
constexpr uint8_t kAskedMax = 3;
// To get from the small queue into the main one it has to be asked for more than once.
constexpr uint8_t kAskedOnce = 1;

using Slot = uint32_t;
constexpr Slot kNone = ~Slot{0};

struct About {
  ContentTag tag;
  Slot next_of_hash;
  Slot next_of_queue;  // the one that came after it
  uint8_t asked;
};

struct Queue {
  Slot oldest = kNone, newest = kNone;
  size_t length = 0;
};

// Digests of contents that left the small queue, each with the time of that, which counts those that left: it is a
// ghost for as long as no more have followed than the main queue holds. Four places to a bucket, a part of the digest in
// each: two that have it in common only make a block stay that would have gone.
class Ghosts {
 public:
  explicit Ghosts(size_t length) : length_(length), buckets_((length + kWays - 1) / kWays) {}

  void add(const ContentTag& tag) {
    Bucket& bucket = buckets_[spread_over(tag[1], buckets_.size())];
    size_t oldest = 0;
    for (size_t way = 1; way < kWays; ++way)
      if (age(bucket.ways[way]) > age(bucket.ways[oldest])) oldest = way;
    bucket.ways[oldest] = {print_of(tag), ++now_};
  }
  // … which it is no more then.
  bool take(const ContentTag& tag) {
    Bucket& bucket = buckets_[spread_over(tag[1], buckets_.size())];
    for (Ghost& ghost : bucket.ways) {
      if (ghost.print != print_of(tag)) continue;
      const bool young = age(ghost) < length_;
      ghost = {};
      return young;
    }
    return false;
  }
  [[nodiscard]] uint64_t memory_bytes() const { return buckets_.bytes(); }

 private:
  static constexpr size_t kWays = 4;
  struct Ghost {
    uint32_t print;  // 0: none
    uint32_t left;   // when it left the small queue
  };
  struct Bucket {
    Ghost ways[kWays];
  };
  static uint32_t print_of(const ContentTag& tag) { return static_cast<uint32_t>(tag[0]) | 1; }
  [[nodiscard]] uint32_t age(const Ghost& ghost) const { return ghost.print == 0 ? ~uint32_t{0} : now_ - ghost.left; }

  const size_t length_;
  uint32_t now_ = 0;
  ZeroedArray<Bucket> buckets_;
};

// What a block takes: its data, what is known about it, a head of a chain, and a ghost.
constexpr uint64_t kSlotBytes = limits::kBlockBytes + sizeof(About) + sizeof(Slot) + 2 * sizeof(uint32_t);

}  // namespace

class ContentStore::Shard {
 public:
  explicit Shard(size_t slots)
      : slots_(slots),
        main_max_(slots - std::max<size_t>(1, slots / kSmallPart)),
        data_(slots * limits::kBlockBytes),
        about_(slots),
        heads_(slots),
        ghosts_(main_max_) {
    for (size_t i = 0; i < heads_.size(); ++i) heads_[i] = kNone;
  }

  std::mutex lock;

  bool copy(const ContentTag& tag, std::byte* into) {
    const Slot slot = find(tag);
    if (slot == kNone) return false;
    ask(slot);
    std::memcpy(into, block_of(slot), limits::kBlockBytes);
    return true;
  }

  Put put(const ContentTag& tag, const std::byte* block) {
    if (const Slot there = find(tag); there != kNone) {
      if (std::memcmp(block_of(there), block, limits::kBlockBytes) != 0) return Put::kDiffers;
      ask(there);
      return Put::kThere;
    }
    const bool back = ghosts_.take(tag);
    const Slot slot = used_ < slots_ ? static_cast<Slot>(used_++) : evict();
    std::memcpy(block_of(slot), block, limits::kBlockBytes);
    Slot& head = heads_[bucket_of(tag)];
    about_[slot] = {tag, head, kNone, 0};
    head = slot;
    push(back ? main_ : small_, slot);
    return Put::kAdded;
  }

  [[nodiscard]] size_t used() const { return used_; }
  [[nodiscard]] size_t slots() const { return slots_; }
  [[nodiscard]] uint64_t memory_bytes() const {
    return data_.bytes() + about_.bytes() + heads_.bytes() + ghosts_.memory_bytes() + sizeof *this;
  }

 private:
  std::byte* block_of(Slot slot) { return &data_[size_t{slot} * limits::kBlockBytes]; }
  [[nodiscard]] size_t bucket_of(const ContentTag& tag) const { return spread_over(tag[1], heads_.size()); }

  Slot find(const ContentTag& tag) const {
    Slot slot = heads_[bucket_of(tag)];
    while (slot != kNone && about_[slot].tag != tag) slot = about_[slot].next_of_hash;
    return slot;
  }
  void ask(Slot slot) {
    if (about_[slot].asked < kAskedMax) ++about_[slot].asked;
  }
  void push(Queue& queue, Slot slot) {
    about_[slot].next_of_queue = kNone;
    if (queue.newest == kNone)
      queue.oldest = slot;
    else
      about_[queue.newest].next_of_queue = slot;
    queue.newest = slot;
    ++queue.length;
  }
  Slot pop(Queue& queue) {
    const Slot slot = queue.oldest;
    TB_CHECK(slot != kNone, "a queue that is popped is not empty");
    queue.oldest = about_[slot].next_of_queue;
    if (queue.oldest == kNone) queue.newest = kNone;
    --queue.length;
    return slot;
  }
  void unlink(Slot slot) {
    Slot* link = &heads_[bucket_of(about_[slot].tag)];
    while (*link != slot) link = &about_[*link].next_of_hash;
    *link = about_[slot].next_of_hash;
  }

  // A slot whose content has gone. Each turn moves one out of the small queue for good, or takes one off what a block of
  // the main queue was asked for: it ends.
  Slot evict() {
    while (true) {
      const bool from_small = small_.length > 0 && main_.length <= main_max_;
      const Slot slot = pop(from_small ? small_ : main_);
      About& about = about_[slot];
      if (from_small && about.asked > kAskedOnce) {
        about.asked = 0;
        push(main_, slot);
      } else if (!from_small && about.asked > 0) {
        --about.asked;
        push(main_, slot);
      } else {
        if (from_small) ghosts_.add(about.tag);
        unlink(slot);
        return slot;
      }
    }
  }

  const size_t slots_;
  const size_t main_max_;
  size_t used_ = 0;
  ZeroedArray<std::byte> data_;
  ZeroedArray<About> about_;
  ZeroedArray<Slot> heads_;
  Queue small_, main_;
  Ghosts ghosts_;
};

ContentStore::ContentStore(uint64_t budget_bytes) {
  const size_t shards = std::clamp<size_t>(budget_bytes / kShardBytesMin, 1, kShardsMax);
  const size_t slots = std::max<size_t>(2, budget_bytes / shards / kSlotBytes);
  for (size_t i = 0; i < shards; ++i) shards_.push_back(std::make_unique<Shard>(slots));
}

ContentStore::~ContentStore() = default;

ContentStore::Shard& ContentStore::shard_of(const ContentTag& tag) {
  return *shards_[spread_over(tag[0], shards_.size())];
}

bool ContentStore::copy(const ContentTag& tag, std::byte* into) {
  Shard& shard = shard_of(tag);
  const std::lock_guard guard(shard.lock);
  return shard.copy(tag, into);
}

ContentStore::Put ContentStore::put(const ContentTag& tag, const std::byte* block) {
  Shard& shard = shard_of(tag);
  const std::lock_guard guard(shard.lock);
  const size_t before = shard.used();
  const Put result = shard.put(tag, block);
  blocks_.fetch_add(shard.used() - before, std::memory_order_relaxed);
  return result;
}

uint64_t ContentStore::blocks_max() const { return shards_.size() * shards_.front()->slots(); }

uint64_t ContentStore::memory_bytes() const {
  uint64_t bytes = 0;
  for (const auto& shard : shards_) bytes += shard->memory_bytes();
  return bytes;
}

}  // namespace twinblock
