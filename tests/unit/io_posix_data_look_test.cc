// Whether a backing holds data: the three answers, of files and of a real block device. And what a file is believed of
// which the kernel says little: one on a file system that not much is known of, or whose reads it interrupts.
#include "io/posix/data_look.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "base/limits.h"
#include "base/units.h"
#include "io/posix/file_holes.h"
#include "io/posix/files.h"
#include "io/posix/loop.h"
#include "io/posix/page_cache.h"
#include "io/posix/posix_disk.h"
#include "loop_device.h"
#include "pattern.h"
#include "temporary_directory.h"

namespace twinblock {
namespace {

// What this program's own pread() can't read, of any file, while one of these lives.
class BadPlace {
 public:
  BadPlace(uint64_t begin_bytes, uint64_t end_bytes) : begin_bytes_(begin_bytes), end_bytes_(end_bytes) { bad_ = this; }
  ~BadPlace() { bad_ = nullptr; }
  BadPlace(const BadPlace&) = delete;
  BadPlace& operator=(const BadPlace&) = delete;
  static bool reaches_into(uint64_t offset_bytes, uint64_t length_bytes) {
    return bad_ != nullptr && offset_bytes < bad_->end_bytes_ && bad_->begin_bytes_ < offset_bytes + length_bytes;
  }

 private:
  static inline const BadPlace* bad_ = nullptr;
  const uint64_t begin_bytes_;
  const uint64_t end_bytes_;
};

// Each pread() is interrupted once before it is carried out, while one of these lives.
class Interruptions {
 public:
  Interruptions() { count_ = 0; }
  ~Interruptions() { count_ = -1; }
  Interruptions(const Interruptions&) = delete;
  Interruptions& operator=(const Interruptions&) = delete;
  static bool next() { return count_ >= 0 && count_++ % 2 == 0; }
  static int count() { return count_; }

 private:
  static inline int count_ = -1;
};

// What fstatfs() says of any file, while one of these lives.
class FileSystem {
 public:
  explicit FileSystem(uint32_t type) { type_ = type; }
  ~FileSystem() { type_ = 0; }
  FileSystem(const FileSystem&) = delete;
  FileSystem& operator=(const FileSystem&) = delete;
  static uint32_t type() { return type_; }

 private:
  static inline uint32_t type_ = 0;
};
constexpr uint32_t kExt4 = 0xEF53, kFuse = 0x65735546, kF2fs = 0xF2F52010;

}  // namespace
}  // namespace twinblock

// These stand before those of the C library.
extern "C" int fstatfs(int fd, struct statfs* into) noexcept {
  const auto result = static_cast<int>(::syscall(SYS_fstatfs, fd, into));
  if (twinblock::FileSystem::type() != 0) into->f_type = twinblock::FileSystem::type();
  return result;
}

extern "C" ssize_t pread(int fd, void* into, size_t bytes, off_t offset) {
  if (twinblock::Interruptions::next()) {
    errno = EINTR;
    return -1;
  }
  if (!twinblock::BadPlace::reaches_into(static_cast<uint64_t>(offset), bytes))
    return static_cast<ssize_t>(::syscall(SYS_pread64, fd, into, bytes, offset));
  errno = EIO;
  return -1;
}

namespace twinblock {
namespace {

// What is called a hole there may be written already.
TEST(FileHoles, some_file_systems_do_not_know_theirs) {
  for (const uint64_t told : {0xEF53u, 0x58465342u, 0x9123683Eu, 0x01021994u, 0x6969u, 0x794c7630u})
    EXPECT_TRUE(holes_are_told(told)) << std::hex << told;  // ext4, XFS, Btrfs, tmpfs, NFS, overlayfs
  for (const uint64_t silent : {0x65735546u, 0x2fc12fc1u})
    EXPECT_FALSE(holes_are_told(silent)) << std::hex << silent;  // FUSE, ZFS
}

class DataLook : public ::testing::Test {
 protected:
  std::string image(uint64_t size_bytes) {
    const std::string path = directory_ / "image";
    std::ofstream(path).flush();
    EXPECT_EQ(::truncate(path.c_str(), static_cast<off_t>(size_bytes)), 0);
    return path;
  }
  static void put(const std::string& path, uint64_t offset_bytes, char byte) {
    const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
    ASSERT_GE(fd, 0);
    EXPECT_EQ(::pwrite(fd, &byte, 1, static_cast<off_t>(offset_bytes)), 1);
    EXPECT_EQ(::fsync(fd), 0);
    ::close(fd);
  }

  static std::unique_ptr<DiskFile> open(const std::string& path, DiskFile::Cache cache = DiskFile::Cache::kBuffered) {
    DiskFile::Options options;
    options.path = path;
    options.cache = cache;
    options.exclusive = false;  // there are several of one file
    auto opened = DiskFile::open(options);
    EXPECT_TRUE(opened.ok() || cache == DiskFile::Cache::kDirect);
    return opened.ok() ? std::move(opened.value()) : nullptr;
  }

  static uint64_t cached_bytes(int fd, uint64_t size_bytes) {
    uint64_t cached_bytes = 0;
    EXPECT_TRUE(for_cached_runs(fd, 0, size_bytes, [&](uint64_t, uint64_t length_bytes) {
      cached_bytes += length_bytes;
      return true;
    }));
    return cached_bytes;
  }

  const TemporaryDirectory directory_;
};

// What is a hole by its word may be written, and not be on its way yet.
TEST_F(DataLook, where_holes_are_not_known_all_is_data) {
  const std::string path = image(1 * kMiB);
  for (const uint32_t type : {kExt4, kFuse}) {
    const FileSystem system(type);
    bool hole = false;
    uint64_t length_bytes = 0;
    ASSERT_EQ(open(path)->extent(0, 1 * kMiB, hole, length_bytes), 0);
    EXPECT_EQ(hole, type == kExt4);
    EXPECT_EQ(length_bytes, 1 * kMiB);
    // With no time for more than the beginning.
    EXPECT_EQ(look_for_data(path, 0).value(), type == kExt4 ? DataFound::kNone : DataFound::kUnknown);
  }
}

// Elsewhere one of two flushes may say that all is well, though blocks are lost.
TEST_F(DataLook, a_file_is_flushed_side_by_side_only_where_its_file_system_is_known_for_it) {
  const std::string path = image(1 * kMiB);
  for (const uint32_t type : {kExt4, kF2fs}) {
    const FileSystem system(type);
    EXPECT_EQ(open(path)->another_flush_handle() != nullptr, type == kExt4);
  }
}

TEST_F(DataLook, a_read_that_is_interrupted_is_made_again) {
  const std::string path = image(1 * kMiB);
  const Bytes data = pattern(64 * kKiB, 1);
  std::ofstream(path, std::ios::in | std::ios::out).write(reinterpret_cast<const char*>(data.data()), 64 * kKiB);
  const auto buffered = open(path), direct = open(path, DiskFile::Cache::kDirect);
  const auto reader = FileReader::open(path);
  ASSERT_TRUE(reader.ok());
  const Interruptions interruptions;
  Bytes read(10'000);
  const auto expect_read = [&](uint64_t offset_bytes) {
    EXPECT_TRUE(std::equal(read.begin(), read.end(), data.begin() + static_cast<std::ptrdiff_t>(offset_bytes)));
    std::ranges::fill(read, std::byte{});
  };
  EXPECT_EQ(buffered->read(4096, read.data(), read.size()), 0);
  expect_read(4096);
  EXPECT_TRUE(reader.value()->read_at(8192, read).ok());
  expect_read(8192);
  EXPECT_EQ(Interruptions::count(), 4);
  if (direct == nullptr) GTEST_SKIP() << "no direct I/O on this file system";
  // Parts of blocks.
  EXPECT_EQ(direct->read(777, read.data(), read.size()), 0);
  expect_read(777);
  EXPECT_EQ(direct->write(100, data.data(), 50), 0);
  EXPECT_EQ(buffered->read(0, read.data(), read.size()), 0);
  EXPECT_TRUE(std::equal(data.begin(), data.begin() + 50, read.begin() + 100)) << "it is written";
  EXPECT_TRUE(std::equal(data.begin(), data.begin() + 100, read.begin())) << "and the rest of its block is as it was";
}

// What would be written in its place is whatever the memory held: bytes of another block, acknowledged as this one's.
TEST_F(DataLook, a_block_that_can_t_be_read_is_not_written_in_part) {
  const std::string path = image(1 * kMiB);
  const Bytes old = pattern(12 * kKiB, 1);
  std::ofstream(path, std::ios::in | std::ios::out).write(reinterpret_cast<const char*>(old.data()), 12 * kKiB);
  const auto direct = open(path, DiskFile::Cache::kDirect);
  if (direct == nullptr) GTEST_SKIP() << "no direct I/O on this file system";
  // Parts of the first and of the last block.
  const Bytes data = pattern(8 * kKiB, 2);
  for (const uint64_t offset_bytes : {uint64_t{0}, 8 * kKiB}) {
    const BadPlace bad(offset_bytes, offset_bytes + 4 * kKiB);
    EXPECT_EQ(direct->write(100, data.data(), data.size()), EIO) << "at " << offset_bytes;
  }
  Bytes now(old.size());
  ASSERT_EQ(direct->read(0, now.data(), now.size()), 0);
  EXPECT_TRUE(now == old) << "something was written all the same";
  EXPECT_EQ(direct->write(100, data.data(), data.size()), 0) << "once it can be read";
}

TEST_F(DataLook, a_file_holds_data_where_any_were_written) {
  EXPECT_EQ(look_for_data(directory_ / "none").value(), DataFound::kNone);
  const std::string path = image(16 * kMiB);
  EXPECT_EQ(look_for_data(path).value(), DataFound::kNone);
  EXPECT_EQ(look_for_data(path, 0).value(), DataFound::kNone) << "that takes no time";
  put(path, 15 * kMiB, 1);
  EXPECT_EQ(look_for_data(path).value(), DataFound::kSome);
}

TEST_F(DataLook, links_are_followed) {
  const std::string path = image(1 * kMiB);
  std::filesystem::create_symlink(path, directory_ / "link");
  EXPECT_EQ(look_for_data(directory_ / "link").value(), DataFound::kNone);
  put(path, 5, 1);
  EXPECT_EQ(look_for_data(directory_ / "link").value(), DataFound::kSome);
}

TEST_F(DataLook, what_can_t_be_read_is_an_error) {
  const auto looked = look_for_data(directory_ / "");
  ASSERT_FALSE(looked.ok());
  EXPECT_EQ(looked.error().code, EISDIR);
}

TEST_F(DataLook, a_device_is_looked_at_to_its_end) {
  const LoopDevice device(image(40 * kMiB + 512));
  if (device.path().empty()) GTEST_SKIP() << "no loop device to be had here";
  EXPECT_EQ(look_for_data(device.path()).value(), DataFound::kNone);
  for (const uint64_t offset :
       {uint64_t{0}, 1 * kMiB - 1, 1 * kMiB, 2 * kMiB, 17 * kMiB + 5, 39 * kMiB, 40 * kMiB + 511}) {
    put(device.path(), offset, 1);
    EXPECT_EQ(look_for_data(device.path()).value(), DataFound::kSome) << "at " << offset;
    put(device.path(), offset, 0);
  }
  EXPECT_EQ(look_for_data(device.path()).value(), DataFound::kNone) << "zeroes are no data";
}

// Data may lie just there.
TEST_F(DataLook, a_device_that_can_t_be_read_everywhere_is_not_proven_empty) {
  const LoopDevice device(image(40 * kMiB));
  if (device.path().empty()) GTEST_SKIP() << "no loop device to be had here";
  {
    const BadPlace bad(17 * kMiB, 17 * kMiB + 4 * kKiB);
    EXPECT_EQ(look_for_data(device.path()).value(), DataFound::kUnknown);
    for (const uint64_t offset : {17 * kMiB - 1, 18 * kMiB, 25 * kMiB + 5, 39 * kMiB}) {
      put(device.path(), offset, 1);
      EXPECT_EQ(look_for_data(device.path()).value(), DataFound::kSome) << "at " << offset;
      put(device.path(), offset, 0);
    }
  }
  EXPECT_EQ(look_for_data(device.path()).value(), DataFound::kNone) << "read again, all of it";
}

// Each of them may take a disk seconds.
TEST_F(DataLook, a_device_with_many_bad_places_is_not_looked_at_to_its_end) {
  const LoopDevice device(image(40 * kMiB));
  if (device.path().empty()) GTEST_SKIP() << "no loop device to be had here";
  {
    const BadPlace bad(1 * kMiB, (1 + limits::kBadPlacesMax) * kMiB);
    EXPECT_EQ(look_for_data(device.path()).value(), DataFound::kUnknown);
  }
  put(device.path(), 38 * kMiB + 777, 1);
  {
    const BadPlace bad(1 * kMiB, 38 * kMiB);
    EXPECT_EQ(look_for_data(device.path()).value(), DataFound::kUnknown);
  }
  const BadPlace bad(0, 40 * kMiB);
  const auto looked = look_for_data(device.path());
  ASSERT_FALSE(looked.ok());
  EXPECT_EQ(looked.error().code, EIO);
}

TEST_F(DataLook, without_the_time_for_all_of_a_device_the_answer_is_not_known) {
  const LoopDevice device(image(40 * kMiB));
  if (device.path().empty()) GTEST_SKIP() << "no loop device to be had here";
  EXPECT_EQ(look_for_data(device.path(), 0).value(), DataFound::kUnknown);
  put(device.path(), 39 * kMiB, 1);
  EXPECT_EQ(look_for_data(device.path(), 0).value(), DataFound::kUnknown);
  put(device.path(), 5, 1);
  EXPECT_EQ(look_for_data(device.path(), 0).value(), DataFound::kSome) << "the beginning is always looked at";
}

// They may be what a failed flush did not get onto the disk: then nothing else tells of that.
TEST_F(DataLook, what_memory_holds_of_a_device_stays_there_where_it_is_to_be_compared_with_the_disk) {
  const LoopDevice device(image(40 * kMiB));
  if (device.path().empty()) GTEST_SKIP() << "no loop device to be had here";
  // With the last one who has it open all of it leaves memory.
  const std::unique_ptr<DiskFile> holder = open(device.path());
  ASSERT_NE(holder, nullptr);
  Bytes first(1 * kMiB);
  ASSERT_EQ(holder->read(0, first.data(), first.size()), 0);
  EXPECT_EQ(look_for_data(device.path(), limits::kSearch_ns, false).value(), DataFound::kNone);
  EXPECT_EQ(cached_bytes(holder->fd(), first.size()), first.size());
  const uint64_t kept_bytes = cached_bytes(holder->fd(), 40 * kMiB);
  EXPECT_EQ(look_for_data(device.path()).value(), DataFound::kNone);
  EXPECT_LT(cached_bytes(holder->fd(), 40 * kMiB), kept_bytes / 2) << "elsewhere they are for nobody";
}

// A node that is about to be filled asks: what can't be read may be data that somebody wants to keep.
TEST_F(DataLook, a_disk_that_can_t_be_read_is_not_known_to_be_empty) {
  const LoopDevice device(image(40 * kMiB));
  if (device.path().empty()) GTEST_SKIP() << "no loop device to be had here";
  Loop loop;
  PosixDisk::Options options;
  options.engine = PosixDisk::Engine::kThreads;
  options.file.path = device.path();
  options.file.size_bytes = 40 * kMiB;
  const auto disk = PosixDisk::open(loop, options);
  ASSERT_TRUE(disk.ok()) << disk.error().what;
  EXPECT_EQ(disk.value()->look_for_data(), DataFound::kNone);
  const BadPlace bad(0, 40 * kMiB);
  EXPECT_EQ(disk.value()->look_for_data(), DataFound::kUnknown);
}

}  // namespace
}  // namespace twinblock
