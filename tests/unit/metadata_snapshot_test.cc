// The snapshot: written and read again, and what is no snapshot.
#include <gtest/gtest.h>

#include <cerrno>
#include <optional>

#include "base/crc32c.h"
#include "base/units.h"
#include "metadata/snapshot.h"
#include "metadata_support.h"

namespace twinblock::metadata {
namespace {

constexpr uint64_t kOffset = 132 * kKiB;
constexpr uint64_t kBlock = limits::kBlockBytes;

struct Written {
  std::optional<int> error;
  uint64_t bytes = 0;
  uint32_t crc = 0;
};

Written write(CrashDisk& disk, const BlockMap& map) {
  Written written;
  SnapshotWriter writer(disk);
  writer.write(map, kOffset, [&](int error, uint64_t bytes, uint32_t crc) {
    written = {error, bytes, crc};
  });
  EXPECT_FALSE(written.error) << "not from within";
  disk.finish_all();
  EXPECT_TRUE(writer.idle());
  return written;
}

std::optional<BlockMap> read(std::span<const std::byte> file, uint64_t bytes, uint32_t crc,
                             uint64_t volume_bytes) {
  std::string why;
  auto map = read_snapshot(reader_of(file), file.size(), kOffset, bytes, crc, volume_bytes, why);
  EXPECT_EQ(map.has_value(), why.empty());
  return map;
}

void expect_equal(const BlockMap& a, const BlockMap& b) {
  ASSERT_EQ(a.set_blocks(), b.set_blocks());
  uint64_t at = 0;
  while (const auto run = a.next_run(at, kGiB)) {
    const auto same = b.next_run(at, kGiB);
    ASSERT_TRUE(same);
    ASSERT_EQ(run->begin_bytes, same->begin_bytes);
    ASSERT_EQ(run->end_bytes, same->end_bytes);
    at = run->end_bytes;
  }
}

class SnapshotOf : public testing::TestWithParam<unsigned> {};

TEST_P(SnapshotOf, ComesBackAsItWasAndIsOnTheMedium) {
  std::mt19937_64 random(GetParam());
  // Up to several pieces of 1 MiB.
  const uint64_t volume = (1 + random() % 700) * kSnapshotChunkBytes + random() % 3 * kBlock + 512;
  BlockMap map(volume);
  for (uint64_t i = random() % 2000; i > 0; --i) {
    const uint64_t offset = random() % volume;
    map.set(offset, std::min(volume - offset, 1 + random() % (10 * kBlock)));
  }
  if (GetParam() % 3 == 0) map.set(0, kSnapshotChunkBytes);
  if (GetParam() % 4 == 0) map.set(volume - 1, 1);
  CrashDisk disk(kOffset + (snapshot_bytes_max(volume) + 4095) / 4096 * 4096);
  const Written written = write(disk, map);
  ASSERT_EQ(written.error, 0);
  EXPECT_EQ(disk.flushes, 1u);
  disk.power_lost(random);
  const auto back = read(disk.cache, written.bytes, written.crc, volume);
  ASSERT_TRUE(back);
  expect_equal(*back, map);
  EXPECT_FALSE(read(disk.cache, written.bytes + 8, written.crc, volume));
  EXPECT_FALSE(read(disk.cache, written.bytes, written.crc + 1, volume));
  if (written.bytes > 0) {
    EXPECT_FALSE(read(disk.cache, written.bytes - 1, written.crc, volume));
    EXPECT_FALSE(read(std::span(disk.cache).first(kOffset + written.bytes - 1), written.bytes,
                      written.crc, volume));
  }
}
INSTANTIATE_TEST_SUITE_P(Seeds, SnapshotOf, testing::Range(1u, 25u));

TEST(Snapshot, OfEmptyAndFullMapsOfTheLargestVolumeIsShort) {
  const uint64_t volume = 64 * kTiB;
  BlockMap map(volume);
  CrashDisk disk(kOffset + 8 * kMiB);
  Written written = write(disk, map);
  EXPECT_EQ(written.error, 0);
  EXPECT_EQ(written.bytes, 0u);
  EXPECT_TRUE(read(disk.cache, 0, written.crc, volume)->empty());
  map.set_all();
  written = write(disk, map);
  EXPECT_EQ(written.error, 0);
  EXPECT_EQ(written.bytes, 524288u * 8);
  EXPECT_EQ(read(disk.cache, written.bytes, written.crc, volume)->set_bytes(), volume);
}

TEST(Snapshot, AFailedOrTooSmallDiskIsTold) {
  const uint64_t volume = 600 * kSnapshotChunkBytes;
  BlockMap map(volume);
  for (uint64_t chunk = 0; chunk < 600; ++chunk) map.set(chunk * kSnapshotChunkBytes, 1);
  CrashDisk small(kOffset + 2 * kMiB);
  EXPECT_EQ(write(small, map).error, ENOSPC);
  for (const int failing : {0, 1, 2, 3}) {
    CrashDisk disk(kOffset + 4 * kMiB);
    Written written;
    SnapshotWriter writer(disk);
    writer.write(map, kOffset, [&](int error, uint64_t, uint32_t) { written.error = error; });
    for (int step = 0; step < failing; ++step) disk.finish();
    disk.finish(0, EIO);
    EXPECT_EQ(written.error, EIO) << failing;
    EXPECT_EQ(disk.pending(), 0u);
    EXPECT_TRUE(writer.idle());
  }
}

// With good checksums: what only a bug or malice could have written.
TEST(Snapshot, EntriesThatAreNoneOfThisVolumeAreRefused) {
  const uint64_t volume = 2 * kSnapshotChunkBytes + 5 * kBlock;
  const auto good = [&](std::initializer_list<SnapshotEntry> entries, unsigned last_bits = 0) {
    File file(kOffset);
    for (const SnapshotEntry& entry : entries) {
      const auto bytes = std::as_bytes(std::span(&entry, 1));
      file.insert(file.end(), bytes.begin(), bytes.end());
      if (entry.kind == kSnapshotBitmap) {
        file.resize(file.size() + kSnapshotBitmapBytes);
        *(file.end() - static_cast<std::ptrdiff_t>(kSnapshotBitmapBytes)) =
            static_cast<std::byte>(last_bits);
      }
    }
    const auto snapshot = std::span(file).subspan(kOffset);
    return read(file, snapshot.size(), crc32c(snapshot), volume).has_value();
  };
  EXPECT_TRUE(good({}));
  EXPECT_TRUE(good({{0, kSnapshotAll}, {1, kSnapshotBitmap}, {2, kSnapshotAll}}));
  EXPECT_TRUE(good({{2, kSnapshotBitmap}}, 0x1f));
  EXPECT_FALSE(good({{2, kSnapshotBitmap}}, 0x3f)) << "past the end";
  EXPECT_FALSE(good({{1, kSnapshotAll}, {0, kSnapshotAll}}));
  EXPECT_FALSE(good({{1, kSnapshotAll}, {1, kSnapshotAll}}));
  EXPECT_FALSE(good({{3, kSnapshotAll}}));
  EXPECT_FALSE(good({{~0u, kSnapshotAll}}));
  EXPECT_FALSE(good({{0, 0}}));
  EXPECT_FALSE(good({{0, 3}}));
}

TEST(Snapshot, ARangeThatCannotBeReadIsNoSnapshot) {
  const ReadAt broken = [](uint64_t, std::span<std::byte>) -> Status {
    return system_error(EIO, "read m");
  };
  std::string why;
  EXPECT_FALSE(read_snapshot(broken, kOffset + 8, kOffset, 8, 0, kSnapshotChunkBytes, why));
  EXPECT_NE(why.find("read m"), std::string::npos);
}

TEST(Snapshot, AWriterBeginsEachAnew) {
  const uint64_t volume = 3 * kSnapshotChunkBytes;
  BlockMap map(volume);
  map.set(kSnapshotChunkBytes, kBlock);
  CrashDisk disk(kOffset + 64 * kKiB);
  SnapshotWriter writer(disk);
  for (int times = 0; times < 2; ++times) {
    Written written;
    writer.write(map, kOffset, [&](int error, uint64_t bytes, uint32_t crc) { written = {error, bytes, crc}; });
    disk.finish_all();
    ASSERT_EQ(written.error, 0);
    const auto back = read(disk.cache, written.bytes, written.crc, volume);
    ASSERT_TRUE(back) << times;
    EXPECT_EQ(back->set_blocks(), 1u);
  }
}

}  // namespace
}  // namespace twinblock::metadata
