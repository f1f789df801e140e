// What of the backing is compared with the disk at a start, and how it gets on record that memory deceives.
#include "metadata/memory_doubt.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "base/units.h"
#include "metadata/disk_format.h"
#include "metadata_support.h"

namespace twinblock::metadata {
namespace {

constexpr uint64_t kVolume = 25 * kMiB;  // the last region of 4 MiB is cut

class MemoryDoubt : public testing::Test {
 protected:
  MemoryDoubt() : file_(layout_of(kVolume, kRegionBytesDefault).file_bytes) {
    loaded_.record.size_bytes = kVolume;
    loaded_.record.generations.current = 1;
    loaded_.sequence = 9;
    loaded_.intent_words = {0b0110'0100};
  }
  Status write(uint64_t offset_bytes, std::span<const std::byte> bytes) {
    if (writes_left_-- == 0) return system_error(EIO, "write");
    std::memcpy(file_.data() + offset_bytes, bytes.data(), bytes.size());
    return ok_status();
  }
  Status record() {
    return record_doubt(loaded_, [this](uint64_t offset_bytes, auto bytes) { return write(offset_bytes, bytes); });
  }

  Loaded loaded_;
  File file_;
  int writes_left_ = 2;
};

TEST_F(MemoryDoubt, AllOfTheVolumeIsComparedTheIntentsFirst) {
  const std::vector<ByteRange> ranges = doubtful_ranges(loaded_);
  ASSERT_EQ(ranges.size(), 4u);
  const std::vector<std::pair<uint64_t, uint64_t>> expected{{8, 12}, {20, 25}, {0, 8}, {12, 20}};
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(ranges[i].begin_bytes, expected[i].first * kMiB);
    EXPECT_EQ(ranges[i].end_bytes, expected[i].second * kMiB);
  }
}

TEST_F(MemoryDoubt, NothingIsComparedWhereNothingIsBelievedOrRecorded) {
  loaded_.record.flush_failed = true;
  EXPECT_TRUE(doubtful_ranges(loaded_).empty());
  loaded_ = Loaded();
  loaded_.blank = true;
  EXPECT_TRUE(doubtful_ranges(loaded_).empty());
}

TEST_F(MemoryDoubt, ItIsOnRecordInBothCopiesAndTheNextRecordFollowsIt) {
  ASSERT_TRUE(record().ok());
  EXPECT_EQ(loaded_.sequence, 10u);
  for (const uint64_t offset : kSuperblockOffset) {
    File one = file_;
    std::memset(one.data() + (offset == 0 ? kSuperblockOffset[1] : 0), 0xFF, sizeof(Superblock));
    const Result<Loaded> found = load(reader_of(one), one.size(), kVolume, "/m");
    ASSERT_TRUE(found.ok()) << found.error().what;
    EXPECT_TRUE(found.value().record.flush_failed);
    EXPECT_EQ(found.value().sequence, offset == kSuperblockOffset[0] ? 10u : 11u) << "the bad one is written first";
  }
}

TEST_F(MemoryDoubt, WhereTheRecordFailsItCountsForThisProcess) {
  writes_left_ = 0;
  EXPECT_FALSE(record().ok());
  EXPECT_TRUE(loaded_.record.flush_failed);
  EXPECT_EQ(loaded_.sequence, 9u);
}

// The next number is 10: where one copy is bad, load() chose it so that the bad one's turn is first.
TEST_F(MemoryDoubt, ItBeginsWithTheCopyWhoseTurnItIs) {
  writes_left_ = 1;
  EXPECT_FALSE(record().ok());
  const auto written = [this](size_t copy) { return file_[kSuperblockOffset[copy]] != std::byte{0}; };
  EXPECT_TRUE(written(0));
  EXPECT_FALSE(written(1));
}

}  // namespace
}  // namespace twinblock::metadata
