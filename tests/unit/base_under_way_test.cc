// For how long the oldest of what is under way has been so, as who looks now and then knows it.
#include "base/under_way.h"

#include <gtest/gtest.h>

namespace twinblock {
namespace {

TEST(UnderWay, WhatStaysIsAsOldAsTheLookThatFoundIt) {
  UnderWay all;
  EXPECT_EQ(all.look(10), std::nullopt);
  const uint8_t slow = all.begin();
  EXPECT_EQ(all.look(20), 20u) << "it began at some time before this look";
  EXPECT_EQ(all.look(30), 20u);
  const uint8_t quick = all.begin();
  all.end(quick);
  EXPECT_EQ(all.look(40), 20u) << "others come and go beside it";
  all.end(slow);
  EXPECT_EQ(all.look(50), std::nullopt);
}

TEST(UnderWay, WhatComesAndGoesNeverGrowsOld) {
  UnderWay all;
  uint8_t last = all.begin();
  for (uint64_t now = 100; now < 200; ++now) {
    const uint8_t next = all.begin();
    all.end(last);
    last = next;
    EXPECT_GE(all.look(now).value_or(now), now - 1) << "none is older than two looks";
  }
}

TEST(UnderWay, TheNextOldestFollowsOnTheOldest) {
  UnderWay all;
  const uint8_t first = all.begin();
  EXPECT_EQ(all.look(10), 10u);
  const uint8_t second = all.begin();
  EXPECT_EQ(all.look(20), 10u);
  all.end(first);
  EXPECT_EQ(all.look(30), 30u) << "since this look it is known";
  all.end(second);
  EXPECT_EQ(all.look(40), std::nullopt);
  (void)all.begin();
  all.forget();
  EXPECT_EQ(all.look(50), std::nullopt);
}

}  // namespace
}  // namespace twinblock
