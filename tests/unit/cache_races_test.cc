// Readers beside the loop, the cache of reads, and what changes the disk meanwhile: nobody is told what was there before.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/limits.h"
#include "volume/cached_read.h"

namespace twinblock {
namespace {

constexpr uint64_t kBlock = limits::kBlockBytes;
constexpr uint64_t kVolumeBytes = 256 * kKiB;
constexpr uint64_t kBlocks = kVolumeBytes / kBlock;

class MonotonicClock : public Clock {
 public:
  [[nodiscard]] uint64_t now_ns() const override {
    return static_cast<uint64_t>(std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count());
  }
  [[nodiscard]] uint64_t wall_ns() const override { return 0; }
  [[nodiscard]] std::unique_ptr<Timer> make_timer(std::function<void()> /*callback*/) override { return nullptr; }
};

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
    CachedRead cached(view_.cache(), view_, *mark, block * kBlock, into, clock_.now_ns());
    read_disk(cached, block, into);
    if (!view_.unchanged(block * kBlock, kBlock, *mark)) return std::nullopt;
    cached.keep();
    cached.end();
    cached.wait(clock_);
    cached.take_what_came();
    read_disk(cached, block, into);
    if (!view_.unchanged(block * kBlock, kBlock, *mark)) return std::nullopt;
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

  const MonotonicClock clock_;
  WorkerView view_;
  std::array<std::atomic<uint64_t>, kBlocks> disk_{};
};

TEST_F(CacheRaces, AReadThatIsKeptAfterAWriteCameAndWentIsNotLearned) {
  put(3, 100);
  std::vector<std::byte> into(kBlock);
  const auto mark = view_.mark_read(3 * kBlock, kBlock);
  ASSERT_TRUE(mark);
  const CachedRead cached(view_.cache(), view_, *mark, 3 * kBlock, into, 0);
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
  const CachedRead cached(view_.cache(), view_, *mark, 4 * kBlock, into, 0);
  view_.set_local_reads(false);
  cached.keep();
  EXPECT_EQ(view_.cache()->figures().places, 0u);
  view_.set_local_reads(true);
  put(3, 101);
  EXPECT_EQ(read(3), 101u);
}

// A worker that is held up between its mark and the question whether it may read: the disk is given up then, and is back.
TEST_F(CacheRaces, ADiskThatIsGivenUpAfterTheMarkTakesTheMarkAway) {
  class HeldUp final : public MonotonicClock {
   public:
    explicit HeldUp(WorkerView& view) : view_(view) {}
    [[nodiscard]] uint64_t now_ns() const override {
      view_.set_local_reads(false);
      view_.set_local_reads(true);
      return 0;
    }

   private:
    WorkerView& view_;
  };
  view_.set_lease(1);
  const auto mark = view_.mark_local_read(HeldUp(view_), 3 * kBlock, kBlock);
  ASSERT_TRUE(mark);
  EXPECT_FALSE(view_.unchanged(3 * kBlock, kBlock, *mark));
}

TEST_F(CacheRaces, OnlyTheGapsAreReadWhereMostIsThere) {
  for (const uint64_t block : {0, 1, 3, 4, 6}) put(block, 100 + block), read(block);
  std::vector<std::byte> into(7 * kBlock);
  const CachedRead cached(view_.cache(), view_, *view_.mark_read(0, into.size()), 0, into, 0);
  ASSERT_EQ(cached.missing().size(), 2u);
  EXPECT_EQ(cached.missing()[0].at_bytes, 2 * kBlock);
  EXPECT_EQ(cached.missing()[0].length_bytes, kBlock);
  EXPECT_EQ(cached.missing()[1].at_bytes, 5 * kBlock);
  EXPECT_EQ(into[6 * kBlock], block_of(106)[0]);
  // Edges that are no whole blocks are the disk's.
  std::vector<std::byte> odd(3 * kBlock);
  const CachedRead shifted(view_.cache(), view_, *view_.mark_read(512, odd.size()), 512, odd, 0);
  ASSERT_EQ(shifted.missing().size(), 2u);
  EXPECT_EQ(shifted.missing()[0].length_bytes, kBlock - 512);
  EXPECT_EQ(shifted.missing()[1].at_bytes, 2 * kBlock - 512);
}

// Two machines that read an equal block from places that are known by what was written there.
class CacheJoins : public CacheRaces {
 protected:
  struct Reader {
    Reader(CacheJoins& test, uint64_t at, uint64_t now_ns)
        : block(at),
          mark(*test.view_.mark_read(at * kBlock, kBlock)),
          cached(test.view_.cache(), test.view_, mark, at * kBlock, into, now_ns) {}
    [[nodiscard]] bool joins() const { return cached.missing().empty(); }

    uint64_t block;
    std::vector<std::byte> into = std::vector<std::byte>(kBlock);
    InflightFilter::Mark mark;
    CachedRead cached;
  };
  CacheJoins() {
    for (const uint64_t block : {3, 9, 20}) write(block, 100);
  }
};

TEST_F(CacheJoins, WhatAnotherOneIsReadingIsNotReadOnceMore) {
  Reader first(*this, 3, 0), second(*this, 9, 0);
  ASSERT_FALSE(first.joins());
  ASSERT_TRUE(second.joins());
  EXPECT_TRUE(second.cached.waits(0));
  read_disk(first.cached, 3, first.into);
  EXPECT_TRUE(first.cached.worth_keeping(0));
  first.cached.keep();
  EXPECT_TRUE(second.cached.waits(0));
  first.cached.end();
  EXPECT_FALSE(second.cached.waits(0));
  second.cached.take_what_came();
  EXPECT_TRUE(second.cached.missing().empty());
  EXPECT_EQ(second.into, block_of(100));
}

TEST_F(CacheJoins, WhatOthersWaitForIsKeptThoughThereIsNoTime) {
  Reader first(*this, 3, 0);
  while (view_.cache()->effort().may_learn_read(1, 0)) {
  }
  EXPECT_FALSE(first.cached.worth_keeping(0));
  const Reader second(*this, 9, 0);
  EXPECT_TRUE(first.cached.worth_keeping(0));
}

TEST_F(CacheJoins, OneThatFailsLeavesItToTheOthers) {
  std::optional<Reader> first(std::in_place, *this, 3, 0);
  Reader second(*this, 9, 0), third(*this, 20, 0);
  ASSERT_TRUE(second.joins() && third.joins());
  first.reset();  // its disk has failed, or its client is gone
  for (Reader* each : {&second, &third}) {
    EXPECT_FALSE(each->cached.waits(0));
    each->cached.take_what_came();
    ASSERT_EQ(each->cached.missing().size(), 1u);
    read_disk(each->cached, each->block, each->into);
    EXPECT_EQ(each->into, block_of(100));
  }
}

TEST_F(CacheJoins, OneThatFoundSomethingElseLeavesItToTheOthers) {
  Reader first(*this, 3, 0), second(*this, 9, 0);
  write(3, 200);
  read_disk(first.cached, 3, first.into);
  first.cached.keep();
  first.cached.end();
  second.cached.take_what_came();
  ASSERT_EQ(second.cached.missing().size(), 1u);
  read_disk(second.cached, 9, second.into);
  EXPECT_EQ(second.into, block_of(100));
}

// What is waited for is what lay there under the mark; that it is old then, the mark tells.
TEST_F(CacheJoins, AWriteBesideTheWaitTakesTheMarkAway) {
  Reader first(*this, 3, 0), second(*this, 9, 0);
  read_disk(first.cached, 3, first.into);
  first.cached.keep();
  first.cached.end();
  write(9, 200);
  second.cached.take_what_came();
  EXPECT_EQ(second.into, block_of(100));
  EXPECT_FALSE(view_.unchanged(9 * kBlock, kBlock, second.mark)) << "the client is not answered with it";
}

TEST_F(CacheJoins, OneThatHangsIsWaitedForOnlyForAWhile) {
  const Reader hangs(*this, 3, 0);
  const uint64_t late = limits::kJoinedReadPatience_ns;
  Reader second(*this, 9, late / 2);
  EXPECT_TRUE(second.cached.waits(late - 1));
  EXPECT_FALSE(second.cached.waits(late));
  second.cached.take_what_came();
  EXPECT_EQ(second.cached.missing().size(), 1u);
  // Who comes then reads by himself, and the next one waits for him.
  EXPECT_FALSE(Reader(*this, 20, late).joins());
  const Reader third(*this, 20, late);
  EXPECT_TRUE(Reader(*this, 9, late).joins());
}

TEST_F(CacheJoins, NobodyWaitsForHimself) {
  for (const uint64_t block : {30, 31, 32, 33}) write(block, 100);
  std::vector<std::byte> into(4 * kBlock);
  CachedRead cached(view_.cache(), view_, *view_.mark_read(30 * kBlock, into.size()), 30 * kBlock, into, 0);
  EXPECT_EQ(cached.missing().size(), 1u);
  EXPECT_EQ(cached.missing()[0].length_bytes, 4 * kBlock);
  EXPECT_FALSE(cached.waits(0));
}

TEST_F(CacheJoins, AWaitEndsWithTheOtherRead) {
  const MonotonicClock& clock = clock_;
  const uint64_t now_ns = clock.now_ns();  // a join lasts for so long only
  std::optional<Reader> first(std::in_place, *this, 3, now_ns);
  Reader second(*this, 9, now_ns);
  ASSERT_TRUE(second.joins());
  std::thread waits([&] { second.cached.wait(clock); });
  read_disk(first->cached, 3, first->into);
  first->cached.keep();
  first->cached.end();
  waits.join();
  second.cached.take_what_came();
  EXPECT_TRUE(second.cached.missing().empty());
  // Where nobody ends it, it ends by itself.
  write(40, 300), write(41, 300);
  const Reader hangs(*this, 40, clock.now_ns());
  Reader third(*this, 41, clock.now_ns());
  third.cached.wait(clock);
  EXPECT_FALSE(third.cached.waits(clock.now_ns()));
}

// A thread that sleeps until it is woken, or its time is up.
class Sleeper {
 public:
  explicit Sleeper(std::function<void(const Clock&)> waits)
      : thread_([this, waits = std::move(waits)] {
          id_.store(gettid());
          waits(clock_);
        }) {}
  // It has asked for the time, the last thing before it sleeps, and does.
  [[nodiscard]] bool sleeps() const {
    if (!clock_.asked.load()) return false;
    std::ifstream file("/proc/self/task/" + std::to_string(id_.load()) + "/stat");
    std::string stat;
    std::getline(file, stat);
    const size_t name_end = stat.rfind(") ");
    return name_end != std::string::npos && stat[name_end + 2] == 'S';
  }
  void join() { thread_.join(); }

 private:
  class AskedClock final : public MonotonicClock {
   public:
    [[nodiscard]] uint64_t now_ns() const override {
      const uint64_t now = MonotonicClock::now_ns();
      asked.store(true);
      return now;
    }
    mutable std::atomic<bool> asked{false};
  };
  AskedClock clock_;
  std::atomic<pid_t> id_{0};
  std::thread thread_;
};

// Its own patience would end late: this one is so long that only who is woken is there before.
TEST_F(CacheJoins, WhoSleepsIsWokenByTheEndOfTheOtherRead) {
  const uint64_t until_ns = clock_.now_ns() + 60 * kSecond_ns;
  std::optional<Reader> first(std::in_place, *this, 3, until_ns);
  Reader second(*this, 9, until_ns);
  ASSERT_TRUE(second.joins());
  Sleeper sleeper([&second](const Clock& clock) { second.cached.wait(clock); });
  while (!sleeper.sleeps() && clock_.now_ns() < until_ns) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  first->cached.end();
  sleeper.join();
  EXPECT_LT(clock_.now_ns(), until_ns);
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
