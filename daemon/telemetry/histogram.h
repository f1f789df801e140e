// A log-linear histogram of durations: 32 steps in each power of two, so that a quantile is off by
// less than 2%; values from about 137 s on count as that. Fixed memory, no allocation. Loop thread
// only.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace twinblock {

class Histogram {
 public:
  void record(uint64_t value_ns);
  void record_zeros(uint64_t count);
  // Adds what `other` holds.
  void merge(const Histogram& other);
  void clear();
  [[nodiscard]] uint64_t count() const { return count_; }
  [[nodiscard]] uint64_t sum_ns() const { return sum_ns_; }  // exact
  [[nodiscard]] uint64_t max_ns() const { return max_ns_; }  // exact
  // The value that `quantile` (0 to 1) of the records do not exceed; 0 when empty.
  [[nodiscard]] uint64_t quantile_ns(double quantile) const;
  // How many are at most each of `bounds_ns`, which ascend; exact where one is a bucket's end, else
  // within 2% of the bound.
  void counts_up_to(std::span<const uint64_t> bounds_ns, std::span<uint64_t> counts) const;

 private:
  static constexpr unsigned kStepBits = 5;
  static constexpr unsigned kMagnitudeMax = 37;  // 2^37 ns are 137 s
  static constexpr size_t kBuckets = size_t{kMagnitudeMax - kStepBits + 1} << kStepBits;
  static size_t bucket_of(uint64_t value_ns);
  static uint64_t begin_of(size_t bucket);
  static uint64_t middle_of(size_t bucket);

  std::array<uint64_t, kBuckets> buckets_{};
  uint64_t count_ = 0;
  uint64_t sum_ns_ = 0;
  uint64_t max_ns_ = 0;
};

}  // namespace twinblock
