// DiskFile on a real block device: a loop device over a temporary file.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/units.h"
#include "io/posix/descriptor.h"
#include "io/posix/disk_file.h"
#include "io/posix/files.h"
#include "loop_device.h"
#include "pattern.h"
#include "temporary_directory.h"

namespace twinblock {
namespace {

// A file of 8 MiB that is still to be made, for a loop device.
DiskFile::Options image_in(const TemporaryDirectory& directory) {
  DiskFile::Options options;
  options.path = directory / "image";
  options.size_bytes = 8 * kMiB;
  options.create = true;
  return options;
}

class PosixDiskDeviceTest : public ::testing::TestWithParam<DiskFile::Cache> {};

TEST_P(PosixDiskDeviceTest, a_block_device_is_zeroed_exactly_where_asked) {
  const TemporaryDirectory directory;
  DiskFile::Options options = image_in(directory);
  ASSERT_TRUE(DiskFile::open(options).ok());
  const LoopDevice device(options.path);
  if (device.path().empty()) GTEST_SKIP() << "no loop device to be had here";
  options.path = device.path();
  options.cache = GetParam();
  const auto opened = DiskFile::open(options);
  ASSERT_TRUE(opened.ok()) << opened.error().what;
  DiskFile& file = *opened.value();
  EXPECT_EQ(file.size_bytes(), 8 * kMiB);
  EXPECT_TRUE(file.fast_zero());
  for (const bool may_unmap : {false, true}) {
    for (const uint64_t offset : {0ul, 512ul, 777ul, 4096ul, 1048576ul}) {
      for (const uint64_t length : {512ul, 5000ul, 65536ul, 70000ul, 100001ul, 2097152ul}) {
        Bytes expected = pattern(4 * kMiB, 0);
        ASSERT_EQ(file.write(0, expected.data(), expected.size()), 0);
        ASSERT_EQ(file.zero(offset, length, may_unmap), 0);
        std::memset(expected.data() + offset, 0, length);
        Bytes content(expected.size());
        ASSERT_EQ(file.read(0, content.data(), content.size()), 0);
        ASSERT_EQ(content, expected) << length << " at " << offset;
      }
    }
  }
  EXPECT_EQ(file.flush_handle().value()->flush(), 0);
  bool hole = true;
  uint64_t length = 0;
  EXPECT_EQ(file.extent(0, 1 * kMiB, hole, length), 0);
  EXPECT_FALSE(hole);
  options.cache = DiskFile::Cache::kBuffered;  // which does not wait for it for long
  const auto second = DiskFile::open(options);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code, EBUSY);
  options.exclusive = false;
  options.size_bytes = 1 * kGiB;
  const auto larger = DiskFile::open(options);
  ASSERT_FALSE(larger.ok());
  EXPECT_NE(larger.error().action.find("enlarge the device"), std::string::npos);
}

// A mount and a volume group hold a device so, and lock nothing.
TEST(PosixDiskDevice, a_device_that_something_else_has_claimed_is_left_alone) {
  const TemporaryDirectory directory;
  DiskFile::Options options = image_in(directory);
  ASSERT_TRUE(DiskFile::open(options).ok());
  const LoopDevice device(options.path);
  if (device.path().empty()) GTEST_SKIP() << "no loop device to be had here";
  options.path = device.path();
  options.create = false;
  {
    const Descriptor claimed(::open(device.path().c_str(), O_RDONLY | O_EXCL | O_CLOEXEC));
    ASSERT_TRUE(claimed.open());
    const auto refused = DiskFile::open(options);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, EBUSY) << refused.error().what;
  }
  EXPECT_TRUE(DiskFile::open(options).ok());
}

// As udev does each time that a process which could write to it has closed it.
TEST(PosixDiskDevice, a_device_that_is_locked_for_a_moment_is_waited_for) {
  const TemporaryDirectory directory;
  DiskFile::Options options = image_in(directory);
  ASSERT_TRUE(DiskFile::open(options).ok());
  const LoopDevice device(options.path);
  if (device.path().empty()) GTEST_SKIP() << "no loop device to be had here";
  options.path = device.path();
  options.create = false;
  std::optional<Descriptor> other(std::in_place, ::open(device.path().c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_EQ(::flock(other->get(), LOCK_SH), 0);
  std::thread ends([&other] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    other.reset();
  });
  const auto opened = DiskFile::open(options);
  ends.join();
  EXPECT_TRUE(opened.ok()) << opened.error().what;
}

// What memory held of a device is gone with it: a disk that was pulled out and put back, say.
TEST(PosixDiskDevice, a_device_that_is_attached_anew_is_told_from_the_one_before) {
  const TemporaryDirectory directory;
  DiskFile::Options options = image_in(directory);
  uint64_t of_the_file = 0;
  const auto number = [&options] {
    const auto opened = DiskFile::open(options);
    return opened.ok() ? opened.value()->memory_number() : 0;
  };
  ASSERT_NE(of_the_file = number(), 0u);
  EXPECT_EQ(number(), of_the_file);
  DiskFile::Options on_device = options;
  uint64_t before = 0;
  for (const bool anew : {false, true}) {
    const LoopDevice device(options.path);
    if (device.path().empty()) GTEST_SKIP() << "no loop device to be had here";
    on_device.path = device.path();
    on_device.create = false;
    std::swap(options, on_device);
    const uint64_t now = number();
    EXPECT_NE(now, 0u);
    EXPECT_EQ(number(), now);
    if (anew) {
      EXPECT_NE(now, before);
    }
    before = now;
    std::swap(options, on_device);
  }
  EXPECT_EQ(number(), of_the_file);
}

constexpr const char* kBootId = "/proc/sys/kernel/random/boot_id";

// What memory_number() is where the kernel says that about this boot; nothing where a process can't be shown that.
std::optional<uint64_t> number_in_boot(const TemporaryDirectory& directory, int fd, const std::string& boot_id) {
  const std::string told = directory / "boot_id";
  std::ofstream(told) << boot_id;
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0) return std::nullopt;
  const pid_t child = ::fork();
  if (child == 0) {
    // Mounts of its own, which end with it.
    if (::unshare(CLONE_NEWNS) != 0 || ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount(told.c_str(), kBootId, nullptr, MS_BIND, nullptr) != 0)
      ::_exit(1);
    const uint64_t number = memory_number(fd);
    ::_exit(::write(ends[1], &number, sizeof number) == sizeof number ? 0 : 1);
  }
  ::close(ends[1]);
  uint64_t number = 0;
  const bool whole = ::read(ends[0], &number, sizeof number) == sizeof number;
  ::close(ends[0]);
  int status = 0;
  const bool ended = ::waitpid(child, &status, 0) == child && status == 0;
  return whole && ended ? std::optional(number) : std::nullopt;
}

// The same device has the same number in the next boot, and nothing of what memory held.
TEST(PosixDiskDevice, what_memory_held_ends_with_the_boot) {
  const TemporaryDirectory directory;
  const Descriptor file(::open((directory / "image").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_TRUE(file.open());
  std::ifstream boot_id_file(kBootId);
  const std::string boot_id{std::istreambuf_iterator<char>(boot_id_file), {}};
  const uint64_t now = memory_number(file.get());
  EXPECT_NE(now, 0u);
  const auto same = number_in_boot(directory, file.get(), boot_id);
  if (!same) GTEST_SKIP() << "a process can't have mounts of its own here";
  EXPECT_EQ(*same, now);
  const auto other = number_in_boot(directory, file.get(), "6f1c9a52-08d3-4be7-91c4-d2a7305e8b16\n");
  ASSERT_TRUE(other);
  EXPECT_NE(*other, now);
  EXPECT_NE(*other, 0u);
  for (const char* text : {"", "6f1c9a52-08d3\n", "no number of a boot\n"})
    EXPECT_EQ(number_in_boot(directory, file.get(), text), 0u) << text;
}

INSTANTIATE_TEST_SUITE_P(Ways, PosixDiskDeviceTest,
                         ::testing::Values(DiskFile::Cache::kBuffered, DiskFile::Cache::kDirect));

}  // namespace
}  // namespace twinblock
