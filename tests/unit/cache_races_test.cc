// Readers beside the loop, the cache of reads, and what changes the disk meanwhile: nobody is told what was there before.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "base/limits.h"
#include "volume/cached_read.h"

namespace twinblock {
namespace {

constexpr uint64_t kBlock = limits::kBlockBytes;
constexpr uint64_t kVolumeBytes = 256 * kKiB;
constexpr uint64_t kBlocks = kVolumeBytes / kBlock;

// A disk of blocks that are each full of one number, and a view of it, as an engine has.
class CacheRaces : public testing::Test {
 protected:
  CacheRaces() {
    view_.set_volume_bytes(kVolumeBytes);
    view_.set_cache(std::make_unique<ContentCache>(kVolumeBytes, kMiB, ContentDigest::Key{}));
    view_.set_local_reads(true);
  }
  void put(uint64_t block, uint64_t number) { disk_[block].store(number, std::memory_order_relaxed); }
  static std::vector<std::byte> block_of(uint64_t number) {
    std::vector<std::byte> data(kBlock);
    for (size_t at = 0; at < kBlock; at += sizeof number) std::memcpy(data.data() + at, &number, sizeof number);
    return data;
  }
  void read_disk(const CachedRead& cached, uint64_t first, std::span<std::byte> into) {
    for (const CachedRead::Run& run : cached.missing())
      for (uint64_t at = run.at_bytes; at < run.at_bytes + run.length_bytes; at += kBlock) {
        const auto block = block_of(disk_[first + at / kBlock].load(std::memory_order_relaxed));
        std::memcpy(into.data() + at, block.data(), kBlock);
      }
  }
  // As a worker of the plugin. Nothing: the loop would answer.
  std::optional<uint64_t> read(uint64_t block) {
    std::vector<std::byte> into(kBlock);
    const auto mark = view_.mark_read(block * kBlock, kBlock);
    if (!mark) return std::nullopt;
    const CachedRead cached(view_.cache(), view_, *mark, block * kBlock, into);
    read_disk(cached, block, into);
    if (!view_.unchanged(block * kBlock, kBlock, *mark)) return std::nullopt;
    cached.keep();
    uint64_t number = 0;
    std::memcpy(&number, into.data(), sizeof number);
    return number;
  }
  // As the loop: a client's write, acknowledged.
  void write(uint64_t block, uint64_t number) {
    const std::vector<ContentTag> tags = view_.cache()->tags_of(block * kBlock, block_of(number));
    view_.write_begins(block * kBlock, kBlock);
    put(block, number);
    view_.cache()->written(block * kBlock, tags);
    view_.write_ended(block * kBlock, kBlock);
  }

  WorkerView view_;
  std::array<std::atomic<uint64_t>, kBlocks> disk_{};
};

TEST_F(CacheRaces, AReadThatIsKeptAfterAWriteCameAndWentIsNotLearned) {
  put(3, 100);
  std::vector<std::byte> into(kBlock);
  const auto mark = view_.mark_read(3 * kBlock, kBlock);
  ASSERT_TRUE(mark);
  const CachedRead cached(view_.cache(), view_, *mark, 3 * kBlock, into);
  read_disk(cached, 3, into);
  ASSERT_TRUE(view_.unchanged(3 * kBlock, kBlock, *mark)) << "the client is answered with this";
  // The worker is held up here, …
  view_.write_begins(3 * kBlock, kBlock);
  put(3, 101);
  view_.write_ended(3 * kBlock, kBlock);
  cached.keep();
  EXPECT_EQ(view_.cache()->figures().places, 0u);
  EXPECT_EQ(read(3), 101u);
}

// … or it has asked already, under the lock of the place: then what it learns is forgotten by the write, which waits for it.
TEST_F(CacheRaces, AWriteThatBeginsWhileAPlaceIsLearnedForgetsIt) {
  put(3, 100);
  const auto mark = view_.mark_read(3 * kBlock, kBlock);
  std::thread writer;
  std::atomic<bool> written{false};
  bool raised = false;
  view_.cache()->keep(3, block_of(100), {false}, [&] {
    const bool still_true = view_.unchanged(3 * kBlock, kBlock, *mark);
    writer = std::thread([&] {
      view_.write_begins(3 * kBlock, kBlock);
      put(3, 101);
      written.store(true);
      view_.write_ended(3 * kBlock, kBlock);
    });
    // The filter is raised before the writer waits for the lock, which is held here. Both waits end early, or are cut
    // short, only if that is not so.
    for (int i = 0; i < 10'000 && !raised; ++i) {
      raised = !view_.quiet(3 * kBlock, kBlock);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    for (int i = 0; i < 200 && !written.load(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return still_true;
  });
  EXPECT_TRUE(raised) << "who learns a place now has to see that a write is coming";
  writer.join();
  EXPECT_EQ(view_.cache()->figures().places, 0u);
  EXPECT_EQ(read(3), 101u);
}

TEST_F(CacheRaces, ARoleChangeLeavesNothingKnownNorWhatIsBeingRead) {
  put(3, 100);
  EXPECT_EQ(read(3), 100u);
  const auto mark = view_.mark_read(4 * kBlock, kBlock);
  std::vector<std::byte> into(kBlock);
  const CachedRead cached(view_.cache(), view_, *mark, 4 * kBlock, into);
  view_.set_local_reads(false);
  cached.keep();
  EXPECT_EQ(view_.cache()->figures().places, 0u);
  view_.set_local_reads(true);
  put(3, 101);
  EXPECT_EQ(read(3), 101u);
}

TEST_F(CacheRaces, OnlyTheGapsAreReadWhereMostIsThere) {
  for (const uint64_t block : {0, 1, 3, 4, 6}) put(block, 100 + block), read(block);
  std::vector<std::byte> into(7 * kBlock);
  const CachedRead cached(view_.cache(), view_, *view_.mark_read(0, into.size()), 0, into);
  ASSERT_EQ(cached.missing().size(), 2u);
  EXPECT_EQ(cached.missing()[0].at_bytes, 2 * kBlock);
  EXPECT_EQ(cached.missing()[0].length_bytes, kBlock);
  EXPECT_EQ(cached.missing()[1].at_bytes, 5 * kBlock);
  EXPECT_EQ(into[6 * kBlock], block_of(106)[0]);
  // Edges that are no whole blocks are the disk's.
  std::vector<std::byte> odd(3 * kBlock);
  const CachedRead shifted(view_.cache(), view_, *view_.mark_read(512, odd.size()), 512, odd);
  ASSERT_EQ(shifted.missing().size(), 2u);
  EXPECT_EQ(shifted.missing()[0].length_bytes, kBlock - 512);
  EXPECT_EQ(shifted.missing()[1].at_bytes, 2 * kBlock - 512);
}

TEST_F(CacheRaces, ReadersBesideAWriterSeeWhatWasAcknowledgedLast) {
  constexpr uint64_t kWrites = 20'000;
  std::array<std::atomic<uint64_t>, kBlocks> acknowledged{};
  std::atomic<bool> done{false};
  std::atomic<uint64_t> answers{0}, old{0};
  std::vector<std::thread> readers;
  for (uint64_t each = 0; each < 3; ++each)
    readers.emplace_back([&, seed = each + 1]() mutable {
      while (!done.load()) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        const uint64_t block = (seed >> 33) % kBlocks;
        const uint64_t least = acknowledged[block].load();
        const auto got = read(block);
        if (!got) continue;
        answers.fetch_add(1);
        if (*got < least) old.fetch_add(1);
      }
    });
  uint64_t seed = 99;
  for (uint64_t number = 1; number <= kWrites || answers.load() < 1000; ++number) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    const uint64_t block = (seed >> 33) % kBlocks;
    write(block, number);
    acknowledged[block].store(number);
    if (number % 500 == 0) view_.forget_places();
  }
  done.store(true);
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(old.load(), 0u) << "of " << answers.load();
}

}  // namespace
}  // namespace twinblock
