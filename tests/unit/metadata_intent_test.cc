// The intent map: group commit, and what is durable when a waiter is told.
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <memory>
#include <optional>

#include "base/limits.h"
#include "base/units.h"
#include "metadata_intent_support.h"

namespace twinblock::metadata {
namespace {

bool always(uint64_t, uint64_t) { return true; }
bool never(uint64_t, uint64_t) { return false; }

// Time passes when the test says so; one timer.
class OneTimer final : public Clock {
 public:
  [[nodiscard]] uint64_t now_ns() const override { return now; }
  [[nodiscard]] uint64_t wall_ns() const override { return now; }
  [[nodiscard]] std::unique_ptr<Timer> make_timer(std::function<void()> callback) override {
    fire = std::move(callback);
    return std::make_unique<Arming>(*this);
  }
  // Until then, with the timer if it is due.
  void pass(uint64_t ns) {
    now += ns;
    if (due && *due <= now) {
      due.reset();
      fire();
    }
  }
  uint64_t now = kSecond_ns;
  std::optional<uint64_t> due;

 private:
  class Arming final : public Timer {
   public:
    explicit Arming(OneTimer& clock) : clock_(clock) {}
    void arm(uint64_t delay_ns) override { clock_.due = clock_.now + delay_ns; }
    void disarm() override { clock_.due.reset(); }
    [[nodiscard]] bool armed() const override { return clock_.due.has_value(); }

   private:
    OneTimer& clock_;
  };
  std::function<void()> fire;
};

TEST(IntentStore, AWaiterIsToldWhenItsRegionsAreOnTheMedium) {
  Fixture f;
  Told told;
  EXPECT_FALSE(f.store.covered(kRegion - 1, 2));
  ASSERT_EQ(f.store.cover(kRegion - 1, 2, told), 0);
  EXPECT_FALSE(f.store.covered(0, 1));
  ASSERT_EQ(f.disk.pending(), 1u);
  f.disk.finish();
  EXPECT_FALSE(told.result) << "it is in the cache only";
  EXPECT_FALSE(f.store.covered(0, 1));
  ASSERT_EQ(f.disk.request().op, DiskOp::kFlush);
  f.disk.finish();
  EXPECT_EQ(told.result, 0);
  EXPECT_TRUE(f.store.covered(0, 2 * kRegion));
  EXPECT_FALSE(f.store.covered(0, 2 * kRegion + 1));
  EXPECT_FALSE(f.store.covered(2 * kRegion, 1));
  EXPECT_EQ(f.disk.pending(), 0u);
  EXPECT_EQ(f.store.commits_total(), 2u) << "create() was one";
  EXPECT_EQ(f.store.waits_total(), 1u);
  EXPECT_EQ(f.found().intent_words[0], 3u);
  EXPECT_EQ(f.set(), (std::vector<Range>{{0, 2 * kRegion}}));
}

TEST(IntentStore, AllWhoComeDuringACommitShareTheNext) {
  Fixture f;
  Told first;
  ASSERT_EQ(f.store.cover(0, 1, first), 0);
  std::vector<Told> others(32);
  for (size_t i = 0; i < others.size(); ++i)
    ASSERT_EQ(f.store.cover((i + 1) * 2 * kRegion, 1, others[i]), 0);
  f.disk.finish();
  f.disk.finish();
  EXPECT_EQ(f.disk.flushes, 1u);
  EXPECT_EQ(first.result, 0);
  EXPECT_FALSE(others[0].result);
  f.disk.finish_all();
  EXPECT_EQ(f.disk.flushes, 2u);
  for (const Told& each : others) EXPECT_EQ(each.result, 0);
}

// Clients who write to cold regions, each to another one.
struct Comers {
  explicit Comers(Fixture& of) : f(of) {}
  void come(size_t count) {
    for (; count > 0; --count, ++region) ASSERT_EQ(f.store.cover(2 * region * kRegion, 1, told[region]), 0);
  }

  Fixture& f;
  std::vector<Told> told{64};
  uint64_t region = 0;
};

// 32 clients on cold regions: those of a commit come back one after the other.
TEST(IntentStore, ACommitWaitsAMomentForAsManyAsTheLastOneHad) {
  OneTimer clock;
  Fixture f(kVolume, &clock);
  Comers comers(f);
  const auto come = [&comers](size_t count) { comers.come(count); };
  const auto commit = [&] {
    clock.pass(kMillisecond_ns);
    f.disk.finish_all();
  };
  come(1);
  ASSERT_EQ(f.disk.pending(), 1u) << "nobody is expected: at once";
  come(9);
  f.disk.finish();
  f.disk.finish();  // the first one is told; the nine who came meanwhile go on at once
  ASSERT_EQ(f.disk.pending(), 1u);
  commit();
  EXPECT_EQ(f.disk.flushes, 2u);
  come(3);
  EXPECT_EQ(f.disk.pending(), 0u) << "six more are expected";
  come(6);
  EXPECT_EQ(f.disk.pending(), 1u);
  EXPECT_FALSE(clock.due);
  commit();
  EXPECT_EQ(f.disk.flushes, 3u);
  come(2);
  EXPECT_EQ(f.disk.pending(), 0u);
  clock.pass(kMillisecond_ns);
  EXPECT_EQ(f.disk.pending(), 1u) << "no longer than the last commit took";
  commit();
  come(7);
  clock.pass(8 * kSecond_ns);
  f.disk.finish_all();
  come(2);
  EXPECT_EQ(f.disk.pending(), 0u);
  clock.pass(limits::kIntentGatherMax_ns);
  EXPECT_EQ(f.disk.pending(), 1u) << "nor as long as the disk hung";
  commit();
  clock.pass(limits::kIntentGatherMax_ns);
  come(1);
  EXPECT_EQ(f.disk.pending(), 1u) << "after a pause nobody is expected";
  commit();
  EXPECT_EQ(f.disk.flushes, 7u);
  for (uint64_t i = 0; i < comers.region; ++i) EXPECT_EQ(comers.told[i].result, 0);
}

// A burst is no reason to wait for ever: who comes alone since has no others with him.
TEST(IntentStore, WhoComesAloneWaitsForNobodyAfterSomeCommits) {
  OneTimer clock;
  Fixture f(kVolume, &clock);
  Comers comers(f);
  const auto come = [&comers](size_t count) { comers.come(count); };
  come(1);
  come(9);
  f.disk.finish_all();
  for (int i = 0; i < 20; ++i) {
    come(1);
    clock.pass(kMillisecond_ns);
    f.disk.finish_all();
  }
  come(1);
  EXPECT_EQ(f.disk.pending(), 1u) << "at once";
  f.disk.finish_all();
}

TEST(IntentStore, ARangeOverPagesIsWrittenInOneRequestAndPagesApartInTwo) {
  Fixture f;
  Told told;
  ASSERT_EQ(f.store.cover((kIntentPageRegions - 1) * kRegion, 2 * kRegion, told), 0);
  EXPECT_EQ(f.disk.pending(), 1u);
  EXPECT_EQ(f.disk.request().length_bytes, 2 * kPageBytes);
  f.disk.finish_all();
  EXPECT_TRUE(f.store.covered((kIntentPageRegions - 1) * kRegion, 2 * kRegion));
  EXPECT_EQ(f.set(),
            (std::vector<Range>{{(kIntentPageRegions - 1) * uint64_t{kRegion}, 2 * kRegion}}));
  Told blocker;
  std::array<Told, 2> ends;
  ASSERT_NO_FATAL_FAILURE(f.begin_two_pages(blocker, ends));
  f.disk.finish(1);  // in any order
  EXPECT_EQ(f.disk.pending(), 1u) << "no flush before both are written";
  f.disk.finish_all();
  EXPECT_EQ(ends[0].result, 0);
  EXPECT_EQ(ends[1].result, 0);
  EXPECT_EQ(f.store.set_bytes(), 4 * uint64_t{kRegion} + 4096) << "not past the volume's end";
  EXPECT_EQ(f.set().back(), Range(f.volume - 4096, 4096u));
  EXPECT_TRUE(f.store.any(f.volume - 1, 1));
  EXPECT_FALSE(f.store.any(f.volume - 2 * kRegion, kRegion));
}

TEST(IntentStore, WhoWaitsForWhatTheCommitUnderWayHoldsIsToldWithIt) {
  Fixture f;
  Told first, same;
  ASSERT_EQ(f.store.cover(0, 1, first), 0);
  ASSERT_EQ(f.store.cover(1, 1, same), 0);
  f.disk.finish_all();
  EXPECT_EQ(same.result, 0);
  EXPECT_EQ(f.disk.flushes, 1u);
  // Nothing is left to be written: told nevertheless, and not from within.
  Told again;
  ASSERT_EQ(f.store.cover(0, 1, again), 0);
  EXPECT_FALSE(again.result);
  f.disk.finish_all();
  EXPECT_EQ(again.result, 0);
}

TEST(IntentStore, ABitThatIsClearedAndSetAgainDuringACommitIsDurableOnlyAsTheDiskHasIt) {
  // The commit under way takes the bit off the disk; it is set again meanwhile.
  Fixture f;
  Told first, again;
  ASSERT_EQ(f.store.cover(0, 1, first), 0);
  f.disk.finish_all();
  for (int round = 0; round < 2; ++round) f.store.age(never);
  f.store.age(never);
  ASSERT_EQ(f.disk.pending(), 1u) << "the cleared bit is being written";
  EXPECT_FALSE(f.store.covered(0, 1)) << "from now on";
  ASSERT_EQ(f.store.cover(0, 1, again), 0);
  f.disk.finish();
  f.disk.finish();
  EXPECT_FALSE(again.result);
  EXPECT_FALSE(f.store.covered(0, 1));
  f.disk.finish_all();
  EXPECT_EQ(again.result, 0);
  EXPECT_EQ(f.found().intent_words[0], 1u);
}

TEST(IntentStore, AWaiterMayComeBackWithMoreFromWithin) {
  Fixture f;
  Told first, second, third;
  first.then = [&] {
    ASSERT_EQ(f.store.cover(kRegion, 1, second), 0);
    ASSERT_EQ(f.store.cover(2 * kRegion, 1, third), 0);
  };
  ASSERT_EQ(f.store.cover(0, 1, first), 0);
  f.disk.finish_all();
  EXPECT_EQ(second.result, 0);
  EXPECT_EQ(third.result, 0);
  EXPECT_EQ(f.disk.flushes, 2u) << "both in one";
}

TEST(IntentStore, ARegionIsClearedAfterTwoRoundsInWhichItIsNotTouchedUnlessItIsNeeded) {
  Fixture f;
  Told told;
  for (uint64_t region = 0; region < 4; ++region)
    ASSERT_EQ(f.store.cover(region * kRegion, 1, told), 0);
  f.disk.finish_all();
  f.store.age(never);
  EXPECT_TRUE(f.store.covered(0, 1));  // touched
  f.store.age(never);
  EXPECT_EQ(f.store.set_bytes(), 4 * uint64_t{kRegion});
  std::set<uint64_t> asked;
  f.store.age([&](uint64_t offset, uint64_t length) {
    EXPECT_EQ(length, kRegion);
    asked.insert(offset);
    return offset == 2 * kRegion;
  });
  EXPECT_EQ(asked, (std::set<uint64_t>{kRegion, 2 * kRegion, 3 * kRegion}));
  f.disk.finish_all();
  EXPECT_EQ(f.found().intent_words[0], 0b101u);
  EXPECT_EQ(f.set(), (std::vector<Range>{{0, kRegion}, {2 * kRegion, kRegion}}));
  const uint64_t flushes = f.disk.flushes;
  for (int round = 0; round < 3; ++round) f.store.age(always);
  EXPECT_EQ(f.disk.pending(), 0u);
  EXPECT_EQ(f.disk.flushes, flushes);
}

TEST(IntentStore, NeitherAgeNorClearAllTakesWhatIsWaitedFor) {
  for (const bool age : {true, false}) {
    Fixture f;
    Told first, second;
    ASSERT_EQ(f.store.cover(0, 1, first), 0);
    ASSERT_EQ(f.store.cover(kRegion, 1, second), 0);
    if (age)
      for (int round = 0; round < 5; ++round) f.store.age(never);
    else
      f.store.clear_all();
    f.disk.finish_all();
    EXPECT_EQ(first.result, 0);
    EXPECT_EQ(second.result, 0);
    EXPECT_TRUE(f.store.covered(0, 2 * kRegion));
    EXPECT_EQ(f.found().intent_words[0], 0b11u);
  }
}

TEST(IntentStore, ClearAllLeavesNothingOnTheDisk) {
  Fixture f;
  Told told;
  ASSERT_EQ(f.store.cover(0, f.volume, told), 0);
  f.disk.finish_all();
  EXPECT_EQ(f.store.set_bytes(), f.volume);
  f.store.clear_all();
  EXPECT_FALSE(f.store.covered(0, 1));
  f.disk.finish_all();
  EXPECT_EQ(f.store.set_bytes(), 0u);
  for (const uint64_t word : f.found().intent_words) ASSERT_EQ(word, 0u);
}

TEST(IntentStore, AFailedDiskStaysFailedAndEverybodyIsTold) {
  for (const int failing : {0, 1}) {
    Fixture f;
    Told first, second, third;
    ASSERT_EQ(f.store.cover(0, 1, first), 0);
    ASSERT_EQ(f.store.cover(kRegion, 1, second), 0);
    for (int step = 0; step < failing; ++step) f.disk.finish();
    f.disk.finish(0, EIO);
    EXPECT_EQ(first.result, EIO);
    EXPECT_EQ(second.result, EIO);
    EXPECT_EQ(f.store.error(), EIO);
    EXPECT_FALSE(f.store.covered(0, 1));
    EXPECT_EQ(f.store.cover(0, 1, third), EIO);
    f.store.clear_all();
    f.store.age(never);
    int created = 0;
    f.store.create(kTag, [&](int error) { created = error; });
    EXPECT_EQ(created, EIO);
    EXPECT_EQ(f.disk.pending(), 0u) << "never retried into success";
    EXPECT_FALSE(third.result);
  }
}

TEST(IntentStore, CreateIsDoneWhenAllPagesAreClearOnTheMedium) {
  const uint64_t volume = 64 * kTiB;
  CrashDisk disk(layout_of(volume, kRegion).file_bytes);
  IntentStore store(disk, volume, kRegion);
  std::optional<int> created;
  store.create(kTag, [&](int error) { created = error; });
  while (disk.pending() > 0) {
    EXPECT_FALSE(created);
    disk.finish();
  }
  EXPECT_EQ(created, 0);
  EXPECT_EQ(disk.flushes, 1u);
  std::mt19937_64 random(1);
  disk.power_lost(random);
  for (uint32_t index = 0; index < 517; ++index) {
    IntentPage page;
    std::memcpy(&page, disk.cache.data() + kIntentOffset + index * kPageBytes, sizeof page);
    ASSERT_TRUE(page_good(page, index, kTag, 0)) << index;
  }
}

TEST(IntentStore, CreateDuringACommitComesAfterItAndKeepsWhatIsWaitedFor) {
  Fixture f;
  Told before, told;
  ASSERT_EQ(f.store.cover(5 * kRegion, 1, before), 0);
  f.disk.finish_all();
  ASSERT_EQ(f.store.cover(0, 1, told), 0);
  f.disk.finish();
  int created = -1;
  f.store.create(kTag, [&](int error) { created = error; });
  while (created != 0) {
    EXPECT_FALSE(told.result) << "create() would take it back";
    f.disk.finish();
  }
  EXPECT_EQ(f.found().intent_words[0], 0u);
  f.disk.finish_all();
  EXPECT_EQ(told.result, 0);
  EXPECT_TRUE(f.store.covered(0, 1));
  EXPECT_FALSE(f.store.covered(5 * kRegion, 1));
  EXPECT_EQ(f.found().intent_words[0], 1u);
}

TEST(IntentStore, WhatWasLoadedIsSetButNotDurableUntilItIsWritten) {
  Fixture f;
  Told told;
  ASSERT_EQ(f.store.cover(0, 1, told), 0);
  ASSERT_EQ(f.store.cover(f.volume - 1, 1, told), 0);
  f.disk.finish_all();
  const Loaded loaded = f.found();
  EXPECT_EQ(loaded.intent_sequence, 2u);
  IntentStore next(f.disk, f.volume, kRegion);
  next.load(loaded.intent_words, kTag, loaded.intent_sequence);
  EXPECT_EQ(next.set_bytes(), uint64_t{kRegion} + 4096) << "two, of which the last is cut short";
  EXPECT_FALSE(next.covered(0, 1));
  Told again;
  ASSERT_EQ(next.cover(0, 1, again), 0);
  f.disk.finish_all();
  EXPECT_EQ(again.result, 0);
  EXPECT_TRUE(next.covered(f.volume - 1, 1)) << "written along";
  EXPECT_EQ(f.found().intent_words, loaded.intent_words);
}

// A damaged page counts as full, and is mended by what is written next.
TEST(IntentStore, MoreChangedPagesThanACommitTakesFollowInOthers) {
  const uint64_t volume = 64 * kTiB;
  Fixture f(volume);
  std::fill(f.disk.cache.begin() + kIntentOffset, f.disk.cache.end(), std::byte{0x55});
  const Loaded loaded = f.found();
  EXPECT_EQ(loaded.warnings.size(), 1u);
  IntentStore store(f.disk, volume, kRegion);
  store.load(loaded.intent_words, kTag, loaded.intent_sequence);
  EXPECT_EQ(store.set_bytes(), volume);
  Told last;
  f.disk.flushes = 0;
  ASSERT_EQ(store.cover(volume - 1, 1, last), 0);
  while (!last.result) f.disk.finish();
  EXPECT_EQ(f.disk.flushes, 1u) << "who waits comes first";
  f.disk.finish_all();
  EXPECT_EQ(f.found().warnings.size(), 0u);
  EXPECT_TRUE(store.covered(0, volume));
  f.store.clear_all();
}

TEST(IntentStore, AgeLooksAtSomeRegionsOfAFullMapAndAtAllInTheEnd) {
  const uint64_t volume = 64 * kTiB;
  Fixture f(volume);
  Told told;
  ASSERT_EQ(f.store.cover(0, volume, told), 0);
  f.disk.finish_all();
  uint64_t looks = 0;
  const auto count = [&looks](uint64_t, uint64_t) {
    ++looks;
    return false;
  };
  for (int round = 0; round < 2; ++round) f.store.age(count);
  EXPECT_EQ(looks, 0u);
  uint64_t rounds = 0;
  while (f.store.set_bytes() > 0) {
    looks = 0;
    f.store.age(count);
    ASSERT_LE(looks, IntentMap::kAgeLooksMax + 63);
    ASSERT_LT(++rounds, 300u);
  }
  f.disk.finish_all();
  for (const uint64_t word : f.found().intent_words) ASSERT_EQ(word, 0u);
}

// Whoever looks at the larger volume finds pages that are clear, whatever lay there; and whoever looks at
// the smaller one finds what it had, also if the record never comes.
TEST(IntentStore, PagesOfALargerVolumeAreClearBeforeTheyCount) {
  Fixture f;
  const uint64_t larger = (5 * kIntentPageRegions + 7) * uint64_t{kRegion};
  const Layout layout = layout_of(larger, kRegion);
  ASSERT_EQ(layout.intent_pages, 6u);
  f.disk.enlarge(layout.file_bytes);
  Told told;
  ASSERT_EQ(f.store.cover(f.volume - 1, 1, told), 0);
  f.disk.finish_all();
  std::optional<int> ready;
  f.store.prepare_growth(larger, [&](int error) { ready = error; });
  EXPECT_FALSE(ready) << "later, never from within";
  EXPECT_FALSE(f.store.covered(0, 1));
  const std::vector<Range> before = f.set();
  f.disk.finish_all();
  ASSERT_EQ(ready, 0);
  EXPECT_EQ(f.set(), before) << "a volume of the old size does not look at them";
  f.store.grow(larger);
  f.volume = larger;
  EXPECT_TRUE(f.found().warnings.empty()) << f.found().warnings.front();
  const uint64_t words_set = f.store.set_bytes();
  EXPECT_EQ(words_set, uint64_t{kRegion}) << "the region that the old end cut is whole now";
  ASSERT_EQ(f.store.cover(larger - kRegion, 1, told), 0);
  f.disk.finish_all();
  EXPECT_TRUE(f.store.covered(larger - kRegion, 1));
  EXPECT_TRUE(f.found().warnings.empty());
}

TEST(IntentStore, AGrowthThatTheDiskRefusesIsTold) {
  Fixture f;
  const uint64_t larger = 4 * kIntentPageRegions * uint64_t{kRegion};
  f.disk.enlarge(layout_of(larger, kRegion).file_bytes);
  std::optional<int> ready;
  f.store.prepare_growth(larger, [&](int error) { ready = error; });
  f.disk.finish(0, EIO);
  EXPECT_EQ(ready, EIO);
  EXPECT_EQ(f.store.error(), 0) << "what the volume needs now is well";
  f.store.prepare_growth(larger, [&](int error) { ready = error; });
  f.disk.finish_all();
  EXPECT_EQ(ready, 0) << "it may be tried again";
}

TEST(IntentStoreDeathTest, RefusesARangeOutsideTheVolume) {
  Fixture f;
  Told told;
  EXPECT_DEATH((void)f.store.cover(f.volume - 1, kRegion, told), "inside the volume");
  EXPECT_DEATH((void)f.store.cover(0, 0, told), "inside the volume");
}

TEST(IntentStore, ARangeOfSeveralRegionsIsTouchedInAllOfThem) {
  Fixture f;
  Told told;
  ASSERT_EQ(f.store.cover(0, 3 * kRegion, told), 0);
  f.disk.finish_all();
  for (int round = 0; round < 4; ++round) {
    ASSERT_TRUE(f.store.covered(0, 3 * kRegion)) << round;
    f.store.age(never);
  }
  EXPECT_EQ(f.store.set_bytes(), 3 * uint64_t{kRegion});
}

}  // namespace
}  // namespace twinblock::metadata
