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
  if (magnitude >= kMagnitudeMax) return kBuckets - 1;
  const size_t shift = magnitude - kStepBits;
  return ((magnitude - kStepBits + 1) << kStepBits) + ((value_ns >> shift) & (steps - 1));
}

uint64_t Histogram::begin_of(size_t bucket) {
  constexpr uint64_t steps = uint64_t{1} << kStepBits;
  if (bucket < steps) return bucket;
  const size_t shift = (bucket >> kStepBits) - 1;
  return (steps + (bucket & (steps - 1))) << shift;
}

uint64_t Histogram::middle_of(size_t bucket) {
  return (begin_of(bucket) + begin_of(bucket + 1) - 1) / 2;
}

void Histogram::record(uint64_t value_ns) {
  ++buckets_[bucket_of(value_ns)];
  ++count_;
  sum_ns_ += value_ns;
  max_ns_ = std::max(max_ns_, value_ns);
}

void Histogram::record_zeros(uint64_t count) {
  buckets_[0] += count;
  count_ += count;
}

void Histogram::merge(const Histogram& other) {
  if (other.count_ == 0) return;
  const size_t end = bucket_of(other.max_ns_) + 1;  // the rest is empty
  for (size_t bucket = 0; bucket < end; ++bucket) buckets_[bucket] += other.buckets_[bucket];
  count_ += other.count_;
  sum_ns_ += other.sum_ns_;
  max_ns_ = std::max(max_ns_, other.max_ns_);
}

void Histogram::clear() {
  if (count_ == 0) return;  // memory that was never used stays so
  *this = Histogram();
}

uint64_t Histogram::quantile_ns(double quantile) const {
  if (count_ == 0) return 0;
  const auto rank = static_cast<uint64_t>(std::ceil(quantile * static_cast<double>(count_)));
  const uint64_t wanted = std::clamp<uint64_t>(rank, 1, count_);
  uint64_t seen = 0;
  for (size_t bucket = 0; bucket < kBuckets; ++bucket) {
    seen += buckets_[bucket];
    if (seen >= wanted && bucket + 1 < kBuckets) return std::min(middle_of(bucket), max_ns_);
  }
  return max_ns_;
}

void Histogram::counts_up_to(std::span<const uint64_t> bounds_ns,
                             std::span<uint64_t> counts) const {
  const size_t end = count_ == 0 ? 0 : bucket_of(max_ns_) + 1;  // the rest is empty
  uint64_t count = 0;
  size_t bucket = 0;
  for (size_t i = 0; i < bounds_ns.size(); ++i) {
    for (; bucket < end && middle_of(bucket) <= bounds_ns[i]; ++bucket) count += buckets_[bucket];
    counts[i] = count;
  }
}

}  // namespace twinblock
