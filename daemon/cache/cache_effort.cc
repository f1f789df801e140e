#include "cache/cache_effort.h"

#include <algorithm>

namespace twinblock {
namespace {

// One that hung says little of the next one.
constexpr uint64_t kBlockMax_ns = 1 * kMillisecond_ns;
constexpr uint64_t kWeight = 32;

}  // namespace

void CacheEffort::disk_took(uint64_t blocks, uint64_t ns) {
  if (blocks == 0) return;
  blocks_read_.fetch_add(blocks, std::memory_order_relaxed);
  const uint64_t now = std::min(ns / blocks, kBlockMax_ns);
  const uint64_t mean = block_ns_.load(std::memory_order_relaxed);
  block_ns_.store(mean - mean / kWeight + now / kWeight, std::memory_order_relaxed);
}

bool CacheEffort::may_learn(uint64_t blocks, uint64_t now_ns) {
  uint64_t before_ns = saved_at_ns_.load(std::memory_order_relaxed);
  // One of those who come at the same time adds what has been saved.
  if (now_ns > before_ns && saved_at_ns_.compare_exchange_strong(before_ns, now_ns, std::memory_order_relaxed)) {
    const auto passed_ns = static_cast<int64_t>(std::min<uint64_t>(now_ns - before_ns, 1000 * kSecond_ns));
    const int64_t saved = saved_ns_.load(std::memory_order_relaxed);
    saved_ns_.fetch_add(std::min(passed_ns / kLearnPart, std::max<int64_t>(0, kSavedMax_ns - saved)),
                        std::memory_order_relaxed);
  }
  if (saved_ns_.load(std::memory_order_relaxed) <= 0) return false;
  saved_ns_.fetch_sub(static_cast<int64_t>(blocks) * kLearnBlock_ns, std::memory_order_relaxed);
  return true;
}

}  // namespace twinblock
