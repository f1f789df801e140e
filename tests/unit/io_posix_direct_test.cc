// Direct I/O: what does not pass through the page cache, whatever its alignment; where it is refused. And what of the
// page cache counts as dropped where it is used.
#include "io/posix/direct_io.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "allocated_bytes.h"
#include "io/posix/aligned_buffers.h"
#include "io/posix/disk_file.h"
#include "io/posix/page_cache.h"
#include "loop_device.h"
#include "pattern.h"
#include "temporary_directory.h"

namespace twinblock {
namespace {

DiskFile::Options options_of(const std::string& path) {
  DiskFile::Options options;
  options.path = path;
  options.size_bytes = 8 * kMiB;
  options.create = true;
  options.cache = DiskFile::Cache::kDirect;
  return options;
}

constexpr unsigned long kTmpfsMagic = 0x01021994;

// What is there is in the page cache, whatever reads it.
bool lives_in_memory(const DiskFile& file) {
  struct statfs status {};
  EXPECT_EQ(::fstatfs(file.fd(), &status), 0);
  return static_cast<unsigned long>(status.f_type) == kTmpfsMagic;
}

void check_odd_places(const DiskFile& file, unsigned seed) {
  Bytes expected = pattern(4 * kMiB, seed);
  ASSERT_EQ(file.write(0, expected.data(), expected.size()), 0);
  for (const uint64_t offset : {0ul, 1ul, 511ul, 512ul, 4095ul, 4096ul, 777777ul}) {
    for (const uint64_t length : {1ul, 511ul, 512ul, 4096ul, 5000ul, 1048576ul, 1100001ul}) {
      // Memory as clients have it.
      const Bytes data = pattern(length + 1, ++seed);
      ASSERT_EQ(file.write(offset, data.data() + 1, length), 0);
      std::memcpy(expected.data() + offset, data.data() + 1, length);
      Bytes part(length + 3);
      ASSERT_EQ(file.read(offset, part.data() + 3, length), 0);
      ASSERT_EQ(std::memcmp(part.data() + 3, data.data() + 1, length), 0) << length << " at " << offset;
    }
  }
  Bytes content(expected.size());
  ASSERT_EQ(file.read(0, content.data(), content.size()), 0);
  ASSERT_EQ(content, expected);
  EXPECT_TRUE(lives_in_memory(file) || nothing_is_cached(file.fd(), file.size_bytes()));
}

TEST(Direct, OddPlacesOfAFileAreWrittenExactlyAndNothingIsCached) {
  const TemporaryDirectory directory;
  const auto file = DiskFile::open(options_of(directory / "image"));
  ASSERT_TRUE(file.ok()) << file.error().what;
  EXPECT_TRUE(file.value()->direct());
  check_odd_places(*file.value(), 1);
}

TEST(Direct, OddPlacesOfADeviceAreWrittenExactlyAndNothingIsCached) {
  const TemporaryDirectory directory;
  ASSERT_TRUE(DiskFile::open(options_of(directory / "image")).ok());
  const LoopDevice device(directory / "image");
  if (device.path().empty()) GTEST_SKIP() << "no loop device to be had here";
  const auto file = DiskFile::open(options_of(device.path()));
  ASSERT_TRUE(file.ok()) << file.error().what;
  EXPECT_TRUE(file.value()->direct());
  EXPECT_TRUE(file.value()->forget_cache());
  check_odd_places(*file.value(), 2);
}

// Each of them reads what the others have in that block, and writes it again.
TEST(Direct, PartsOfOneBlockThatAreWrittenAtATimeAreAllThere) {
  const TemporaryDirectory directory;
  const auto file = DiskFile::open(options_of(directory / "image"));
  ASSERT_TRUE(file.ok()) << file.error().what;
  constexpr size_t kWriters = 8;
  constexpr int kRounds = 100;
  constexpr size_t kPart = 4 * kKiB / kWriters;
  std::vector<std::thread> writers;
  std::array<int, kWriters> lost{};
  for (size_t writer = 0; writer < kWriters; ++writer)
    writers.emplace_back([&, writer] {
      const uint64_t at = 64 * kKiB + writer * kPart;
      for (int round = 0; round < kRounds; ++round) {
        const Bytes data(kPart, static_cast<std::byte>(round * 8 + static_cast<int>(writer)));
        Bytes seen(kPart);
        if (file.value()->write(at, data.data(), kPart) != 0) ++lost[writer];
        if (file.value()->read(at, seen.data(), kPart) != 0 || seen != data) ++lost[writer];
      }
    });
  for (std::thread& writer : writers) writer.join();
  for (size_t writer = 0; writer < kWriters; ++writer) EXPECT_EQ(lost[writer], 0) << writer;
}

// What a failed flush has left there would be read again, and be taken for what the disk holds.
TEST(Buffered, APageThatStaysInMemoryIsNotForgotten) {
  const TemporaryDirectory directory;
  DiskFile::Options options = options_of(directory / "image");
  options.cache = DiskFile::Cache::kBuffered;
  const auto opened = DiskFile::open(options);
  ASSERT_TRUE(opened.ok()) << opened.error().what;
  const DiskFile& file = *opened.value();
  if (lives_in_memory(file)) GTEST_SKIP() << "a file system that lives in memory forgets nothing";
  const Bytes data = pattern(64 * kKiB, 3);
  ASSERT_EQ(file.write(0, data.data(), data.size()), 0);
  EXPECT_FALSE(nothing_is_cached(file.fd(), file.size_bytes()));
  EXPECT_FALSE(nothing_is_cached(file.fd(), file.size_bytes(), false));
  // The kernel keeps a page that a process has mapped.
  const size_t page_bytes = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  void* page = ::mmap(nullptr, page_bytes, PROT_READ, MAP_SHARED, file.fd(), 0);
  ASSERT_NE(page, MAP_FAILED);
  EXPECT_EQ(std::memcmp(page, data.data(), page_bytes), 0);
  EXPECT_FALSE(file.forget_cache());
  EXPECT_FALSE(nothing_is_cached(file.fd(), file.size_bytes()));
  EXPECT_FALSE(nothing_is_cached(file.fd(), file.size_bytes(), false));
  EXPECT_EQ(::munmap(page, page_bytes), 0);
  EXPECT_TRUE(file.forget_cache());
  EXPECT_TRUE(nothing_is_cached(file.fd(), file.size_bytes()));
  EXPECT_TRUE(nothing_is_cached(file.fd(), file.size_bytes(), false));
}

// Kernels before 6.5 are asked about a part of a file at a time.
TEST(Buffered, WhatMemoryHoldsOfALargeFileIsSeenWhereverItLies) {
  const TemporaryDirectory directory;
  DiskFile::Options options = options_of(directory / "image");
  options.size_bytes = 2 * kGiB + 8 * kMiB;
  options.cache = DiskFile::Cache::kBuffered;
  const auto opened = DiskFile::open(options);
  ASSERT_TRUE(opened.ok()) << opened.error().what;
  const DiskFile& file = *opened.value();
  if (lives_in_memory(file)) GTEST_SKIP() << "a file system that lives in memory forgets nothing";
  const Bytes data = pattern(4 * kKiB, 5);
  for (const uint64_t at : {4 * kKiB, 1 * kGiB + 4 * kKiB, 2 * kGiB + 4 * kKiB}) {
    ASSERT_TRUE(file.forget_cache());
    EXPECT_TRUE(nothing_is_cached(file.fd(), file.size_bytes(), false)) << at;
    ASSERT_EQ(file.write(at, data.data(), data.size()), 0);
    EXPECT_FALSE(nothing_is_cached(file.fd(), file.size_bytes(), false)) << at;
  }
}

// No read of this process finds it, but the next one compares with the disk what is there.
TEST(Direct, WhatAnEarlierBufferedProcessLeftInMemoryIsForgotten) {
  const TemporaryDirectory directory;
  DiskFile::Options options = options_of(directory / "image");
  options.exclusive = false;  // there are two of it
  const auto direct = DiskFile::open(options);
  options.cache = DiskFile::Cache::kBuffered;
  const auto buffered = DiskFile::open(options);
  ASSERT_TRUE(direct.ok()) << direct.error().what;
  ASSERT_TRUE(buffered.ok()) << buffered.error().what;
  const DiskFile& file = *direct.value();
  if (lives_in_memory(file)) GTEST_SKIP() << "a file system that lives in memory forgets nothing";
  const Bytes data = pattern(64 * kKiB, 4);
  ASSERT_EQ(buffered.value()->write(0, data.data(), data.size()), 0);
  EXPECT_FALSE(nothing_is_cached(file.fd(), file.size_bytes()));
  EXPECT_TRUE(file.forget_cache());
  EXPECT_TRUE(nothing_is_cached(file.fd(), file.size_bytes()));
}

// A node's memory is locked: what a burst has needed would be lost to the host for good.
TEST(Direct, WhatABurstHasNeededIsGivenBack) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer's memory is not counted by the C library";
#endif
  AlignedBuffers buffers;
  const size_t before_bytes = allocated_bytes();
  constexpr size_t kBurst = 64;
  std::vector<std::byte*> taken(kBurst);
  for (std::byte*& each : taken) each = buffers.take(AlignedBuffers::kBytesMax);
  EXPECT_GE(allocated_bytes(), before_bytes + kBurst * AlignedBuffers::kBytesMax) << "it is not seen here";
  for (std::byte* each : taken) buffers.give_back(each, AlignedBuffers::kBytesMax);
  EXPECT_LE(allocated_bytes(), before_bytes + 2 * AlignedBuffers::kKeptBytes);
}

TEST(Direct, WhereTheKernelRefusesItTheErrorSaysWhatToDo) {
  const int fd = ::open("/proc/self/comm", O_RDWR | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  const auto made = make_direct(fd, "/some/image", false);
  ASSERT_FALSE(made.ok());
  EXPECT_NE(made.error().what.find("/some/image"), std::string::npos) << made.error().what;
  EXPECT_NE(made.error().action.find("backing_io = \"buffered\""), std::string::npos);
  EXPECT_EQ(::fcntl(fd, F_GETFL) & O_DIRECT, 0);
  ::close(fd);
}

// As it is while the kernel carries out what a killed process had handed over.
TEST(Direct, AFileThatIsInUseForAMomentIsWaitedFor) {
  const TemporaryDirectory directory;
  DiskFile::Options options = options_of(directory / "image");
  ASSERT_TRUE(DiskFile::open(options).ok());
  const int other = ::open(options.path.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_EQ(::flock(other, LOCK_EX), 0);
  options.cache = DiskFile::Cache::kBuffered;
  const auto refused = DiskFile::open(options);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, EBUSY);
  std::thread ends([other] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    ::close(other);
  });
  options.cache = DiskFile::Cache::kDirect;
  const auto opened = DiskFile::open(options);
  EXPECT_TRUE(opened.ok());
  ends.join();
}

}  // namespace
}  // namespace twinblock
