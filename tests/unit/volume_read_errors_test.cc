// ReadErrors: how often the disk failed a read, and how many places are bad.
#include "volume/read_errors.h"

#include <gtest/gtest.h>

namespace twinblock {
namespace {

constexpr uint64_t kBlock = limits::kBlockBytes;

TEST(ReadErrors, OfOnePlaceAreOnePlaceHoweverOften) {
  ReadErrors errors;
  EXPECT_TRUE(errors.add(5 * kBlock)) << "the first is news";
  for (uint64_t i = 0; i < 2 * limits::kBadPlacesMax; ++i)
    EXPECT_FALSE(errors.add(5 * kBlock + i % kBlock));
  EXPECT_EQ(errors.total(), 1 + 2 * limits::kBadPlacesMax);
  EXPECT_EQ(errors.places(), 1u);
  EXPECT_FALSE(errors.too_many());
}

TEST(ReadErrors, OfManyPlacesAreTooManyAndTakeNoMoreMemory) {
  ReadErrors errors;
  for (uint64_t place = 0; place < limits::kBadPlacesMax; ++place) {
    EXPECT_FALSE(errors.too_many()) << place;
    EXPECT_TRUE(errors.add(place * kBlock));
  }
  EXPECT_TRUE(errors.too_many());
  EXPECT_FALSE(errors.add(1000 * kBlock)) << "no more lines in the log, either";
  EXPECT_EQ(errors.places(), limits::kBadPlacesMax);
  EXPECT_EQ(errors.total(), limits::kBadPlacesMax + 1);
}

TEST(ReadErrors, APlaceThatIsWrittenAnewAsAWholeCountsNoLonger) {
  ReadErrors errors;
  for (const uint64_t place : {4, 5, 6, 7}) errors.add(place * kBlock);
  errors.written(4 * kBlock + 1, 2 * kBlock - 2);
  EXPECT_EQ(errors.places(), 4u) << "neither was written as a whole";
  errors.written(4 * kBlock + 1, 3 * kBlock - 2);
  EXPECT_EQ(errors.places(), 3u) << "the fifth was";
  errors.written(6 * kBlock, 2 * kBlock);
  EXPECT_EQ(errors.places(), 1u);
  errors.written(0, 100 * kBlock);
  EXPECT_EQ(errors.places(), 0u);
  EXPECT_EQ(errors.total(), 4u) << "they have been, all the same";
  EXPECT_TRUE(errors.add(4 * kBlock)) << "news again";
}

}  // namespace
}  // namespace twinblock
