// Zeroes and trims of a file: in pieces, again where they were interrupted, and what of them has failed.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <memory>
#include <utility>

#include "io/posix/disk_file.h"
#include "io_posix_support.h"
#include "pattern.h"

namespace twinblock {
namespace {

// What the file system's calls were asked for, and what they say.
struct Allocations {
  std::atomic<unsigned> calls{0};
  std::atomic<uint64_t> longest{0};
  std::atomic<off_t> full_at{-1};  // there is no room for what begins there
  std::atomic<bool> interrupted{false};  // every other one is
};
Allocations allocations;

int allocate(int fd, int mode, off_t offset, off_t length) {
  const bool interrupts = allocations.interrupted && allocations.calls % 2 == 0;
  ++allocations.calls;
  allocations.longest = std::max<uint64_t>(allocations.longest, static_cast<uint64_t>(length));
  if (!interrupts && offset != allocations.full_at) return ::fallocate(fd, mode, offset, length);
  errno = interrupts ? EINTR : ENOSPC;
  return -1;
}

ssize_t write_where_there_is_room(int fd, const void* data, size_t length, off_t offset) {
  if (offset != allocations.full_at) return ::pwrite(fd, data, length, offset);
  errno = ENOSPC;
  return -1;
}

class Zeroes : public ::testing::Test {
 protected:
  Zeroes() {
    allocations.calls = 0;
    allocations.longest = 0;
    allocations.full_at = -1;
    allocations.interrupted = false;
  }
  // Of which the last byte is data: all of it is no hole, which would be left alone.
  void open(uint64_t size_bytes, DiskFile::Cache cache = DiskFile::Cache::kBuffered) {
    calls_.fallocate = allocate;
    calls_.pwrite = write_where_there_is_room;
    DiskFile::Options options;
    options.path = directory_ / "disk";
    options.size_bytes = size_bytes;
    options.create = true;
    options.cache = cache;
    options.calls = &calls_;
    auto opened = DiskFile::open(options);
    ASSERT_TRUE(opened.ok()) << opened.error().what;
    file_ = std::move(opened.value());
    const std::byte one{1};
    ASSERT_EQ(file_->write(size_bytes - 1, &one, 1), 0);
  }
  std::byte at(uint64_t offset) {
    std::byte byte{};
    EXPECT_EQ(file_->read(offset, &byte, 1), 0);
    return byte;
  }

  const TemporaryDirectory directory_;
  DiskCalls calls_ = DiskCalls::system();
  std::unique_ptr<DiskFile> file_;
};

// Writes are to get in between.
TEST_F(Zeroes, a_long_trim_is_done_in_pieces) {
  open(128 * kMiB);
  const std::byte one{1};
  ASSERT_EQ(file_->write(100 * kMiB, &one, 1), 0);
  EXPECT_EQ(file_->zero(0, 128 * kMiB, true), 0);
  EXPECT_GT(allocations.longest, 0u);
  EXPECT_LE(allocations.longest, 32 * kMiB);
  EXPECT_EQ(at(100 * kMiB), std::byte{0});
}

// The client is told that it reads as zeroes, and the other replica may have done it.
TEST_F(Zeroes, a_piece_that_fails_is_told) {
  open(48 * kMiB);
  for (const off_t at_bytes : {0, 16 << 20, 32 << 20})
    for (const bool may_unmap : {true, false}) {
      const std::byte one{1};
      ASSERT_EQ(file_->write(48 * kMiB - 1, &one, 1), 0);
      allocations.full_at = at_bytes;
      EXPECT_EQ(file_->zero(0, 48 * kMiB, may_unmap), ENOSPC) << at_bytes << may_unmap;
      allocations.full_at = -1;
    }
}

// They are written, and what lies between is not.
TEST_F(Zeroes, an_edge_that_fails_is_told) {
  open(2 * kMiB, DiskFile::Cache::kDirectWherePossible);
  if (!file_->direct()) GTEST_SKIP() << "no direct I/O on this file system";
  const Bytes data = pattern(2 * kMiB, 1);
  for (const off_t at_bytes : {0, 1 << 20})
    for (const bool may_unmap : {false, true}) {
      ASSERT_EQ(file_->write(0, data.data(), data.size()), 0);
      allocations.full_at = at_bytes;
      EXPECT_EQ(file_->zero(100, 1 * kMiB, may_unmap), ENOSPC) << at_bytes << may_unmap;
      allocations.full_at = -1;
    }
}

TEST_F(Zeroes, what_is_interrupted_is_made_again) {
  open(2 * kMiB);
  for (const bool may_unmap : {false, true}) {
    Bytes data = pattern(1 * kMiB, 1);
    ASSERT_EQ(file_->write(0, data.data(), data.size()), 0);
    allocations.calls = 0;
    allocations.interrupted = true;
    EXPECT_EQ(file_->zero(0, data.size(), may_unmap), 0);
    allocations.interrupted = false;
    EXPECT_GT(allocations.calls, 0u);
    EXPECT_EQ(file_->read(0, data.data(), data.size()), 0);
    EXPECT_TRUE(data == Bytes(data.size())) << may_unmap;
  }
}

}  // namespace
}  // namespace twinblock
