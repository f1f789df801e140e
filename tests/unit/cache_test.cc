// The cache of reads by content: what it keeps, what it forgets, and what it never says.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <random>
#include <vector>

#include "base/limits.h"
#include "cache/content_cache.h"

namespace twinblock {
namespace {

constexpr uint64_t kBlock = limits::kBlockBytes;
constexpr ContentDigest::Key kKey{std::byte{1}, std::byte{2}, std::byte{3}};

std::vector<std::byte> block_of(uint64_t number) {
  std::vector<std::byte> block(kBlock);
  for (size_t at = 0; at < kBlock; at += sizeof number) std::memcpy(block.data() + at, &number, sizeof number);
  return block;
}

bool yes() { return true; }

class CacheTest : public testing::Test {
 protected:
  CacheTest() : CacheTest(64 * kMiB, 16 * kMiB) {}
  CacheTest(uint64_t volume_bytes, uint64_t size_bytes) : cache_(volume_bytes, size_bytes, kKey) {}

  // As a read of the disk that finds the block `number` at `place`.
  void read(uint64_t place, uint64_t number) { cache_.keep(place, block_of(number), {false}, yes); }
  void write(uint64_t place, uint64_t number) {
    const std::vector<std::byte> block = block_of(number);
    cache_.forget(place * kBlock, kBlock);
    cache_.written(place * kBlock, cache_.tags_of(place * kBlock, block));
  }
  // What the cache says lies at `place`; ~0: nothing.
  uint64_t ask(uint64_t place) {
    std::vector<std::byte> into(kBlock);
    std::vector<bool> found;
    if (cache_.look(place, into, found) > 0) return ~uint64_t{0};
    uint64_t number = 0;
    std::memcpy(&number, into.data(), sizeof number);
    EXPECT_EQ(into, block_of(number));
    return number;
  }
  static constexpr uint64_t kNothing = ~uint64_t{0};

  ContentCache cache_;
};

TEST(ContentDigestTest, EqualBlocksHaveEqualDigestsAndOthersHaveNot) {
  ContentDigest digest(kKey), other({std::byte{9}});
  std::vector<std::byte> data = block_of(7);
  for (const uint64_t number : {8u, 7u}) {
    const auto block = block_of(number);
    data.insert(data.end(), block.begin(), block.end());
  }
  std::array<ContentTag, 3> tags{}, others{};
  digest.tags_of(data, tags);
  other.tags_of(data, others);
  EXPECT_EQ(tags[0], tags[2]);
  EXPECT_NE(tags[0], tags[1]);
  EXPECT_NE(tags[0], others[0]) << "nobody who does not know the key can tell a digest";
  for (size_t at = 0; at < kBlock; at += 97) {
    std::vector<std::byte> changed = block_of(7);
    changed[at] ^= std::byte{1};
    digest.tags_of(changed, std::span(others).first(1));
    EXPECT_NE(tags[0], others[0]) << at;
  }
}

TEST_F(CacheTest, WhatWasReadIsThere) {
  EXPECT_EQ(ask(5), kNothing);
  read(5, 100);
  EXPECT_EQ(ask(5), 100u);
  EXPECT_EQ(ask(6), kNothing);
  EXPECT_EQ(cache_.figures().hits, 1u);
  EXPECT_EQ(cache_.figures().misses, 2u);
}

TEST_F(CacheTest, EqualContentsAreKeptOnce) {
  for (uint64_t place = 0; place < 100; ++place) read(place, 100);
  EXPECT_EQ(cache_.figures().blocks, 1u);
  EXPECT_EQ(cache_.figures().shared_blocks, 99u);
  EXPECT_EQ(cache_.figures().places, 100u);
  for (uint64_t place = 0; place < 100; ++place) EXPECT_EQ(ask(place), 100u);
}

TEST_F(CacheTest, APlaceThatWasWrittenAndNeverReadIsAHitWhereAnEqualBlockIsThere) {
  write(9, 100);
  EXPECT_EQ(ask(9), kNothing) << "a write brings no data";
  read(5, 100);
  EXPECT_EQ(ask(9), 100u);
  EXPECT_EQ(cache_.figures().equal_hits, 1u);
}

TEST_F(CacheTest, AWriteIsWhatIsThereFromThenOn) {
  read(5, 100);
  read(6, 101);
  write(5, 101);
  EXPECT_EQ(ask(5), 101u);
  cache_.forget(5 * kBlock, kBlock);
  EXPECT_EQ(ask(5), kNothing);
  EXPECT_EQ(ask(6), 101u) << "the place is forgotten, not its content";
}

TEST_F(CacheTest, ABlockThatIsTouchedInPartIsForgotten) {
  for (uint64_t place = 4; place < 9; ++place) read(place, place);
  cache_.forget(5 * kBlock + 512, 2 * kBlock);
  EXPECT_EQ(ask(4), 4u);
  for (uint64_t place = 5; place < 8; ++place) EXPECT_EQ(ask(place), kNothing) << place;
  EXPECT_EQ(ask(8), 8u);
}

TEST_F(CacheTest, WritesThatAreNotOfWholeBlocksTellOfTheWholeOnesOnly) {
  std::vector<std::byte> data(512);
  for (const uint64_t number : {100u, 101u}) {
    const auto block = block_of(number);
    data.insert(data.end(), block.begin(), block.end());
  }
  data.resize(data.size() + 512);
  read(20, 100);
  read(21, 101);
  const uint64_t offset_bytes = 6 * kBlock - 512;
  cache_.written(offset_bytes, cache_.tags_of(offset_bytes, data));
  EXPECT_EQ(ask(5), kNothing);
  EXPECT_EQ(ask(6), 100u);
  EXPECT_EQ(ask(7), 101u);
  EXPECT_EQ(ask(8), kNothing);
  EXPECT_TRUE(cache_.tags_of(512, std::span(data).first(kBlock)).empty());
}

TEST_F(CacheTest, WhatChangedSinceItWasReadIsNotLearned) {
  cache_.keep(5, block_of(100), {false}, [] { return false; });
  EXPECT_EQ(ask(5), kNothing);
  EXPECT_EQ(cache_.figures().places, 0u);
}

TEST_F(CacheTest, LongRangesAreForgotten) {
  const uint64_t blocks = 64 * kMiB / kBlock;
  for (uint64_t place = 0; place < blocks; place += 64) read(place, place % 8);
  EXPECT_EQ(cache_.figures().places, blocks / 64);
  cache_.forget(100 * kBlock, 40 * kMiB);
  for (uint64_t place = 0; place < blocks; place += 64) {
    const bool inside = place >= 100 && place * kBlock < 100 * kBlock + 40 * kMiB;
    EXPECT_EQ(ask(place), inside ? kNothing : place % 8) << place;
  }
  read(512, 3);
  EXPECT_EQ(ask(512), 3u) << "what was forgotten can be learned anew";
  cache_.forget_all();
  EXPECT_EQ(cache_.figures().places, 0u);
  for (uint64_t place = 0; place < blocks; place += 64) EXPECT_EQ(ask(place), kNothing) << place;
}

TEST_F(CacheTest, WhatLiesBehindTheVolumesEndIsNotLearned) {
  read(64 * kMiB / kBlock, 1);
  EXPECT_EQ(ask(64 * kMiB / kBlock), kNothing);
  EXPECT_EQ(cache_.figures().places, 0u);
}

TEST(ContentStoreTest, AnotherBlockOfTheSameDigestIsNotTaken) {
  ContentStore store(kMiB);
  const ContentTag tag{1, 2};
  EXPECT_EQ(store.put(tag, block_of(1).data()), ContentStore::Put::kAdded);
  EXPECT_EQ(store.put(tag, block_of(1).data()), ContentStore::Put::kThere);
  EXPECT_EQ(store.put(tag, block_of(2).data()), ContentStore::Put::kDiffers);
  std::vector<std::byte> into(kBlock);
  ASSERT_TRUE(store.copy(tag, into.data()));
  EXPECT_EQ(into, block_of(1));
}

class ContentStoreQueues : public testing::Test {
 protected:
  ContentTag tag_of(uint64_t number) {
    std::array<ContentTag, 1> tag{};
    digest_.tags_of(block_of(number), tag);
    return tag[0];
  }
  // As a reader does: whether it was there.
  bool read(uint64_t number) {
    std::vector<std::byte> into(kBlock);
    if (store_.copy(tag_of(number), into.data())) return true;
    store_.put(tag_of(number), block_of(number).data());
    return false;
  }
  ContentDigest digest_{kKey};
  ContentStore store_{4 * kMiB};  // one shard
};

TEST_F(ContentStoreQueues, AScanDoesNotDriveOutWhatIsAskedForAgain) {
  const uint64_t room = store_.blocks_max(), hot = room / 2;
  for (int round = 0; round < 4; ++round)
    for (uint64_t i = 0; i < hot; ++i) read(i);
  for (uint64_t i = 0; i < 10 * room; ++i) read(1'000'000 + i);
  const auto there = [&] {
    uint64_t count = 0;
    for (uint64_t i = 0; i < hot; ++i) count += read(i) ? 1 : 0;
    return count;
  };
  EXPECT_GT(there(), hot * 9 / 10) << "of " << hot;
  EXPECT_EQ(store_.blocks(), room);
}

TEST_F(ContentStoreQueues, WhoComesBackSoonGetsIntoTheMainQueue) {
  const uint64_t room = store_.blocks_max(), ghost = room, newcomer = 3'000'000;
  for (uint64_t i = 0; i < 2 * room + 10; ++i) read(i);
  EXPECT_FALSE(read(ghost)) << "it has left";
  EXPECT_FALSE(read(newcomer));
  for (uint64_t i = 0; i < 2 * room; ++i) read(1'000'000 + i);
  EXPECT_TRUE(read(ghost));
  EXPECT_FALSE(read(newcomer)) << "it was there as long, and nobody had asked for it before";
}

TEST_F(ContentStoreQueues, EveryBlockIsItselfWhileOthersComeAndGo) {
  const uint64_t room = store_.blocks_max();
  uint64_t seed = 1;
  std::vector<std::byte> into(kBlock);
  for (int i = 0; i < 30'000; ++i) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    const uint64_t number = (seed >> 33) % (2 * room);
    if (store_.copy(tag_of(number), into.data()))
      ASSERT_EQ(into, block_of(number));
    else
      store_.put(tag_of(number), block_of(number).data());
  }
  EXPECT_LE(store_.blocks(), room);
}

TEST(CacheMemory, TheIndexIsWithinTheSizeWhateverTheVolumeHas) {
  for (const uint64_t volume : {64 * kKiB, kMiB, kGiB, kTiB, 64 * kTiB})
    for (const uint64_t size : {limits::kCacheBytesMin, 64 * kMiB, 2 * kGiB}) {
      const PlaceIndex places(volume, size / 8);
      EXPECT_LE(places.memory_bytes(), size / 8) << volume << " " << size;
      const ContentStore contents(size - places.memory_bytes());
      EXPECT_LE(places.memory_bytes() + contents.memory_bytes(), size + size / 100) << volume << " " << size;
      EXPECT_GT(contents.blocks_max() * kBlock, size * 8 / 10) << "most of it is data";
    }
}

TEST(PlaceIndexTest, ATableThatIsFullKeepsWhatIsAskedFor) {
  PlaceIndex places(kGiB, kMiB);
  const uint64_t max = places.places_max();
  ASSERT_LT(max, kGiB / kBlock / 4);
  const std::array<ContentTag, 1> tag{ContentTag{1, 2}};
  std::array<PlaceIndex::Place, 1> place;
  const uint64_t hot = 256;  // over all chunks
  const auto hot_place = [](uint64_t i) { return i * (kGiB / kBlock / hot); };
  for (uint64_t i = 0; i < hot; ++i) places.learn(hot_place(i), tag, true, yes);
  for (uint64_t block = 0; block < kGiB / kBlock; ++block) {
    places.learn(block, tag, true, yes);
    if (block % 16 == 0)
      for (uint64_t i = 0; i < hot; i += 8) places.find(hot_place(i), place);
  }
  EXPECT_LE(places.known(), max);
  EXPECT_GT(places.known(), max / 2);
  uint64_t kept = 0;
  for (uint64_t i = 0; i < hot; i += 8) {
    place[0] = {};
    places.find(hot_place(i), place);
    kept += place[0].known ? 1 : 0;
  }
  EXPECT_GT(kept, hot / 8 * 3 / 4);
}

// Sixteen chunks of the volume share each lock and its buckets: what is learned of one, of which little is known, takes the
// places of others, and theirs take its.
TEST(PlaceIndexTest, WhatWasForgottenIsNotKnownHoweverFullTheTableIs) {
  PlaceIndex places(kGiB, kMiB);
  constexpr uint64_t kChunk = kMiB / kBlock, kApart = 64 * kChunk;  // from one chunk to the next of the same lock
  std::vector<uint64_t> is(16 * kApart, 0);                         // 0: forgotten
  std::mt19937_64 random(1);
  for (uint64_t n = 1; n <= 300'000; ++n) {
    const uint64_t drawn = random();
    const uint64_t block = drawn % 4 == 0 ? drawn / 4 % 4 : (1 + drawn / 4 % 15) * kApart + drawn / 64 % kChunk;
    std::array<PlaceIndex::Place, 1> place;
    places.find(block, place);
    if (place[0].known) {
      ASSERT_EQ(place[0].tag[0], is[block]) << "block " << block << " after " << n;
    }
    if (random() % 3 == 0) {
      places.forget(block, 1);
      is[block] = 0;
    } else {
      places.learn(block, std::array<ContentTag, 1>{{{n, n}}}, true, yes);
      is[block] = n;
    }
    if (n % 50'000 != 0) continue;
    places.forget_all();
    std::ranges::fill(is, 0);
    ASSERT_EQ(places.known(), 0u) << "after " << n;
  }
}

TEST(CacheEffortTest, WhereThePageCacheAnswersOnlyOneReadInSomeIsTimed) {
  CacheEffort effort;
  const auto timed = [&] {
    int count = 0;
    for (int i = 0; i < 320; ++i) count += effort.times() ? 1 : 0;
    return count;
  };
  EXPECT_EQ(timed(), 320) << "nothing is known of the disk";
  EXPECT_TRUE(effort.pays());
  for (int i = 0; i < 100; ++i) effort.disk_took(256, 256 * 300);
  EXPECT_EQ(timed(), 10);
  EXPECT_FALSE(effort.pays());
  for (int i = 0; i < 100; ++i) effort.disk_took(1, 80'000);
  EXPECT_EQ(timed(), 320) << "it is the disk now";
  EXPECT_TRUE(effort.pays());
}

uint64_t learned_in_10_s(const std::function<bool(uint64_t now_ns)>& may_learn_256) {
  uint64_t now = 5 * kSecond_ns, learned = 0;
  while (may_learn_256(now)) {
  }
  for (int i = 0; i < 100'000; ++i, now += 100'000)
    if (may_learn_256(now)) learned += 256;
  return learned;
}

TEST(CacheEffortTest, LearningWhatNothingIsEqualToTakesItsPartOfTheTimeAndNoMore) {
  CacheEffort effort;
  const uint64_t all = 10 * kSecond_ns / CacheEffort::kLearnBlock_ns;
  const uint64_t of_reads = learned_in_10_s([&](uint64_t now) { return effort.may_learn_read(256, now); });
  EXPECT_GT(of_reads, all / CacheEffort::kReadsPart * 9 / 10);
  EXPECT_LT(of_reads, all / CacheEffort::kReadsPart * 11 / 10);
  const uint64_t of_writes = learned_in_10_s([&](uint64_t now) { return effort.may_learn_write(256, now); });
  EXPECT_GT(of_writes, all / CacheEffort::kWritesPart * 9 / 10);
  EXPECT_LT(of_writes, all / CacheEffort::kWritesPart * 11 / 10);
  // A slow disk's reads are all learned.
  uint64_t now = 20 * kSecond_ns;
  for (int i = 0; i < 10'000; ++i, now += 80'000) EXPECT_TRUE(effort.may_learn_read(1, now));
}

TEST(CacheEffortTest, WhereAQuarterIsEqualAllIsLearned) {
  CacheEffort effort;
  const auto learned = [&](uint64_t equal_of_256) {
    return learned_in_10_s([&, number = 0](uint64_t now) mutable {
      const bool may = effort.may_learn_write(256, now);
      // Those that were used up first find nothing.
      if (now > 5 * kSecond_ns || !may) effort.equal(++number % 4 == 0 ? 4 * equal_of_256 : 0);
      return may;
    });
  };
  EXPECT_GT(learned(64), 99'000u * 256);
  const uint64_t of_a_sixteenth = learned(16);
  EXPECT_GT(of_a_sixteenth, 100'000u * 256 / 5);
  EXPECT_LT(of_a_sixteenth, 100'000u * 256 / 3);
}

TEST(CacheEffortTest, WhereAQuarterIsEqualAllReadsAreLearned) {
  CacheEffort effort;
  const uint64_t learned = learned_in_10_s([&, number = 0](uint64_t now) mutable {
    const bool may = effort.may_learn_read(256, now);
    if (now > 5 * kSecond_ns || !may) effort.equal(++number % 4 == 0 ? 4 * 64 : 0);
    return may;
  });
  EXPECT_GT(learned, 99'000u * 256);
}

TEST(CacheEffortTest, WhatIsFoundEarnsTimeForReads) {
  CacheEffort effort;
  while (effort.may_learn_read(256, kSecond_ns)) {
  }
  effort.found(1000);
  EXPECT_TRUE(effort.may_learn_read(1, kSecond_ns));
  while (effort.may_learn_write(256, kSecond_ns)) {
  }
  effort.found(1000);
  EXPECT_FALSE(effort.may_learn_write(1, kSecond_ns));
}

// Random blocks, each of a number of its own.
std::vector<std::byte> random_blocks(uint64_t first, size_t count) {
  std::vector<std::byte> data(count * kBlock);
  for (size_t i = 0; i < count; ++i) {
    std::mt19937_64 draw(first + i);
    for (size_t at = 0; at < kBlock; at += sizeof(uint64_t)) {
      const uint64_t word = draw();
      std::memcpy(data.data() + i * kBlock + at, &word, sizeof word);
    }
  }
  return data;
}

TEST(EqualProbeTest, TellsAboutHowManyBlocksHaveComeBefore) {
  EqualProbe probe(4096);
  constexpr size_t kBlocks = 20'000;
  const std::vector<std::byte> data = random_blocks(1, kBlocks);
  EXPECT_EQ(probe.equal(data), 0u) << "no two are equal";
  // One by one, and of others as many.
  uint64_t equal = 0;
  for (size_t i = 0; i < kBlocks; ++i) equal += probe.equal(std::span(data).subspan(i * kBlock, kBlock));
  EXPECT_GT(equal, kBlocks / 2);
  EXPECT_LT(equal, kBlocks * 2);
  EXPECT_EQ(probe.equal(random_blocks(1 << 20, kBlocks)), 0u);
}

TEST_F(CacheTest, WhatIsHereEarnsTimeToLearnMore) {
  read(5, 100);
  while (cache_.effort().may_learn_read(256, kSecond_ns)) {
  }
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(ask(5), 100u);
  EXPECT_TRUE(cache_.effort().may_learn_read(1, kSecond_ns));
}

}  // namespace
}  // namespace twinblock
