// How much is read of what a client says that it is going to read.
#include "hint.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstdint>
#include <span>

#include "base/limits.h"

namespace twinblock {
namespace {

constexpr uint64_t kOffset = 5 * kMiB + 512;

// Reads in parts that follow each other, of which one fails where it is told to.
class Hint : public testing::Test {
 protected:
  int read(uint64_t length_bytes) {
    return read_hint(
        kOffset, length_bytes, [this] { return stops_at_bytes_ != 0 && read_bytes_ >= stops_at_bytes_; },
        [this](std::span<std::byte> into, uint64_t offset_bytes) {
          EXPECT_EQ(offset_bytes, kOffset + read_bytes_);
          EXPECT_LE(into.size(), kMiB);
          read_bytes_ += into.size();
          return fails_at_bytes_ != 0 && read_bytes_ >= fails_at_bytes_ ? EIO : 0;
        });
  }

  uint64_t read_bytes_ = 0;
  uint64_t stops_at_bytes_ = 0;  // 0: never
  uint64_t fails_at_bytes_ = 0;  // …
};

TEST_F(Hint, IsReadToItsEnd) {
  EXPECT_EQ(read(2 * kMiB + 512), 0);
  EXPECT_EQ(read_bytes_, 2 * kMiB + 512);
}

TEST_F(Hint, ThatNamesNothingReadsNothing) {
  EXPECT_EQ(read(0), 0);
  EXPECT_EQ(read_bytes_, 0u);
}

// Whoever asked for it may be gone, and counts as a client until it ends.
TEST_F(Hint, IsReadNoFurtherThanAnyOtherRequest) {
  EXPECT_EQ(read(UINT32_MAX), 0);
  EXPECT_EQ(read_bytes_, limits::kClientRequestBytesMax);
}

TEST_F(Hint, IsNoErrorWhereTheNodeIsToEnd) {
  stops_at_bytes_ = 3 * kMiB;
  EXPECT_EQ(read(8 * kMiB), 0);
  EXPECT_EQ(read_bytes_, 3 * kMiB);
}

TEST_F(Hint, EndsWithTheFirstPartThatCanNotBeRead) {
  fails_at_bytes_ = 2 * kMiB;
  EXPECT_EQ(read(8 * kMiB), EIO);
  EXPECT_EQ(read_bytes_, 2 * kMiB);
}

}  // namespace
}  // namespace twinblock
