// A log-linear histogram of durations: 64 steps in each power of two, so that a quantile is off by
// less than 2%. Fixed memory, no allocation. One thread writes; others may not read meanwhile.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace twinblock {

class Histogram {
 public:
  void record(uint64_t value_ns);
  [[nodiscard]] uint64_t count() const { return count_; }
  [[nodiscard]] uint64_t max_ns() const { return max_ns_; }
  // The value that `quantile` (0 to 1) of the records do not exceed; 0 when empty.
  [[nodiscard]] uint64_t quantile_ns(double quantile) const;

 private:
  static constexpr unsigned kStepBits = 6;
  static constexpr size_t kBuckets = size_t{64 - kStepBits + 1} << kStepBits;
  static size_t bucket_of(uint64_t value_ns);
  static uint64_t middle_of(size_t bucket);

  std::array<uint64_t, kBuckets> buckets_{};
  uint64_t count_ = 0;
  uint64_t max_ns_ = 0;
};

}  // namespace twinblock
