// What the tests of the intent map share: a waiter, and a store on a disk that can crash.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "io/clock.h"
#include "metadata/intent_page.h"
#include "metadata/intent_store.h"
#include "metadata/load.h"
#include "metadata_support.h"

namespace twinblock::metadata {

inline constexpr uint32_t kRegion = kRegionBytesDefault;
inline constexpr uint64_t kTag = 0x0807060504030201;
using Range = std::pair<uint64_t, uint64_t>;

class Told final : public IntentStore::Waiter {
 public:
  void intent_recorded(int error) override {
    result = error;
    if (then) std::exchange(then, nullptr)();
  }
  std::optional<int> result;
  std::function<void()> then;
};

// Three pages, the last region cut short.
inline constexpr uint64_t kVolume = (2 * kIntentPageRegions + 100) * uint64_t{kRegion} + 4096;

struct Fixture {
  explicit Fixture(uint64_t volume_bytes = kVolume, Clock* clock = nullptr)
      : volume(volume_bytes),
        disk(layout_of(volume_bytes, kRegion).file_bytes),
        store(disk, volume_bytes, kRegion, clock) {
    store.create(kTag, [this](int error) { created = error; });
    disk.finish_all();
    EXPECT_EQ(created, 0);
    disk.flushes = 0;
  }
  // What a node would find that starts now.
  [[nodiscard]] Loaded found() const {
    NodeRecord record;
    record.size_bytes = volume;
    record.generations.current = 1;
    for (size_t i = 0; i < 8; ++i) record.volume_uuid[i] = static_cast<uint8_t>(i + 1);
    File file = disk.cache;
    for (const uint64_t offset : kSuperblockOffset) {
      const auto bytes = encode(record, 5);
      std::memcpy(file.data() + offset, bytes.data(), bytes.size());
    }
    return std::move(load(reader_of(file), file.size(), volume, "m").value());
  }
  [[nodiscard]] std::vector<Range> set() const {
    std::vector<Range> ranges;
    store.for_each_set(
        [&](uint64_t offset, uint64_t length) { ranges.emplace_back(offset, length); });
    return ranges;
  }
  // One commit of two pages that are no neighbours is about to be written; `blocker` went before.
  void begin_two_pages(Told& blocker, std::array<Told, 2>& ends) {
    ASSERT_EQ(store.cover(kIntentPageRegions * uint64_t{kRegion} * 3 / 2, 1, blocker), 0);
    ASSERT_EQ(store.cover(0, 1, ends[0]), 0);
    ASSERT_EQ(store.cover(volume - 1, 1, ends[1]), 0);
    disk.finish();
    disk.finish();
    ASSERT_EQ(disk.pending(), 2u);
  }
  uint64_t volume;
  CrashDisk disk;
  IntentStore store;
  int created = -1;
};

}  // namespace twinblock::metadata
