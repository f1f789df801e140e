// The intent map on a disk that does not answer: it is given up, and nobody waits for it any longer.
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <optional>

#include "metadata_intent_support.h"

namespace twinblock::metadata {
namespace {

TEST(IntentStore, ADiskThatHangsIsGivenUpForGood) {
  Fixture f;
  Told first, second, third;
  ASSERT_EQ(f.store.cover(0, 1, first), 0);
  ASSERT_EQ(f.store.cover(kRegion, 1, second), 0);
  f.store.give_up(ETIMEDOUT);
  EXPECT_EQ(first.result, ETIMEDOUT);
  EXPECT_EQ(second.result, ETIMEDOUT);
  f.disk.finish_all();  // too late
  EXPECT_EQ(f.store.cover(0, 1, third), ETIMEDOUT);
  EXPECT_FALSE(f.store.covered(0, 1));
}

// Whoever had asked for the pages of a new volume, or a larger one, would else be making it for ever.
TEST(IntentStore, WhoWaitsForNewPagesIsToldWhenTheDiskIsGivenUp) {
  for (const size_t finished : {0, 1}) {
    Fixture f;
    const uint64_t larger = 4 * kIntentPageRegions * uint64_t{kRegion};
    f.disk.enlarge(layout_of(larger, kRegion).file_bytes);
    std::optional<int> created, ready;
    f.store.create(kTag, [&](int error) { created = error; });
    f.store.prepare_growth(larger, [&](int error) { ready = error; });
    for (size_t each = 0; each < 2 * finished; ++each) f.disk.finish();  // the writes: the flushes hang
    EXPECT_TRUE(f.store.creating() && f.store.awaited());
    f.store.give_up(ETIMEDOUT);
    EXPECT_EQ(created, ETIMEDOUT);
    EXPECT_EQ(ready, ETIMEDOUT);
    EXPECT_FALSE(f.store.creating() || f.store.awaited());
    created = ready = 0;
    f.disk.finish_all();  // too late
    EXPECT_EQ(created, 0) << "told once";
    EXPECT_EQ(ready, 0) << "told once";
    f.store.prepare_growth(larger, [&](int error) { ready = error; });
    EXPECT_EQ(ready, ETIMEDOUT);
    EXPECT_EQ(f.disk.pending(), 0u);
  }
}

// The store has failed by then, and the request for the larger volume's pages hangs beside it.
TEST(IntentStore, AGrowthThatHangsOnAFailedDiskIsGivenUp) {
  Fixture f;
  Told told;
  const uint64_t larger = 4 * kIntentPageRegions * uint64_t{kRegion};
  f.disk.enlarge(layout_of(larger, kRegion).file_bytes);
  std::optional<int> ready;
  ASSERT_EQ(f.store.cover(0, 1, told), 0);
  f.store.prepare_growth(larger, [&](int error) { ready = error; });
  f.disk.finish(0, EIO);
  EXPECT_EQ(told.result, EIO);
  EXPECT_FALSE(ready);
  f.store.give_up(ETIMEDOUT);
  EXPECT_EQ(ready, EIO);
}

TEST(IntentStore, AnErrorOfOnePageIsNotMendedByAnotherOneOfTheSameCommit) {
  Fixture f;
  Told blocker;
  std::array<Told, 2> ends;
  ASSERT_NO_FATAL_FAILURE(f.begin_two_pages(blocker, ends));
  f.disk.finish(0, EIO);
  f.disk.finish_all();
  for (const Told& end : ends) EXPECT_EQ(end.result, EIO);
  EXPECT_EQ(f.store.error(), EIO);
  EXPECT_FALSE(f.store.covered(0, 1));
}

}  // namespace
}  // namespace twinblock::metadata
