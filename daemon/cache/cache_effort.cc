#include "cache/cache_effort.h"

#include <algorithm>

namespace twinblock {
namespace {

// Of what was measured, the call itself, which is there however fast the data comes.
constexpr uint64_t kCall_ns = 3'000;
// A step of the estimate, as a part of it, and at least.
constexpr uint64_t kStepPart = 32;
constexpr uint64_t kStepMin_ns = 16;
// So many up for a read that took longer, and one down for each that did not: three of four are faster than the estimate.
constexpr uint64_t kStepsUp = 3;

}  // namespace

void CacheEffort::disk_took(uint64_t blocks, uint64_t ns) {
  if (blocks == 0) return;
  blocks_read_.fetch_add(blocks, std::memory_order_relaxed);
  // Not the mean: on a busy host, some reads of the page cache take as long as another process had the processor.
  const uint64_t estimate_ns = block_ns_.load(std::memory_order_relaxed);
  const uint64_t step_ns = std::max(estimate_ns / kStepPart, kStepMin_ns);
  const uint64_t block_ns = (ns - std::min(ns, kCall_ns)) / blocks;
  block_ns_.store(block_ns > estimate_ns ? estimate_ns + kStepsUp * step_ns
                                         : estimate_ns - std::min(estimate_ns, step_ns),
                  std::memory_order_relaxed);
}

bool CacheEffort::Time::take(uint64_t blocks, uint64_t now_ns) {
  uint64_t before_ns = saved_at_ns_.load(std::memory_order_relaxed);
  // One of those who come at the same time adds what has been saved.
  if (now_ns > before_ns && saved_at_ns_.compare_exchange_strong(before_ns, now_ns, std::memory_order_relaxed))
    save(static_cast<int64_t>(std::min<uint64_t>(now_ns - before_ns, 1000 * kSecond_ns)) / part_);
  if (saved_ns_.load(std::memory_order_relaxed) <= 0) return false;
  saved_ns_.fetch_sub(static_cast<int64_t>(blocks) * kLearnBlock_ns, std::memory_order_relaxed);
  return true;
}

void CacheEffort::Time::earn(uint64_t blocks) {
  if (blocks > 0) save(static_cast<int64_t>(blocks) * kLearnBlock_ns);
}

void CacheEffort::Time::save(int64_t ns) {
  const int64_t room = kSavedMax_ns - saved_ns_.load(std::memory_order_relaxed);
  if (room > 0) saved_ns_.fetch_add(std::min(ns, room), std::memory_order_relaxed);
}

}  // namespace twinblock
