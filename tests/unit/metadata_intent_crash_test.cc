// The intent map under power cuts and crashes at any time.
#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <set>

#include "metadata_intent_support.h"

namespace twinblock::metadata {
namespace {

// Whatever was promised, by a waiter told or by covered(), and has not been given up since, is
// found after any crash: of the process, which leaves the page cache, or of the power.
class IntentCrash : public testing::TestWithParam<unsigned> {};

TEST_P(IntentCrash, LosesNothingThatWasPromised) {
  std::mt19937_64 random(GetParam());
  Fixture f((kIntentPageRegions + 64) * uint64_t{kRegion});
  auto store = std::make_unique<IntentStore>(f.disk, f.volume, kRegion);
  store->load(f.found().intent_words, kTag, 1);
  const uint64_t regions = f.volume / kRegion;
  std::set<uint64_t> promised;
  struct Wait final : IntentStore::Waiter {
    void intent_recorded(int error) override {
      ASSERT_EQ(error, 0);
      for (uint64_t region = first; region <= last; ++region) promised->insert(region);
      told = true;
    }
    std::set<uint64_t>* promised = nullptr;
    uint64_t first = 0, last = 0;
    bool told = false;
  };
  std::vector<std::unique_ptr<Wait>> waits;
  const auto any_region = [&] {  // some at the border of the pages, some anywhere
    const uint64_t near = kIntentPageRegions - 10 + random() % 20;
    return random() % 4 == 0 ? random() % (regions - 3) : near;
  };
  const auto check = [&] {
    const Loaded loaded = f.found();
    for (const uint64_t region : promised)
      ASSERT_TRUE((loaded.intent_words[region / 64] >> (region % 64) & 1) != 0) << region;
  };
  for (int step = 0; step < 4000; ++step) {
    switch (random() % 16) {
      case 0:
      case 1:
      case 2:
      case 3: {
        auto wait = std::make_unique<Wait>();
        wait->promised = &promised;
        wait->first = any_region();
        wait->last = wait->first + random() % 3;
        const uint64_t offset = wait->first * kRegion;
        const uint64_t length = (wait->last - wait->first + 1) * kRegion;
        if (store->covered(offset, length)) {
          for (uint64_t region = wait->first; region <= wait->last; ++region)
            promised.insert(region);
        } else {
          ASSERT_EQ(store->cover(offset, length, *wait), 0);
          waits.push_back(std::move(wait));
        }
        break;
      }
      case 4:
        store->age([&](uint64_t offset, uint64_t) {
          if (random() % 3 == 0) return true;
          promised.erase(offset / kRegion);
          return false;
        });
        break;
      case 5:
        if (random() % 30 == 0) {
          store->clear_all();
          promised.clear();
        }
        break;
      case 6:
        if (random() % 3 == 0) {
          const bool power = random() % 2 == 0;
          if (power)
            f.disk.power_lost(random);
          else
            f.disk.process_ends(random);
          store.reset();  // the disk is done with its requests
          waits.clear();
          check();
          const Loaded loaded = f.found();
          store = std::make_unique<IntentStore>(f.disk, f.volume, kRegion);
          store->load(loaded.intent_words, kTag, loaded.intent_sequence);
        }
        break;
      default:
        if (f.disk.pending() > 0) f.disk.finish(random() % f.disk.pending());
    }
    if (HasFatalFailure()) return;
  }
  f.disk.finish_all();
  for (const auto& each : waits) EXPECT_TRUE(each->told);
  EXPECT_TRUE(store->idle());
  check();
}
INSTANTIATE_TEST_SUITE_P(Seeds, IntentCrash, testing::Range(1u, 41u));

}  // namespace
}  // namespace twinblock::metadata
