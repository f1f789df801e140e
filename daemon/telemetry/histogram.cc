#include "telemetry/histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace twinblock {

// Values below 2^kStepBits have a bucket each; above, the leading one's position picks the group
// and the kStepBits bits behind it the step.
size_t Histogram::bucket_of(uint64_t value_ns) {
  constexpr uint64_t steps = uint64_t{1} << kStepBits;
  if (value_ns < steps) return value_ns;
  const auto magnitude = static_cast<size_t>(std::bit_width(value_ns)) - 1;
  const size_t shift = magnitude - kStepBits;
  return ((magnitude - kStepBits + 1) << kStepBits) + ((value_ns >> shift) & (steps - 1));
}

uint64_t Histogram::middle_of(size_t bucket) {
  constexpr uint64_t steps = uint64_t{1} << kStepBits;
  if (bucket < steps) return bucket;
  const size_t shift = (bucket >> kStepBits) - 1;
  const uint64_t low = (steps + (bucket & (steps - 1))) << shift;
  return low + ((uint64_t{1} << shift) >> 1);
}

void Histogram::record(uint64_t value_ns) {
  ++buckets_[bucket_of(value_ns)];
  ++count_;
  max_ns_ = std::max(max_ns_, value_ns);
}

uint64_t Histogram::quantile_ns(double quantile) const {
  if (count_ == 0) return 0;
  const auto rank = static_cast<uint64_t>(std::ceil(quantile * static_cast<double>(count_)));
  const uint64_t wanted = std::clamp<uint64_t>(rank, 1, count_);
  uint64_t seen = 0;
  for (size_t bucket = 0; bucket < kBuckets; ++bucket) {
    seen += buckets_[bucket];
    if (seen >= wanted) return std::min(middle_of(bucket), max_ns_);
  }
  return max_ns_;
}

}  // namespace twinblock
