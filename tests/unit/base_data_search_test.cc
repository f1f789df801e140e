// In which order a device is looked at for data.
#include "base/data_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/limits.h"

namespace twinblock {
namespace {

std::vector<SearchOrder::Place> places_of(uint64_t size_bytes) {
  std::vector<SearchOrder::Place> places;
  SearchOrder order(size_bytes);
  while (const auto place = order.next()) places.push_back(*place);
  EXPECT_FALSE(order.next()) << "the end is the end";
  return places;
}

// How many places are looked at until one of the length at `offset_bytes` is met.
uint64_t looks_until(uint64_t size_bytes, uint64_t offset_bytes, uint64_t length_bytes) {
  SearchOrder order(size_bytes);
  for (uint64_t looks = 1;; ++looks) {
    const auto place = order.next();
    if (!place) return UINT64_MAX;
    if (place->offset_bytes < offset_bytes + length_bytes && offset_bytes < place->offset_bytes + place->length_bytes)
      return looks;
  }
}

TEST(SearchOrder, BeginsAtBothEnds) {
  SearchOrder order(1 * kTiB + 512);
  const auto first = order.next(), second = order.next();
  EXPECT_EQ(first->offset_bytes, 0u);
  EXPECT_EQ(first->length_bytes, limits::kSearchEdgeBytes);
  EXPECT_EQ(second->offset_bytes + second->length_bytes, 1 * kTiB + 512);
}

TEST(SearchOrder, LeavesNothingOutAndStaysInside) {
  for (const uint64_t size_bytes : {uint64_t{0}, uint64_t{512}, 1 * kMiB, 1 * kMiB + 512, 64 * kMiB, 64 * kMiB - 4096,
                                    100 * kMiB + 1536, 1 * kGiB, 3 * kGiB + 512}) {
    uint64_t proven_to = 0;
    for (const SearchOrder::Place& place : places_of(size_bytes)) {
      EXPECT_GT(place.length_bytes, 0u);
      EXPECT_LE(place.length_bytes, limits::kSearchEdgeBytes);
      EXPECT_LE(place.offset_bytes + place.length_bytes, size_bytes);
      if (!place.all) {
        EXPECT_EQ(proven_to, 0u) << "samples come first";
        continue;
      }
      EXPECT_EQ(place.offset_bytes, proven_to) << "a gap in a device of " << size_bytes;
      proven_to += place.length_bytes;
    }
    EXPECT_EQ(proven_to, size_bytes);
  }
}

TEST(SearchOrder, LooksOnceInEachPlaceBetween) {
  std::vector<uint64_t> offsets;
  for (const SearchOrder::Place& place : places_of(10 * kGiB))
    if (!place.all) offsets.push_back(place.offset_bytes);
  std::sort(offsets.begin(), offsets.end());
  EXPECT_EQ(std::adjacent_find(offsets.begin(), offsets.end()), offsets.end());
  EXPECT_EQ(offsets.size(), 10 * kGiB / limits::kSearchStrideBytesMin + 1) << "and the end";
}

TEST(SearchOrder, FindsALongRunSoonWhereverItLies) {
  constexpr uint64_t kSize = 1 * kTiB;
  for (const uint64_t length : {1 * kGiB, 10 * kGiB, 100 * kGiB})
    for (uint64_t offset = 0; offset + length <= kSize; offset += 7 * kGiB + 4096)
      EXPECT_LE(looks_until(kSize, offset, length), 2 * kSize / length + 2) << length << " at " << offset;
}

TEST(SearchOrder, FindsWhatIsShorterThanAnyStride) {
  for (const uint64_t offset : {2 * kMiB, 37 * kMiB + 512, 64 * kMiB - 1, 63 * kMiB - 1, 33 * kMiB})
    EXPECT_NE(looks_until(64 * kMiB, offset, 1), UINT64_MAX) << offset;
}

}  // namespace
}  // namespace twinblock
