// The histogram of latencies.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "telemetry/histogram.h"

namespace twinblock {
namespace {

TEST(Histogram, IsEmptyAtFirst) {
  const Histogram histogram;
  EXPECT_EQ(histogram.count(), 0u);
  EXPECT_EQ(histogram.quantile_ns(0.5), 0u);
  EXPECT_EQ(histogram.max_ns(), 0u);
}

TEST(Histogram, OneRecordIsEveryQuantileOfIt) {
  for (unsigned bit = 0; bit < 38; ++bit)
    for (const int64_t near : {-1, 0, 1}) {
      const uint64_t value = (uint64_t{1} << bit) + static_cast<uint64_t>(near);
      Histogram histogram;
      histogram.record(value);
      for (const double quantile : {0.0, 0.5, 1.0}) {
        const auto got = static_cast<double>(histogram.quantile_ns(quantile));
        EXPECT_LE(std::abs(got - static_cast<double>(value)), 0.02 * static_cast<double>(value))
            << value;
      }
      EXPECT_EQ(histogram.max_ns(), value);
    }
}

TEST(Histogram, QuantilesAreOffByLessThanTwoPercent) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 20; ++round) {
    Histogram histogram;
    std::vector<uint64_t> values;
    std::lognormal_distribution<double> latency(11.0 + round * 0.3, 1.5);
    for (int i = 0; i < 5000; ++i) {
      values.push_back(static_cast<uint64_t>(latency(random)));
      histogram.record(values.back());
    }
    std::sort(values.begin(), values.end());
    EXPECT_EQ(histogram.count(), values.size());
    for (const double quantile : {0.001, 0.1, 0.5, 0.9, 0.99, 0.999, 1.0}) {
      const auto rank = static_cast<size_t>(std::ceil(quantile * 5000));
      const auto expected = static_cast<double>(values[std::max<size_t>(rank, 1) - 1]);
      const auto got = static_cast<double>(histogram.quantile_ns(quantile));
      EXPECT_LE(std::abs(got - expected), 0.02 * expected + 1) << quantile;
    }
    EXPECT_LE(histogram.quantile_ns(1.0), histogram.max_ns());
  }
}

TEST(Histogram, CountsUpToManyBoundsAsUpToEach) {
  std::mt19937_64 random(3);
  Histogram histogram;
  std::vector<uint64_t> bounds{0,    1,      31,     32,        33,
                               1000, 64'000, 65'536, 1'000'000, uint64_t{1} << 40};
  std::vector<uint64_t> counts(bounds.size(), 77);
  histogram.counts_up_to(bounds, counts);
  EXPECT_EQ(counts, std::vector<uint64_t>(bounds.size(), 0)) << "empty";
  std::vector<uint64_t> values;
  for (int i = 0; i < 10'000; ++i) {
    values.push_back(random() >> (random() % 40 + 24));
    histogram.record(values.back());
  }
  histogram.counts_up_to(bounds, counts);
  for (size_t i = 0; i < bounds.size(); ++i) {
    EXPECT_EQ(counts[i], histogram.count_up_to(bounds[i])) << bounds[i];
    const auto within = [&](double factor) {
      const double bound = factor * static_cast<double>(bounds[i]);
      return static_cast<uint64_t>(std::count_if(values.begin(), values.end(), [&](uint64_t value) {
        return static_cast<double>(value) <= bound;
      }));
    };
    EXPECT_GE(counts[i], within(0.96)) << bounds[i];
    EXPECT_LE(counts[i], within(1.04)) << bounds[i];
  }
}

}  // namespace
}  // namespace twinblock
