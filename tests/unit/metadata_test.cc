// The superblock's coding, what a damaged file leads to, and the order in which it is made durable.
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "base/crc32c.h"
#include "base/units.h"
#include "metadata/intent_page.h"
#include "metadata/load.h"
#include "metadata/superblock_store.h"

namespace twinblock::metadata {
namespace {

using File = std::vector<std::byte>;
constexpr uint64_t kVolume = 1 * kGiB;
constexpr uint64_t kFileBytes = layout_of(kVolume, kRegionBytesDefault).file_bytes;

Result<Loaded> load(std::span<const std::byte> file, const std::string& path) {
  return metadata::load(reader_of(file), file.size(), kVolume, path);
}

NodeRecord sample(uint64_t current = 0x1111) {
  NodeRecord record;
  for (size_t i = 0; i < record.volume_uuid.size(); ++i)
    record.volume_uuid[i] = static_cast<uint8_t>(i + 1);
  record.volume = "r0";
  record.node = "alpha";
  record.size_bytes = kVolume;
  record.generations.current = current;
  record.generations.base = 0x2222;
  for (size_t i = 0; i < kHistoryEntries; ++i) record.generations.history[i] = 0x3000 + i;
  record.generation_since_s = 0x4444;
  record.term = 0x5555;
  record.heard_term = 0x6666;
  record.boot = 0x7777;
  record.peer_instance = 0x8888;
  record.peer_boot = 0x9999;
  record.primary = record.inconsistent = true;
  return record;
}

void put(File& file, int copy, const NodeRecord& record, uint64_t sequence) {
  const auto bytes = encode(record, sequence);
  std::memcpy(file.data() + kSuperblockOffset[copy], bytes.data(), bytes.size());
}

// What `init` has made before it writes the superblock.
File fresh_file(const NodeRecord& record) {
  File file(kFileBytes);
  const IntentPage page = encode_page(0, 0, intent_tag(record.volume_uuid), {});
  std::memcpy(file.data() + kIntentOffset, &page, sizeof page);
  return file;
}

File file_with_both(const NodeRecord& record, uint64_t sequence) {
  File file = fresh_file(record);
  put(file, 0, record, sequence);
  put(file, 1, record, sequence);
  return file;
}

TEST(Superblock, ComesBackAsItWasWritten) {
  for (unsigned flags = 0; flags < 512; ++flags) {
    if ((flags & 384) == 384) continue;  // contradicts itself
    NodeRecord record = sample();
    record.primary = (flags & 1) != 0;
    record.peer_primary = (flags & 2) != 0;
    record.inconsistent = (flags & 4) != 0;
    record.dirty = (flags & 8) != 0;
    record.shared = (flags & 16) != 0;
    record.all_dirty = (flags & 32) != 0;
    record.snapshot = (flags & 64) != 0;
    record.discard = (flags & 128) != 0;
    record.keep = (flags & 256) != 0;
    record.region_bytes = kRegionBytesMin << (flags % 15);
    record.state_id = 0x5151 + flags;
    record.begun_for = 0x6161 + flags;
    record.promoted_boot = 0x6262 + flags;
    record.given_up = {7 + flags, 8, 9, 10};
    if (record.inconsistent) record.way_back = {{11 + flags, 12, {13, 14, 15, 16, 17, 18, 19, 20}}, 21, 22, 23};
    else if (record.dirty) record.way_back.taken_s = 22;  // it was rolled back
    const Result<Loaded> loaded = load(file_with_both(record, 9), "m");
    ASSERT_TRUE(loaded.ok());
    EXPECT_EQ(loaded.value().record, record);
    EXPECT_EQ(loaded.value().sequence, 9u);
    EXPECT_FALSE(loaded.value().blank);
    EXPECT_EQ(loaded.value().warnings, std::vector<std::string>{});
  }
}

// They are the format's: what one version of the software has written, all others read.
TEST(Superblock, EachFlagHasItsBit) {
  const std::vector<std::pair<bool NodeRecord::*, uint32_t>> bits{
      {&NodeRecord::primary, 1},        {&NodeRecord::peer_primary, 2},   {&NodeRecord::inconsistent, 4},
      {&NodeRecord::dirty, 8},          {&NodeRecord::shared, 16},        {&NodeRecord::all_dirty, 32},
      {&NodeRecord::snapshot, 64},      {&NodeRecord::discard, 128},      {&NodeRecord::keep, 256},
      {&NodeRecord::held_data, 512},    {&NodeRecord::flush_failed, 1024}, {&NodeRecord::unwitnessed, 2048},
      {&NodeRecord::flushing, 4096},    {&NodeRecord::repairing, 8192}};
  for (const auto& [field, bit] : bits) {
    NodeRecord record = sample();
    record.primary = record.inconsistent = false;
    record.*field = true;
    uint32_t flags = 0;
    std::memcpy(&flags, encode(record, 9).data() + 48, sizeof flags);
    EXPECT_EQ(flags, bit);
  }
}

TEST(Superblock, AnEmptyOrZeroFileIsBlank) {
  for (const size_t size : {size_t{0}, size_t{1}, size_t{4096}, size_t{kFileBytes}}) {
    const Result<Loaded> loaded = load(File(size), "m");
    ASSERT_TRUE(loaded.ok());
    EXPECT_TRUE(loaded.value().blank);
  }
}

TEST(Superblock, TheHigherSequenceCountsWhereverItLies) {
  for (const int newer : {0, 1}) {
    File file = fresh_file(sample());
    put(file, newer, sample(0xAAAA), 6);
    put(file, 1 - newer, sample(0xBBBB), 5);
    const Result<Loaded> loaded = load(file, "m");
    ASSERT_TRUE(loaded.ok());
    EXPECT_EQ(loaded.value().record.generations.current, 0xAAAAu);
    EXPECT_EQ(loaded.value().sequence, 6u);
  }
}

TEST(Superblock, AnyDamagedByteOfOneCopyIsNoticedAndTheOtherUsed) {
  for (const int damaged : {0, 1}) {
    File file = fresh_file(sample());
    put(file, damaged, sample(0xAAAA), 6);
    put(file, 1 - damaged, sample(0xBBBB), 5);
    for (size_t at = 0; at < sizeof(Superblock); ++at) {
      std::byte& byte = file[kSuperblockOffset[damaged] + at];
      byte ^= static_cast<std::byte>(1 << (at % 8));
      const Result<Loaded> loaded = load(file, "m");
      ASSERT_TRUE(loaded.ok()) << at;
      ASSERT_EQ(loaded.value().record.generations.current, 0xBBBBu) << at;
      ASSERT_EQ(loaded.value().warnings.size(), 1u) << at;
      byte ^= static_cast<std::byte>(1 << (at % 8));
    }
  }
}

TEST(Superblock, TwoBadCopiesAreRefusedNeverTakenForBlank) {
  for (size_t at = 0; at < sizeof(Superblock); at += 7) {
    File file = file_with_both(sample(), 5);
    file[at] ^= std::byte{1};
    file[kSuperblockOffset[1] + (at * 31) % sizeof(Superblock)] ^= std::byte{1};
    const Result<Loaded> loaded = load(file, "/the/path");
    ASSERT_FALSE(loaded.ok()) << at;
    EXPECT_NE(loaded.error().what.find("/the/path"), std::string::npos);
    EXPECT_NE(loaded.error().action, "");
  }
  // Not zero, and no superblock: somebody else's file.
  File foreign(kFileBytes);
  foreign[100'000] = std::byte{1};
  EXPECT_FALSE(load(foreign, "m").ok());
}

TEST(Superblock, ATruncatedFileIsReadAsFarAsItGoesOrRefused) {
  const File whole = file_with_both(sample(), 5);
  for (size_t size = 0; size < whole.size(); size += 512) {
    const Result<Loaded> loaded = load(std::span(whole).first(size), "m");
    if (size == 0) {
      EXPECT_TRUE(loaded.ok() && loaded.value().blank);
    } else if (size < sizeof(Superblock)) {
      EXPECT_FALSE(loaded.ok()) << size;
    } else {
      ASSERT_TRUE(loaded.ok()) << size;
      EXPECT_FALSE(loaded.value().blank) << size;
      EXPECT_EQ(loaded.value().record, sample()) << size;
      EXPECT_EQ(loaded.value().intent_words, std::vector<uint64_t>(4, ~uint64_t{0})) << size;
    }
  }
}

TEST(Superblock, AnotherVersionAndUnknownFlagsAreRefused) {
  for (const bool version : {true, false}) {
    File file = file_with_both(sample(), 5);
    for (const uint64_t offset : kSuperblockOffset) {
      Superblock raw;
      std::memcpy(&raw, file.data() + offset, sizeof raw);
      raw.version += version ? 1 : 0;
      raw.flags |= version ? 0 : 1u << 31;
      raw.crc = 0;
      raw.crc = crc32c(std::as_bytes(std::span(&raw, 1)));
      std::memcpy(file.data() + offset, &raw, sizeof raw);
    }
    const Result<Loaded> loaded = load(file, "m");
    ASSERT_FALSE(loaded.ok());
    EXPECT_NE(loaded.error().action, "");
    EXPECT_EQ(loaded.error().what.find("format version 3") != std::string::npos, version);
  }
}

TEST(Superblock, WhatNoTwinblockWouldWriteIsRefusedInSpiteOfAGoodChecksum) {
  const auto refused = [](auto change) {
    File file = file_with_both(sample(), 5);
    for (const uint64_t offset : kSuperblockOffset) {
      Superblock raw;
      std::memcpy(&raw, file.data() + offset, sizeof raw);
      change(raw);
      raw.crc = 0;
      raw.crc = crc32c(std::as_bytes(std::span(&raw, 1)));
      std::memcpy(file.data() + offset, &raw, sizeof raw);
    }
    return !load(file, "m").ok();
  };
  EXPECT_FALSE(refused([](Superblock&) {}));
  EXPECT_TRUE(refused([](Superblock& raw) { raw.reserved0 = 1; }));
  EXPECT_TRUE(refused([](Superblock& raw) { raw.reserved[0] = 1; }));
  EXPECT_TRUE(refused([](Superblock& raw) {
    raw.flags &= ~uint32_t{kFlagInconsistent};
    raw.way_back.generation_current = 1;  // of a replica that is whole
  }));
  EXPECT_TRUE(refused([](Superblock& raw) { raw.reserved[sizeof raw.reserved - 1] = 1; }));
  EXPECT_TRUE(refused([](Superblock& raw) { raw.flags |= kFlagsKnown + 1; }));
  EXPECT_TRUE(refused([](Superblock& raw) { raw.region_bytes = 0; }));
  EXPECT_TRUE(refused([](Superblock& raw) { raw.region_bytes = 32 * kKiB; }));
  EXPECT_TRUE(refused([](Superblock& raw) { raw.region_bytes = 3 * kMiB; }));
  EXPECT_TRUE(refused([](Superblock& raw) { raw.region_bytes = 1u << 31; }));
  EXPECT_TRUE(refused([](Superblock& raw) { raw.size_bytes = 0; }));
  EXPECT_TRUE(refused([](Superblock& raw) { raw.size_bytes = 65 * kTiB; }));
  EXPECT_TRUE(refused([](Superblock& raw) { raw.generation_current = 0; }));
  EXPECT_TRUE(refused([](Superblock& raw) { raw.sequence = UINT64_MAX; }));
  EXPECT_TRUE(refused([](Superblock& raw) { raw.flags |= kFlagDiscard | kFlagKeep; }));
}

// Step by step, what `init` leaves when it is cut off: nothing that a later one could stumble over.
TEST(Superblock, ACutOffInitIsBlankAndAUsedIntentMapIsNot) {
  File file = fresh_file(sample());
  EXPECT_TRUE(load(file, "m").value().blank);
  std::fill(file.begin() + kIntentOffset + 512, file.end(), std::byte{0});  // torn
  EXPECT_TRUE(load(file, "m").value().blank);
  put(file, 1, sample(), 1);
  EXPECT_EQ(load(file, "m").value().record, sample());
  EXPECT_EQ(load(file, "m").value().warnings.size(), 0u) << "its second copy was never written";
  put(file, 1, sample(), 2);
  EXPECT_EQ(load(file, "m").value().warnings.size(), 1u) << "this one's was";

  for (const uint64_t sequence : {0, 1}) {
    File used = fresh_file(sample());
    const uint64_t words[] = {1 - sequence};
    const IntentPage page = encode_page(0, sequence, intent_tag(sample().volume_uuid), words);
    std::memcpy(used.data() + kIntentOffset, &page, sizeof page);
    const Result<Loaded> loaded = load(used, "m");
    ASSERT_FALSE(loaded.ok());
    EXPECT_NE(loaded.error().action, "");
  }
}

// How large the regions were was in the superblocks: there may be more pages than by default.
TEST(Superblock, BothLostAndAnIntentMapOfSmallRegionsIsNotTakenForBlank) {
  constexpr uint64_t kLarge = 16 * kGiB;
  const Layout layout = layout_of(kLarge, kRegionBytesMin);
  ASSERT_GT(layout.intent_pages, layout_of(kLarge, kRegionBytesDefault).intent_pages);
  File file(layout.snapshot_offset);
  const uint64_t words[] = {1};
  const auto last = static_cast<uint32_t>(layout.intent_pages - 1);
  const IntentPage page = encode_page(last, 1, intent_tag(sample().volume_uuid), words);
  std::memcpy(file.data() + kIntentOffset + last * kPageBytes, &page, sizeof page);
  EXPECT_FALSE(metadata::load(reader_of(file), file.size(), kLarge, "m").ok());
}

// Whoever starts from it makes it longer: what was blank before would be refused the next time.
TEST(Superblock, BothLostAndAnIntentMapThatIsCutOffIsNotTakenForBlank) {
  File file = fresh_file(sample());
  const uint64_t words[] = {1};
  const IntentPage page = encode_page(0, 1, intent_tag(sample().volume_uuid), words);
  std::memcpy(file.data() + kIntentOffset, &page, sizeof page);
  for (const size_t left : {size_t{1}, size_t{512}, kPageBytes - 1, kPageBytes}) {
    file.resize(kIntentOffset + left);
    EXPECT_FALSE(load(file, "m").ok()) << left;
    file.resize(kFileBytes);
    EXPECT_FALSE(load(file, "m").ok()) << left;
    std::memcpy(file.data() + kIntentOffset, &page, sizeof page);
  }
  file = fresh_file(sample());
  file.resize(kIntentOffset + 512);  // unused: a cut-off `init`
  EXPECT_TRUE(load(file, "m").value().blank);
}

TEST(Superblock, BothLostAndAnIntentMapThatCannotBeReadIsNotTakenForBlank) {
  const File file = fresh_file(sample());
  const ReadAt read = [&](uint64_t offset, std::span<std::byte> into) -> Status {
    if (offset + into.size() > kIntentOffset) return system_error(5, "read m");
    return reader_of(file)(offset, into);
  };
  const Result<Loaded> loaded = metadata::load(read, file.size(), kVolume, "m");
  ASSERT_FALSE(loaded.ok());
  EXPECT_NE(loaded.error().action, "");
}

TEST(Generations, AdvanceKeepsTheBaseThatThePeerKnows) {
  Generations g{.current = 1, .base = 1, .history = {}};
  g.advance(2);
  EXPECT_EQ(g.base, 1u);
  g.advance(3);
  EXPECT_EQ(g.current, 3u);
  EXPECT_EQ(g.base, 1u);
  EXPECT_TRUE(g.knows(2));
  g.settle();
  EXPECT_EQ(g.base, 3u);
  EXPECT_TRUE(g.knows(1));
  for (uint64_t fresh = 4; fresh < 40; ++fresh) g.advance(fresh);
  EXPECT_EQ(g.base, 3u) << "however often";
  EXPECT_FALSE(g.knows(0));
}

// Where an old one is forgotten, all that are older are: a replica from then finds nothing in
// common, and no older past from which both would have moved on.
TEST(Generations, TheHistoryIsInTheOrderOfTime) {
  Generations g{.current = 1, .base = 1, .history = {}};
  for (uint64_t fresh = 2; fresh < 200; ++fresh) {
    g.advance(fresh);
    if (fresh % 3 != 0) g.settle();
    uint64_t newer = g.current;
    for (const uint64_t older : g.history) {
      if (older == 0) break;
      EXPECT_LT(older, newer);
      newer = older;
    }
  }
}

// Finishes requests when the test says so; keeps a medium that only flushed writes reach.
class ManualDisk final : public Disk {
 public:
  void submit(DiskRequest& request) override { requests.push_back(&request); }
  [[nodiscard]] uint64_t size_bytes() const override { return kFileBytes; }
  [[nodiscard]] bool fast_zero() const override { return false; }
  [[nodiscard]] Status grow(uint64_t bytes, bool) override {
    return bytes <= size_bytes() ? ok_status() : Status(Error{"it has no more room", "", ENOSPC});
  }
  void finish(int error = 0) {
    ASSERT_FALSE(requests.empty());
    DiskRequest& request = *requests.front();
    requests.erase(requests.begin());
    request.error = error;
    if (error == 0 && request.op == DiskOp::kWrite)
      std::memcpy(cache.data() + request.offset_bytes, request.data, request.length_bytes);
    if (error == 0 && request.op == DiskOp::kFlush) medium = cache;
    request.done(request);
  }
  std::vector<DiskRequest*> requests;
  File cache = File(kFileBytes);
  File medium = File(kFileBytes);
};

TEST(SuperblockStore, AnUpdateIsAnsweredWhenOneCopyIsFlushedAndTheOtherFollows) {
  ManualDisk disk;
  SuperblockStore store(disk, 0);
  int answers = 0;
  store.update(sample(), [&](int error) {
    EXPECT_EQ(error, 0);
    ++answers;
  });
  disk.finish();  // write
  EXPECT_EQ(answers, 0) << "it is in the cache only";
  disk.finish();  // flush
  EXPECT_EQ(answers, 1);
  const Result<Loaded> loaded = load(disk.medium, "m");
  ASSERT_TRUE(loaded.ok());
  EXPECT_EQ(loaded.value().record, sample());
  disk.finish();
  disk.finish();
  EXPECT_TRUE(disk.requests.empty());
  EXPECT_EQ(std::memcmp(disk.medium.data() + kSuperblockOffset[0],
                        disk.medium.data() + kSuperblockOffset[1], sizeof(Superblock)),
            0);
}

// At every step of many updates, whatever part of the write under way got to the medium, the record
// that was answered last, or a later one, is what is found.
TEST(SuperblockStore, SurvivesACrashAtEveryStep) {
  ManualDisk disk;
  SuperblockStore store(disk, 0);
  uint64_t answered = 0;
  for (uint64_t update = 1; update <= 6; ++update) {
    store.update(sample(update), [&answered, update](int) { answered = update; });
    while (!disk.requests.empty()) {
      const DiskRequest& next = *disk.requests.front();
      for (uint64_t torn = 0; torn <= sizeof(Superblock); torn += 512) {
        File crashed = disk.medium;
        if (next.op == DiskOp::kWrite)
          std::memcpy(crashed.data() + next.offset_bytes, next.data, torn);
        else if (torn > 0)  // a flush under way: any sectors of the cache
          for (size_t at = 0; at < kFileBytes; at += 512)
            if ((at / 512) % (torn / 512 + 1) == 0)
              std::memcpy(crashed.data() + at, disk.cache.data() + at, 512);
        const Result<Loaded> loaded = load(crashed, "m");
        if (answered == 0) continue;  // nothing was promised yet
        ASSERT_TRUE(loaded.ok()) << "update " << update << ", torn at " << torn;
        ASSERT_FALSE(loaded.value().blank);
        ASSERT_GE(loaded.value().record.generations.current, answered);
        ASSERT_LE(loaded.value().record.generations.current, update);
      }
      disk.finish();
    }
  }
}

TEST(SuperblockStore, UpdatesDuringAnUpdateAreCombined) {
  ManualDisk disk;
  SuperblockStore store(disk, 0);
  std::vector<uint64_t> answers;
  for (uint64_t update = 1; update <= 5; ++update)
    store.update(sample(update), [&answers, update](int) { answers.push_back(update); });
  for (int step = 0; step < 4; ++step) disk.finish();
  EXPECT_EQ(answers, (std::vector<uint64_t>{1}));
  for (int step = 0; step < 4; ++step) disk.finish();
  EXPECT_EQ(answers, (std::vector<uint64_t>{1, 2, 3, 4, 5}));
  EXPECT_TRUE(disk.requests.empty()) << "the four were one";
  EXPECT_EQ(load(disk.medium, "m").value().record.generations.current, 5u);
}

TEST(SuperblockStore, AnUpdateAskedForWithinAnAnswerIsMade) {
  ManualDisk disk;
  SuperblockStore store(disk, 0);
  bool second = false;
  store.update(sample(1),
               [&](int) { store.update(sample(2), [&](int error) { second = error == 0; }); });
  while (!disk.requests.empty()) disk.finish();
  EXPECT_TRUE(second);
  EXPECT_EQ(load(disk.medium, "m").value().record.generations.current, 2u);
}

TEST(SuperblockStore, ADiskThatHangsIsGivenUpForGood) {
  ManualDisk disk;
  SuperblockStore store(disk, 0);
  std::vector<int> answers;
  const auto answer = [&answers](int error) { answers.push_back(error); };
  store.update(sample(), answer);
  store.update(sample(2), answer);
  store.give_up(ETIMEDOUT);
  EXPECT_EQ(answers, (std::vector<int>{ETIMEDOUT, ETIMEDOUT}));
  disk.finish();  // too late
  EXPECT_TRUE(disk.requests.empty());
  store.update(sample(3), answer);
  EXPECT_EQ(answers.size(), 3u);
  EXPECT_EQ(store.error(), ETIMEDOUT);
}

TEST(SuperblockStore, AFailedDiskStaysFailed) {
  for (const int failing_step : {0, 1, 2, 3}) {
    ManualDisk disk;
    SuperblockStore store(disk, 0);
    std::vector<int> answers;
    const auto note = [&answers](int error) { answers.push_back(error); };
    store.update(sample(1), note);
    store.update(sample(2), note);
    for (int step = 0; step < failing_step; ++step) disk.finish();
    disk.finish(EIO);
    EXPECT_TRUE(disk.requests.empty());
    store.update(sample(3), note);
    EXPECT_TRUE(disk.requests.empty()) << "never retried into success";
    ASSERT_EQ(answers.size(), 3u);
    EXPECT_EQ(answers[0], failing_step < 2 ? EIO : 0) << failing_step;
    EXPECT_EQ(answers[1], EIO);
    EXPECT_EQ(answers[2], EIO);
  }
}

TEST(Superblock, EveryOtherFieldAndFlagComesBack) {
  NodeRecord record = sample();
  record.claim = 0x7171;
  record.named = 0x7272;
  record.followed_boot = 0x7373;
  for (size_t i = 0; i < kSessionEntries; ++i) record.sessions.stood[i] = 0x8000 + i;
  record.sessions.begun = 0x7474;
  record.backing_number = 0x7575;
  record.metadata_number = 0x7676;
  for (const auto flag : {&NodeRecord::held_data, &NodeRecord::flush_failed, &NodeRecord::unwitnessed,
                          &NodeRecord::repairing}) {
    record.*flag = true;
    const Result<Loaded> loaded = load(file_with_both(record, 9), "m");
    ASSERT_TRUE(loaded.ok());
    EXPECT_EQ(loaded.value().record, record);
    record.*flag = false;
  }
}

// Which has to lie in a sector. (One of an older version has nothing there, either.)
TEST(Superblock, ARecordThatNamesNoBackingIsTheFirstOne) {
  NodeRecord record = sample();
  record.backing_number = 0x7575;
  for (const uint64_t sequence : {1, 2})
    EXPECT_EQ(decode(encode(record, sequence)).value().record.backing_number, sequence == 1 ? 0u : 0x7575u);
}

}  // namespace
}  // namespace twinblock::metadata
