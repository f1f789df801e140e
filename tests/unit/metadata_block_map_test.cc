// BlockMap against a set of block numbers; Epochs and the in-flight filter on top of it.
#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <set>
#include <vector>

#include "base/limits.h"
#include "base/units.h"
#include "metadata/block_map.h"
#include "mirror/epochs.h"
#include "mirror/inflight_filter.h"

namespace twinblock {
namespace {

constexpr uint64_t kBlock = limits::kBlockBytes;
constexpr uint64_t kChunkBytes = 32768 * kBlock;

TEST(BlockMap, SetsEveryBlockThatARangeTouches) {
  BlockMap map(kMiB);
  map.set(kBlock - 1, 2);
  EXPECT_EQ(map.set_blocks(), 2u);
  EXPECT_TRUE(map.any(0, 1));
  EXPECT_TRUE(map.any(kBlock, 1));
  EXPECT_FALSE(map.any(2 * kBlock, 1));
}

TEST(BlockMap, ForgetsWholeBlocksOnly) {
  BlockMap map(kMiB);
  map.set(0, 4 * kBlock);
  map.clear(1, 3 * kBlock);
  EXPECT_TRUE(map.any(0, kBlock));
  EXPECT_FALSE(map.any(kBlock, 2 * kBlock));
  EXPECT_TRUE(map.any(3 * kBlock, kBlock));
}

TEST(BlockMap, ForgetsTheLastPartialBlockWithTheVolumesEnd) {
  BlockMap map(10 * kBlock + 512);
  map.set(10 * kBlock, 512);
  EXPECT_EQ(map.set_bytes(), 512u);
  map.clear(10 * kBlock, 511);
  EXPECT_EQ(map.set_blocks(), 1u);
  map.clear(10 * kBlock, 512);
  EXPECT_TRUE(map.empty());
}

TEST(BlockMap, CountsTheBytesOfAFullMapNotPastTheEnd) {
  const uint64_t size = kChunkBytes + 3 * kBlock + 512;
  BlockMap map(size);
  map.set_all();
  EXPECT_EQ(map.set_bytes(), size);
  map.clear_all();
  EXPECT_EQ(map.set_bytes(), 0u);
}

TEST(BlockMap, ARunEndsAtAChunkAtTheWantedLengthAndAtTheVolumesEnd) {
  const uint64_t size = kChunkBytes + 3 * kBlock + 512;
  BlockMap map(size);
  map.set(kChunkBytes - 2 * kBlock, 5 * kBlock + 512);
  const auto first = map.next_run(0, kGiB);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->begin_bytes, kChunkBytes - 2 * kBlock);
  EXPECT_EQ(first->end_bytes, kChunkBytes);
  const auto second = map.next_run(first->end_bytes, 2 * kBlock);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->length(), 2 * kBlock);
  const auto last = map.next_run(second->end_bytes, kGiB);
  ASSERT_TRUE(last);
  EXPECT_EQ(last->end_bytes, size);
  EXPECT_FALSE(map.next_run(size, kGiB));
}

TEST(BlockMap, LooksWithinABoundOnly) {
  BlockMap map(kTiB);
  map.set(10 * kBlock, kBlock);
  EXPECT_FALSE(map.next_run(0, kMiB, 10 * kBlock));
  EXPECT_TRUE(map.next_run(0, kMiB, 10 * kBlock + 1));
  map.set(kTiB - kBlock, kBlock);
  EXPECT_FALSE(map.next_run(11 * kBlock, kMiB, kTiB - kBlock));
  EXPECT_TRUE(map.next_run(11 * kBlock, kMiB, kTiB));
  EXPECT_FALSE(map.any(11 * kBlock, kTiB - 12 * kBlock));
}

// Not at the price of the volume: the loop asks for each run of a resync and each region that ages.
TEST(BlockMap, OfALargeVolumeIsSearchedAtThePriceOfWhatIsUsed) {
  const auto seconds_of = [](auto&& work) {
    const auto began = std::chrono::steady_clock::now();
    work();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  };
  BlockMap map(64 * kTiB), sum(64 * kTiB);
  const double whole = seconds_of([&] {
    map.set_all();
    map.clear_all();
  });
  map.set(64 * kTiB - kBlock, kBlock);
  bool found = false;
  const double looks = seconds_of([&] {
    for (uint64_t i = 0; i < 200'000; ++i) found = found || map.any(i % 1000 * kGiB, kMiB);
  });
  EXPECT_FALSE(found);
  const double searches = seconds_of([&] {
    for (int i = 0; i < 100; ++i) {
      sum.merge(map);
      found = sum.next_run(0, kMiB) && sum.next_chunk(0);
      sum.clear_all();
    }
  });
  EXPECT_TRUE(found);
  EXPECT_LT(looks, 5 * whole) << "200,000 looks, against changing every chunk once: none goes on behind its range";
  EXPECT_LT(searches, 5 * whole) << "100 searches, merges and clears";
}

TEST(BlockMapDeathTest, RefusesARangeOutsideTheVolume) {
  BlockMap map(kMiB);
  EXPECT_DEATH(map.set(kMiB - 1, 2), "inside the volume");
}

struct Model {
  explicit Model(uint64_t size_) : size(size_) {}
  void set(uint64_t offset, uint64_t length) {
    for (uint64_t b = offset / kBlock; b <= (offset + length - 1) / kBlock; ++b) blocks.insert(b);
  }
  void clear(uint64_t offset, uint64_t length) {
    for (auto it = blocks.begin(); it != blocks.end();) {
      const uint64_t begin = *it * kBlock, end = std::min(begin + kBlock, size);
      if (begin >= offset && end <= offset + length)
        it = blocks.erase(it);
      else
        ++it;
    }
  }
  uint64_t size;
  std::set<uint64_t> blocks;
};

void expect_same(const BlockMap& map, const Model& model) {
  ASSERT_EQ(map.set_blocks(), model.blocks.size());
  std::set<uint64_t> found;
  uint64_t at = 0, bytes = 0;
  while (const auto run = map.next_run(at, 64 * kMiB)) {
    ASSERT_GE(run->begin_bytes, at);
    ASSERT_LT(run->begin_bytes, run->end_bytes);
    for (uint64_t b = run->begin_bytes; b < run->end_bytes; b += kBlock) found.insert(b / kBlock);
    bytes += run->length();
    at = run->end_bytes;
  }
  ASSERT_EQ(found, model.blocks);
  ASSERT_EQ(map.set_bytes(), bytes);
}

class BlockMapModel : public testing::TestWithParam<unsigned> {};

TEST_P(BlockMapModel, HoldsWhatTheModelHolds) {
  std::mt19937_64 random(GetParam());
  const uint64_t size = GetParam() % 2 == 0 ? 2 * kChunkBytes + 5 * kBlock + 1024 : 300 * kBlock;
  BlockMap map(size), other(size);
  Model model(size), other_model(size);
  for (int step = 0; step < 300; ++step) {
    // Around the borders of chunks as often as anywhere.
    uint64_t offset = random() % size;
    if (random() % 2 == 0 && size > kChunkBytes)
      offset = std::min(size - 1, kChunkBytes - 20 * kBlock + random() % (40 * kBlock));
    uint64_t length = 1 + random() % (40 * kBlock);
    if (random() % 20 == 0 && size > kChunkBytes) length = kChunkBytes;
    length = std::min(length, size - offset);
    switch (random() % 5) {
      case 0:
      case 1:
        map.set(offset, length);
        model.set(offset, length);
        break;
      case 2:
        map.clear(offset, length);
        model.clear(offset, length);
        break;
      case 3:
        other.set(offset, length);
        other_model.set(offset, length);
        break;
      default:
        if (random() % 4 == 0) {
          map.merge(other);
          model.blocks.insert(other_model.blocks.begin(), other_model.blocks.end());
        } else if (random() % 4 == 0) {
          map.swap(other);
          std::swap(model.blocks, other_model.blocks);
        } else {
          other.clear_all();
          other_model.blocks.clear();
        }
    }
    const bool any = std::any_of(model.blocks.begin(), model.blocks.end(), [&](uint64_t b) {
      return b >= offset / kBlock && b <= (offset + length - 1) / kBlock;
    });
    ASSERT_EQ(map.any(offset, length), any) << step;
    if (step % 10 == 0) {
      expect_same(map, model);
      expect_same(other, other_model);
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Seeds, BlockMapModel, testing::Range(1u, 9u));

// Full chunks have no bitmap; taking from and adding to them is where that shows.
TEST(BlockMap, AFullChunkLosesAndRegainsBlocks) {
  BlockMap map(kChunkBytes + 100 * kBlock);
  Model model(kChunkBytes + 100 * kBlock);
  map.set_all();
  map.clear(kChunkBytes, 100 * kBlock);
  EXPECT_EQ(map.set_bytes(), kChunkBytes);
  map.clear(5 * kBlock, kBlock);
  EXPECT_FALSE(map.any(5 * kBlock, kBlock));
  map.set(5 * kBlock, 1);
  EXPECT_EQ(map.set_bytes(), kChunkBytes);
}

// As maps are stored and sent: chunk by chunk, into an empty map and into one that holds some.
TEST_P(BlockMapModel, GoesAwayInChunksAndComesBack) {
  std::mt19937_64 random(GetParam());
  const uint64_t size = 3 * kChunkBytes + 77 * kBlock + 1024;
  BlockMap map(size), copy(size), mixed(size), expected(size);
  for (int i = 0; i < 40; ++i) {
    const uint64_t offset = random() % size;
    map.set(offset, std::min(size - offset, 1 + random() % (40 * kBlock)));
    const uint64_t other = random() % size;
    mixed.set(other, std::min(size - other, 1 + random() % (40 * kBlock)));
  }
  if (GetParam() % 2 == 0) map.set(kChunkBytes, kChunkBytes);
  if (GetParam() % 3 == 0) map.set(3 * kChunkBytes, size - 3 * kChunkBytes);
  expected.merge(map);
  expected.merge(mixed);
  uint64_t from = 0;
  while (const auto chunk = map.next_chunk(from)) {
    ASSERT_GE(chunk->offset_bytes, from);
    from = chunk->offset_bytes + chunk->length_bytes;
    ASSERT_TRUE(copy.merge_chunk(*chunk));
    ASSERT_TRUE(mixed.merge_chunk(*chunk));
  }
  const auto expect_equal = [](const BlockMap& a, const BlockMap& b) {
    ASSERT_EQ(a.set_blocks(), b.set_blocks());
    uint64_t at = 0;
    while (const auto run = a.next_run(at, kGiB)) {
      const auto same = b.next_run(at, kGiB);
      ASSERT_TRUE(same);
      ASSERT_EQ(run->begin_bytes, same->begin_bytes);
      ASSERT_EQ(run->end_bytes, same->end_bytes);
      at = run->end_bytes;
    }
  };
  expect_equal(copy, map);
  expect_equal(mixed, expected);
}

TEST(BlockMap, RefusesAChunkThatIsNotOfThisVolume) {
  BlockMap map(kChunkBytes + 70 * kBlock);
  std::vector<std::byte> bits(BlockMap::kChunkBitmapBytes);
  bits[8] = std::byte{0x20};  // block 69, the last of the second chunk
  const auto add = [&](uint64_t offset, uint64_t length, size_t bytes) {
    return map.merge_chunk({offset, length, std::span(bits).first(bytes)});
  };
  EXPECT_FALSE(add(kBlock, kChunkBytes, 0));
  EXPECT_FALSE(add(2 * kChunkBytes, kChunkBytes, 0));
  EXPECT_FALSE(add(~uint64_t{0} / kChunkBytes * kChunkBytes, kChunkBytes, 0));
  EXPECT_FALSE(add(kChunkBytes, kChunkBytes, 0));
  EXPECT_FALSE(add(0, 70 * kBlock, 0));
  EXPECT_FALSE(add(kChunkBytes, 70 * kBlock, bits.size() - 1));
  EXPECT_TRUE(map.empty());
  EXPECT_TRUE(add(kChunkBytes, 70 * kBlock, bits.size()));
  EXPECT_EQ(map.set_blocks(), 1u);
  EXPECT_TRUE(map.any(kChunkBytes + 69 * kBlock, kBlock));
  bits[8] = std::byte{0x40};  // past the end
  EXPECT_FALSE(add(kChunkBytes, 70 * kBlock, bits.size()));
  bits[8] = std::byte{0};
  bits.back() = std::byte{1};
  EXPECT_FALSE(add(kChunkBytes, 70 * kBlock, bits.size()));
  EXPECT_EQ(map.set_blocks(), 1u);
  EXPECT_TRUE(add(kChunkBytes, 70 * kBlock, 0));
  EXPECT_EQ(map.set_blocks(), 70u);
}

TEST(Epochs, ABlockIsForgottenOnlyByAFlushThatBeganAfterItsWrite) {
  Epochs epochs(kMiB);
  BlockMap dirty(kMiB);
  epochs.written(0, kBlock);
  epochs.flush_began();
  epochs.written(kBlock, kBlock);  // during the flush
  epochs.flush_completed();
  EXPECT_FALSE(epochs.empty());
  epochs.peer_lost(dirty);
  EXPECT_FALSE(dirty.any(0, kBlock));
  EXPECT_TRUE(dirty.any(kBlock, kBlock));
  EXPECT_TRUE(epochs.empty());
}

TEST(Epochs, TheLossOfThePeerDuringAFlushMakesAllOfItDirty) {
  Epochs epochs(kMiB);
  BlockMap dirty(kMiB);
  epochs.written(0, kBlock);
  epochs.flush_began();
  epochs.written(2 * kBlock, kBlock);
  epochs.peer_lost(dirty);
  EXPECT_EQ(dirty.set_blocks(), 2u);
}

TEST(Epochs, AFailedFlushIsCoveredByTheNext) {
  Epochs epochs(kMiB);
  epochs.written(0, kBlock);
  epochs.flush_began();  // does not complete
  epochs.flush_began();
  epochs.flush_completed();
  EXPECT_TRUE(epochs.empty());
}

// A chunk of which all blocks are set keeps no bits: what is new of it must not count as set.
TEST(BlockMap, WhatIsNewOfALargerVolumeIsClear) {
  for (const uint64_t blocks : {uint64_t{1}, uint64_t{5}, uint64_t{63}, uint64_t{64}, uint64_t{65},
                                uint64_t{32767}, uint64_t{32768}, uint64_t{32769}, uint64_t{70000}})
    for (const uint64_t more : {uint64_t{0}, uint64_t{1}, uint64_t{64}, uint64_t{32768}, uint64_t{100000}}) {
      const uint64_t before = blocks * kBlock, after = (blocks + more) * kBlock;
      BlockMap full(before), empty(before);
      full.set_all();
      full.grow(after);
      empty.grow(after);
      EXPECT_TRUE(empty.empty());
      EXPECT_EQ(full.set_blocks(), blocks) << more;
      EXPECT_EQ(full.set_bytes(), before) << more;
      EXPECT_EQ(full.any(before, more * kBlock), false) << blocks << " and " << more;
      EXPECT_TRUE(full.any(before - kBlock, kBlock));
      full.set(before, more * kBlock);
      EXPECT_EQ(full.set_blocks(), blocks + more);
      // As good as one that was so large from the beginning.
      BlockMap other(after);
      other.merge(full);
      EXPECT_EQ(other.set_bytes(), after);
      full.clear(0, after);
      EXPECT_TRUE(full.empty());
    }
}

TEST(BlockMap, ALargerVolumeKeepsWhatWasSet) {
  BlockMap map(3 * kBlock + 512);
  map.set(3 * kBlock, 512);
  EXPECT_EQ(map.set_bytes(), 512u);
  map.grow(10 * kBlock);
  EXPECT_EQ(map.set_bytes(), kBlock) << "the last block is whole now";
  map.clear(3 * kBlock, 512);
  EXPECT_FALSE(map.empty()) << "and not forgotten by a part of it";
}

TEST(InflightFilter, IsQuietOnlyWhereNoWriteIsInFlight) {
  InflightFilter filter;
  EXPECT_TRUE(filter.quiet(0, kMiB));
  filter.raise(100 * kKiB, 512);
  EXPECT_FALSE(filter.quiet(100 * kKiB, 512));
  EXPECT_FALSE(filter.quiet(0, kMiB));
  EXPECT_TRUE(filter.quiet(0, 64 * kKiB));
  EXPECT_TRUE(filter.quiet(128 * kKiB, kMiB));
  filter.raise(0, kGiB);  // more regions than there are counters
  EXPECT_FALSE(filter.quiet(kTiB, 1));
  filter.lower(0, kGiB);
  filter.lower(100 * kKiB, 512);
  EXPECT_TRUE(filter.quiet(0, kGiB));
}

TEST(InflightFilter, AWriteAcrossABorderBlocksBothSides) {
  InflightFilter filter;
  filter.raise(64 * kKiB - 512, 1024);
  EXPECT_FALSE(filter.quiet(0, 512));
  EXPECT_FALSE(filter.quiet(64 * kKiB, 512));
  filter.lower(64 * kKiB - 512, 1024);
  EXPECT_TRUE(filter.quiet(0, 128 * kKiB));
}

TEST(InflightFilter, TheCountersBeginAnewInTheMiddleOfAWrite) {
  InflightFilter filter;
  for (const uint64_t at : {256 * kMiB, kTiB}) {
    const auto before = filter.mark(at - kMiB, 2 * kMiB);
    ASSERT_TRUE(before) << at;
    filter.raise(at - 64 * kKiB, 128 * kKiB);
    EXPECT_FALSE(filter.quiet(at - 512, 512)) << at;
    EXPECT_FALSE(filter.quiet(at, 512)) << at;
    EXPECT_FALSE(filter.quiet(at - 512, 1024)) << at;
    EXPECT_FALSE(filter.mark(at - kMiB, 2 * kMiB)) << at;
    filter.lower(at - 64 * kKiB, 128 * kKiB);
    EXPECT_FALSE(filter.unchanged(at - kMiB, 2 * kMiB, *before)) << at;
    EXPECT_TRUE(filter.quiet(at - kMiB, 2 * kMiB)) << at;
  }
}

// A worker that loses its processor between its two looks: a write that both began and ended there
// may be half in what was read.
TEST(InflightFilter, NoticesAWriteThatBeganAndEndedWhileAWorkerRead) {
  InflightFilter filter;
  const auto before = filter.mark(0, 4 * kKiB);
  ASSERT_TRUE(before);
  EXPECT_TRUE(filter.unchanged(0, 4 * kKiB, *before));
  filter.raise(0, 4 * kKiB);
  EXPECT_FALSE(filter.unchanged(0, 4 * kKiB, *before));
  EXPECT_FALSE(filter.mark(0, 4 * kKiB)) << "one is in flight";
  filter.lower(0, 4 * kKiB);
  EXPECT_TRUE(filter.quiet(0, 4 * kKiB));
  EXPECT_FALSE(filter.unchanged(0, 4 * kKiB, *before)) << "it has come and gone";
  const auto after = filter.mark(0, 4 * kKiB);
  ASSERT_TRUE(after);
  filter.raise(kMiB, 4 * kKiB);
  filter.lower(kMiB, 4 * kKiB);
  EXPECT_TRUE(filter.unchanged(0, 4 * kKiB, *after)) << "elsewhere";
}

TEST(InflightFilter, NoticesAWriteInAnyRegionOfALongRead) {
  InflightFilter filter;
  for (const uint64_t at : {uint64_t{0}, 16 * kMiB, 32 * kMiB - 512}) {
    const auto before = filter.mark(0, 32 * kMiB);
    ASSERT_TRUE(before);
    filter.raise(at, 512);
    filter.lower(at, 512);
    EXPECT_FALSE(filter.unchanged(0, 32 * kMiB, *before)) << at;
  }
}

}  // namespace
}  // namespace twinblock
