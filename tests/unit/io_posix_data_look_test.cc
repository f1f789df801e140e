// Whether a backing holds data: the three answers, of files and of a real block device.
#include "io/posix/data_look.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/limits.h"
#include "base/units.h"
#include "io/posix/file_holes.h"
#include "io/posix/loop.h"
#include "io/posix/posix_disk.h"
#include "loop_device.h"
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

}  // namespace
}  // namespace twinblock

// Stands before that of the C library.
extern "C" ssize_t pread(int fd, void* into, size_t bytes, off_t offset) {
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

  const TemporaryDirectory directory_;
};

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
