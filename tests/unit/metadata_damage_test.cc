// Damage to every byte, and every length, of a small metadata file: it is refused, or what is found
// is the right record and at least everything that may differ from the peer.
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "base/crc32c.h"
#include "base/units.h"
#include "metadata/intent_page.h"
#include "metadata/load.h"
#include "metadata/snapshot.h"
#include "metadata/superblock_store.h"
#include "metadata_support.h"

namespace twinblock::metadata {
namespace {

constexpr uint64_t kVolume = 64 * kMiB;
constexpr Layout kLayout = layout_of(kVolume, kRegionBytesDefault);
constexpr uint64_t kIntents = 0b0110'0000'0000'0101;

class Damage : public testing::Test {
 protected:
  Damage() : dirty_(kVolume), file_(metadata_bytes_max(kVolume)) {
    dirty_.set(5 * kMiB - 4096, 4096);  // in region 1 …
    dirty_.set(57 * kMiB, 3 * 4096);    // … and 14
    CrashDisk disk(file_.size());
    SnapshotWriter writer(disk);
    writer.write(dirty_, kLayout.snapshot_offset, [this](int, uint64_t bytes, uint32_t crc) {
      record_.snapshot_bytes = bytes;
      record_.snapshot_crc = crc;
    });
    disk.finish_all();
    file_ = disk.cache;
    file_.resize(kLayout.snapshot_offset + record_.snapshot_bytes);
    record_.volume = "r0";
    record_.node = "alpha";
    record_.size_bytes = kVolume;
    for (size_t i = 0; i < 16; ++i) record_.volume_uuid[i] = static_cast<uint8_t>(i + 1);
    record_.generations = {0x1111, 0x2222, {0x3333}};
    record_.term = 7;
    record_.dirty = record_.snapshot = true;
    for (const uint64_t offset : kSuperblockOffset) {
      const auto bytes = encode(record_, 9);
      std::memcpy(file_.data() + offset, bytes.data(), bytes.size());
    }
    const IntentPage page = encode_page(0, 4, intent_tag(record_.volume_uuid), {&kWords, 1});
    std::memcpy(file_.data() + kIntentOffset, &page, sizeof page);
  }

  // Whether it was refused. `warned`: damage that must be reported.
  bool check(std::span<const std::byte> file, bool warned) {
    const Result<Loaded> result = load(reader_of(file), file.size(), kVolume, "/m");
    if (!result.ok()) {
      EXPECT_NE(result.error().what.find("/m"), std::string::npos);
      EXPECT_NE(result.error().action, "");
      return true;
    }
    const Loaded& loaded = result.value();
    EXPECT_FALSE(loaded.blank);
    NodeRecord expected = record_;
    expected.snapshot = loaded.record.snapshot;
    EXPECT_EQ(loaded.record, expected);
    EXPECT_EQ(loaded.dirty.has_value(), loaded.record.snapshot);
    EXPECT_EQ(loaded.intent_words.size(), 1u);
    EXPECT_EQ(kWords & ~loaded.intent_words.at(0), 0u);
    EXPECT_EQ(loaded.intent_words.at(0) >> kLayout.regions, 0u);
    if (loaded.dirty) {
      EXPECT_EQ(loaded.dirty->set_blocks(), dirty_.set_blocks());
      EXPECT_TRUE(loaded.dirty->any(5 * kMiB - 4096, 4096));
      EXPECT_EQ(loaded.dirty->next_run(6 * kMiB, kGiB)->length(), 3 * 4096u);
    }
    EXPECT_EQ(!loaded.warnings.empty(), warned);
    for (const std::string& warning : loaded.warnings) EXPECT_EQ(warning.rfind("/m: ", 0), 0u);
    return false;
  }
  // One copy of the superblock, as some other twinblock would write it.
  template <typename Change>
  void put_copy(uint64_t offset, uint64_t sequence, Change&& change) {
    const auto bytes = encode(record_, sequence);
    Superblock disk;
    std::memcpy(&disk, bytes.data(), sizeof disk);
    change(disk);
    disk.crc = 0;
    disk.crc = crc32c(std::as_bytes(std::span(&disk, 1)));
    std::memcpy(file_.data() + offset, &disk, sizeof disk);
  }
  // Whether the byte is of any use.
  [[nodiscard]] static bool used(size_t at) {
    const auto in = [at](uint64_t from, uint64_t bytes) { return at >= from && at < from + bytes; };
    return in(0, kPageBytes) || in(kSuperblockOffset[1], kPageBytes) || at >= kIntentOffset;
  }

  static constexpr uint64_t kWords = kIntents | 0b10 | 1 << 14;
  BlockMap dirty_;
  File file_;
  NodeRecord record_;
};

// Where one copy is bad, the next update writes that one first: cut off, it leaves the good one.
TEST_F(Damage, TheNextUpdateBeginsWithTheBadCopy) {
  for (const size_t bad : {0u, 1u}) {
    std::vector<std::byte> file = file_;
    file[kSuperblockOffset[bad] + 8] ^= std::byte{1};
    const Result<Loaded> result = load(reader_of(file), file.size(), kVolume, "/m");
    ASSERT_TRUE(result.ok());
    EXPECT_EQ((result.value().sequence + 1) % 2, bad);
  }
}

TEST_F(Damage, TheNextUpdateIsWrittenOverTheBadCopy) {
  for (const size_t bad : {0u, 1u}) {
    CrashDisk disk(file_.size());
    disk.cache = file_;
    disk.cache[kSuperblockOffset[bad] + 8] ^= std::byte{1};
    const Result<Loaded> found = load(reader_of(disk.cache), disk.cache.size(), kVolume, "/m");
    ASSERT_TRUE(found.ok());
    SuperblockStore store(disk, found.value().sequence);
    store.update(found.value().record, [](int) {});
    ASSERT_EQ(disk.pending(), 1u);
    EXPECT_EQ(disk.request().offset_bytes, kSuperblockOffset[bad]);
    disk.finish_all();
  }
}

TEST_F(Damage, ThereIsNoneInTheGoodFile) { EXPECT_FALSE(check(file_, false)); }

TEST_F(Damage, OfAnyByteIsNoticedAndLosesNothing) {
  for (size_t at = 0; at < file_.size(); ++at) {
    const std::byte good = file_[at];
    file_[at] ^= static_cast<std::byte>(1 << (at * 7 % 8));
    ASSERT_FALSE(check(file_, used(at))) << at;
    file_[at] = good;
    if (HasFailure()) FAIL() << "byte " << at;
  }
}

TEST_F(Damage, OfAWholePartLosesNothing) {
  const std::pair<uint64_t, uint64_t> parts[] = {
      {0, kPageBytes},
      {kSuperblockOffset[1], kPageBytes},
      {kIntentOffset, kPageBytes},
      {kLayout.snapshot_offset, record_.snapshot_bytes},
  };
  const File good = file_;
  std::mt19937_64 random(1);
  for (unsigned damaged = 1; damaged < 16; ++damaged) {
    for (const bool zero : {true, false}) {
      file_ = good;
      for (size_t part = 0; part < 4; ++part)
        for (uint64_t i = 0; (damaged >> part & 1) != 0 && i < parts[part].second; ++i)
          file_[parts[part].first + i] = zero ? std::byte{0} : static_cast<std::byte>(random());
      if (zero && (damaged & 7) == 7)  // nothing tells it from a file that was never used
        EXPECT_TRUE(load(reader_of(file_), file_.size(), kVolume, "/m").value().blank);
      else
        EXPECT_EQ(check(file_, true), (damaged & 3) == 3) << damaged << zero;
      if (HasFailure()) return;
    }
  }
}

// A newer twinblock was cut off between the two copies: what it recorded counts, and can't be read.
TEST_F(Damage, IsNoneWhereNewerSoftwareWroteACopy) {
  const File good = file_;
  for (const uint64_t offset : kSuperblockOffset) {
    for (const uint64_t sequence : {8, 9, 10}) {
      for (const bool version : {true, false}) {
        file_ = good;
        put_copy(offset, sequence, [version](Superblock& disk) {
          if (version)
            ++disk.version;
          else
            disk.reserved[0] = 1;
        });
        const Result<Loaded> loaded = load(reader_of(file_), file_.size(), kVolume, "/m");
        ASSERT_FALSE(loaded.ok()) << offset << " " << sequence << version;
        EXPECT_NE(loaded.error().what.find("newer software wrote it"), std::string::npos) << loaded.error().what;
        EXPECT_NE(loaded.error().action.find("use the twinblock that wrote it"), std::string::npos);
      }
    }
  }
}

// This one was cut off while it took over what an older one had written.
TEST_F(Damage, OfACopyIsWhatOlderSoftwareWrote) {
  put_copy(kSuperblockOffset[0], 8, [](Superblock& disk) { --disk.version; });
  EXPECT_FALSE(check(file_, true));
}

TEST_F(Damage, OfTheEndOfTheFileLosesNothing) {
  for (size_t size = 512; size < file_.size(); size += 512) {
    const bool refused = check(std::span(file_).first(size), true);
    EXPECT_EQ(refused, size < kPageBytes) << size;
    if (HasFailure()) return;
  }
}

TEST_F(Damage, OfManyBytesNeverCrashes) {
  const File good = file_;
  for (unsigned seed = 0; seed < 3000; ++seed) {
    std::mt19937_64 random(seed);
    file_ = good;
    for (uint64_t i = 1 + random() % 8; i > 0; --i)
      file_[random() % 4 == 0 ? kLayout.snapshot_offset + random() % record_.snapshot_bytes
                              : random() % 4 * 64 * kKiB % (192 * kKiB) + random() % 300] =
          static_cast<std::byte>(random());
    const Result<Loaded> result = load(reader_of(file_), file_.size(), kVolume, "/m");
    ASSERT_EQ(result.ok() ? result.value().record.term : 7, 7u) << seed;
  }
}

TEST_F(Damage, ByReadErrorsIsLikeAnyOther) {
  for (uint64_t bad = 0; bad < file_.size(); bad += 512) {
    const ReadAt read = [&](uint64_t offset, std::span<std::byte> into) -> Status {
      if (offset <= bad && bad < offset + into.size()) return system_error(5, "read /m");
      return reader_of(file_)(offset, into);
    };
    const Result<Loaded> result = load(read, file_.size(), kVolume, "/m");
    ASSERT_TRUE(result.ok()) << bad;
    EXPECT_EQ(result.value().record.term, 7u);
    EXPECT_EQ(kWords & ~result.value().intent_words.at(0), 0u);
    EXPECT_EQ(result.value().warnings.size(), used(bad) ? 1u : 0u) << bad;
  }
}

// Another volume's pages say nothing about this one.
TEST_F(Damage, PagesOfAnotherVolumeOrPlaceCountAsFull) {
  for (const bool other_volume : {true, false}) {
    const IntentPage page = encode_page(other_volume ? 0 : 1, 4,
                                        other_volume ? 1 : intent_tag(record_.volume_uuid), {});
    std::memcpy(file_.data() + kIntentOffset, &page, sizeof page);
    EXPECT_FALSE(check(file_, true));
    const Result<Loaded> result = load(reader_of(file_), file_.size(), kVolume, "/m");
    EXPECT_EQ(result.value().intent_words.at(0), 0xffffu);
  }
}

// One sector that can't be read costs the regions of its page, not those of the megabyte around it.
TEST(Load, AnUnreadablePageCountsAsFullAndItsNeighboursDoNot) {
  const uint64_t volume = 3 * kIntentPageRegions * uint64_t{kRegionBytesDefault};
  NodeRecord record;
  record.size_bytes = volume;
  record.generations.current = 1;
  File file(layout_of(volume, kRegionBytesDefault).file_bytes);
  for (const uint64_t offset : kSuperblockOffset) {
    const auto bytes = encode(record, 9);
    std::memcpy(file.data() + offset, bytes.data(), bytes.size());
  }
  for (uint32_t index = 0; index < 3; ++index) {
    const IntentPage page = encode_page(index, 1, 0, {});
    std::memcpy(file.data() + kIntentOffset + index * kPageBytes, &page, sizeof page);
  }
  const uint64_t bad = kIntentOffset + kPageBytes + 512;
  const ReadAt read = [&](uint64_t offset, std::span<std::byte> into) -> Status {
    if (offset <= bad && bad < offset + into.size()) return system_error(5, "read /m");
    return reader_of(file)(offset, into);
  };
  const Result<Loaded> loaded = load(read, file.size(), volume, "/m");
  ASSERT_TRUE(loaded.ok());
  for (size_t word = 0; word < 3 * kIntentWords; ++word)
    ASSERT_EQ(loaded.value().intent_words[word], word / kIntentWords == 1 ? ~uint64_t{0} : 0);
}

// A process that died in a flush of which nobody knows how it ended.
TEST(Load, AFlushThatWasUnderWayCountsAsFailed) {
  for (const bool flushing : {false, true}) {
    NodeRecord record;
    record.size_bytes = kVolume;
    record.generations.current = 1;
    record.flushing = flushing;
    File file(kLayout.file_bytes);
    for (const uint64_t offset : kSuperblockOffset) {
      const auto bytes = encode(record, 9);
      std::memcpy(file.data() + offset, bytes.data(), bytes.size());
    }
    const Result<Loaded> loaded = load(reader_of(file), file.size(), kVolume, "/m");
    ASSERT_TRUE(loaded.ok());
    EXPECT_EQ(loaded.value().record.flush_failed, flushing);
    EXPECT_FALSE(loaded.value().record.flushing);
  }
}

// The largest volume is opened without reading or holding more than its intent map.
TEST(Load, OfTheLargestVolumeIsFast) {
  const uint64_t volume = 64 * kTiB;
  NodeRecord record;
  record.size_bytes = volume;
  record.generations.current = 1;
  const auto superblock = encode(record, 9);
  uint64_t bytes_read = 0;
  const ReadAt read = [&](uint64_t offset, std::span<std::byte> into) -> Status {
    bytes_read += into.size();
    std::fill(into.begin(), into.end(), std::byte{0});
    if (offset == 0) std::memcpy(into.data(), superblock.data(), superblock.size());
    if (offset >= kIntentOffset)
      for (uint64_t at = 0; at < into.size(); at += kPageBytes) {
        const IntentPage page = encode_page(
            static_cast<uint32_t>((offset + at - kIntentOffset) / kPageBytes), 1, 0, {});
        std::memcpy(into.data() + at, &page, sizeof page);
      }
    return ok_status();
  };
  const Result<Loaded> loaded = load(read, metadata_bytes_max(volume), volume, "/m");
  ASSERT_TRUE(loaded.ok());
  EXPECT_EQ(loaded.value().warnings.size(), 1u) << "the second copy is empty";
  EXPECT_LT(bytes_read, 3 * kMiB);
}

}  // namespace
}  // namespace twinblock::metadata
