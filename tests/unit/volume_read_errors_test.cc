// ReadErrors: how often the disk failed a read, and how many places are bad.
#include "volume/read_errors.h"

#include <gtest/gtest.h>

namespace twinblock {
namespace {

constexpr uint64_t kBlock = limits::kBlockBytes;

TEST(ReadErrors, OfOnePlaceAreOnePlaceHoweverOften) {
  ReadErrors errors;
  EXPECT_TRUE(errors.add(5 * kBlock, kBlock)) << "the first is news";
  for (uint64_t i = 0; i < 2 * limits::kBadPlacesMax; ++i)
    EXPECT_FALSE(errors.add(5 * kBlock + i % kBlock, 1));
  EXPECT_EQ(errors.total(), 1 + 2 * limits::kBadPlacesMax);
  EXPECT_EQ(errors.places(), 1u);
  EXPECT_FALSE(errors.too_many());
}

TEST(ReadErrors, OfManyPlacesAreTooManyAndTakeNoMoreMemory) {
  ReadErrors errors;
  for (uint64_t place = 0; place < limits::kBadPlacesMax; ++place) {
    EXPECT_FALSE(errors.too_many()) << place;
    EXPECT_TRUE(errors.add(place * kBlock, kBlock));
  }
  EXPECT_TRUE(errors.too_many());
  EXPECT_FALSE(errors.add(1000 * kBlock, kBlock)) << "no more lines in the log, either";
  EXPECT_EQ(errors.places(), limits::kBadPlacesMax);
  EXPECT_EQ(errors.total(), limits::kBadPlacesMax + 1);
}

TEST(ReadErrors, APlaceThatIsWrittenAnewAsAWholeCountsNoLonger) {
  ReadErrors errors;
  for (const uint64_t place : {4, 5, 6, 7}) errors.add(place * kBlock, kBlock);
  errors.written(4 * kBlock + 1, 2 * kBlock - 2);
  EXPECT_EQ(errors.places(), 4u) << "neither was written as a whole";
  errors.written(4 * kBlock + 1, 3 * kBlock - 2);
  EXPECT_EQ(errors.places(), 3u) << "the fifth was";
  errors.written(6 * kBlock, 2 * kBlock);
  EXPECT_EQ(errors.places(), 1u);
  errors.written(0, 100 * kBlock);
  EXPECT_EQ(errors.places(), 0u);
  EXPECT_EQ(errors.total(), 4u) << "they have been, all the same";
  EXPECT_TRUE(errors.add(4 * kBlock, kBlock)) << "news again";
}

// One bad block, of which clients read more, from here and from there.
TEST(ReadErrors, WhateverIsReadAroundAPlaceItIsOne) {
  constexpr uint64_t kBad = 100;
  ReadErrors errors;
  for (uint64_t before = 0; before < 2 * limits::kBadPlacesMax; ++before)
    EXPECT_EQ(errors.add((kBad - before) * kBlock, (before + 1 + before % 3) * kBlock), before == 0);
  EXPECT_EQ(errors.places(), 1u);
  errors.written((kBad - 20) * kBlock, 19 * kBlock);
  EXPECT_EQ(errors.places(), 1u) << "it is another one";
  errors.written(kBad * kBlock, kBlock);
  EXPECT_EQ(errors.places(), 0u);
}

// Which block of the read it was, nobody knows: what is left of it is the place, and the next read tells.
TEST(ReadErrors, WhatIsWrittenIsNotTheBadOne) {
  const auto after = [](uint64_t offset_bytes, uint64_t length_bytes) {
    ReadErrors errors;
    errors.add(10 * kBlock, 10 * kBlock);
    errors.written(offset_bytes, length_bytes);
    return errors;
  };
  ReadErrors tail = after(8 * kBlock, 5 * kBlock);
  EXPECT_EQ(tail.places(), 1u);
  EXPECT_TRUE(tail.add(12 * kBlock, kBlock)) << "another one: that one was written";
  EXPECT_FALSE(tail.add(13 * kBlock, kBlock));
  ReadErrors head = after(15 * kBlock, 50 * kBlock);
  EXPECT_TRUE(head.add(15 * kBlock, kBlock));
  EXPECT_FALSE(head.add(14 * kBlock, kBlock));
  EXPECT_EQ(after(10 * kBlock, 10 * kBlock).places(), 0u);
  EXPECT_EQ(after(14 * kBlock, kBlock).places(), 1u) << "nine others may be the bad one";
}

}  // namespace
}  // namespace twinblock
