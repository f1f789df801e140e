// What memory holds of a file or device, and the disk does not: it is found at a start, wherever it lies; and a disk that
// is slow, or does not answer, does not hold the start up.
#include "io/posix/memory_look.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "base/units.h"
#include "io/posix/page_cache.h"
#include "loop_device.h"
#include "pattern.h"

namespace twinblock {
namespace {

// The disk of a busy machine may take its time.
constexpr LookPatience kPatient{600 * kSecond_ns, 600 * kSecond_ns};

// A read that comes to nothing, in the end; that end also comes to who waits for it in vain.
ssize_t hang(const std::atomic<bool>& goes_on) {
  for (int ms = 0; ms < 60'000 && !goes_on; ++ms) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  errno = EIO;
  return -1;
}

// What happens when the disk itself is read; the other reads of this program are as they are. A look that was given up may
// still be in the last one when the test sets the next: hence the lock.
class DirectRead {
 public:
  using Call = std::function<ssize_t(void* into, size_t bytes, off_t offset)>;
  DirectRead& operator=(Call call) {
    auto made = call ? std::make_shared<Call>(std::move(call)) : nullptr;
    const std::lock_guard lock(mutex_);
    call_.swap(made);
    return *this;
  }
  std::shared_ptr<Call> get() {
    const std::lock_guard lock(mutex_);
    return call_;
  }

 private:
  std::mutex mutex_;
  std::shared_ptr<Call> call_;
};
DirectRead direct_read;
std::atomic<int> direct_reads{0};
std::atomic<int> write_back_errno{0};  // what became of what was still to be written, of which nobody was told

}  // namespace
}  // namespace twinblock

// Stands before that of the C library.
extern "C" ssize_t pread(int fd, void* into, size_t bytes, off_t offset) {
  const bool direct = (::fcntl(fd, F_GETFL) & O_DIRECT) != 0;
  if (direct) ++twinblock::direct_reads;
  if (direct)
    if (const auto call = twinblock::direct_read.get()) return (*call)(into, bytes, offset);
  return static_cast<ssize_t>(::syscall(SYS_pread64, fd, into, bytes, offset));
}

extern "C" int sync_file_range(int fd, off64_t offset, off64_t bytes, unsigned flags) {
  if (const int error = twinblock::write_back_errno; error != 0) {
    errno = error;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_sync_file_range, fd, offset, bytes, flags));
}

namespace twinblock {
namespace {

constexpr uint64_t kSize = 8 * kMiB;

// A file on a file system that has a disk.
class MemoryLooks : public ::testing::Test {
 protected:
  MemoryLooks() {
    std::string name = "/var/tmp/twinblock.XXXXXX";
    directory_ = ::mkdtemp(name.data());
    path_ = directory_ + "/image";
    const int fd = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    const Bytes data = pattern(kSize, 1);
    EXPECT_EQ(::pwrite(fd, data.data(), data.size(), 0), static_cast<ssize_t>(data.size()));
    EXPECT_EQ(::fsync(fd), 0);
    const int direct = ::open(path_.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC);
    has_direct_ = direct >= 0;
    ::close(direct);
    fd_ = fd;
  }
  ~MemoryLooks() override {
    wait_for_threads();
    direct_read = nullptr;
    direct_reads = write_back_errno = 0;
    ::close(fd_);
    std::filesystem::remove_all(directory_);
  }
  // A look that was given up lives on until the disk has answered.
  static void wait_for_threads() {
    // By their name: sanitizers have threads of their own.
    const auto looks = [] {
      const auto is_look = [](const auto& task) {
        std::string name;
        std::ifstream(task.path() / "comm") >> name;
        return name == "twinblock-look";
      };
      return std::ranges::any_of(std::filesystem::directory_iterator("/proc/self/task"), is_look);
    };
    while (looks()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  void forget() const {
    ASSERT_EQ(::posix_fadvise(fd_, 0, 0, POSIX_FADV_DONTNEED), 0);
    ASSERT_TRUE(nothing_is_cached(fd_, kSize));
  }
  void remember(uint64_t offset_bytes, uint64_t length_bytes) const {
    Bytes into(length_bytes);
    ASSERT_EQ(::syscall(SYS_pread64, fd_, into.data(), into.size(), offset_bytes), static_cast<ssize_t>(length_bytes));
  }
  std::string directory_, path_;
  bool has_direct_ = false;
  int fd_ = -1;
};

TEST_F(MemoryLooks, WhatIsOnTheDiskAsWellIsHonest) {
  if (!has_direct_) GTEST_SKIP() << "no direct I/O in /var/tmp";
  const MemoryLook look = look_at_memory(path_, {{0, kSize}}, kPatient);
  EXPECT_EQ(look.found, MemoryFound::kHonest);
  EXPECT_GT(direct_reads, 1);
}

TEST_F(MemoryLooks, WhatIsStillToBeWrittenIsWrittenFirst) {
  if (!has_direct_) GTEST_SKIP() << "no direct I/O in /var/tmp";
  const Bytes data = pattern(64 * kKiB, 2);
  ASSERT_EQ(::pwrite(fd_, data.data(), data.size(), kMiB), static_cast<ssize_t>(data.size()));
  EXPECT_EQ(look_at_memory(path_, {{0, kSize}}, kPatient).found, MemoryFound::kHonest);
}

TEST_F(MemoryLooks, OfWhatIsNotInMemoryNothingIsReadAndNothingComesThere) {
  if (!has_direct_) GTEST_SKIP() << "no direct I/O in /var/tmp";
  forget();
  EXPECT_EQ(look_at_memory(path_, {{0, kSize}}, kPatient).found, MemoryFound::kHonest);
  EXPECT_EQ(direct_reads, 0) << "it may be long in answering, and that would mean nothing";
  EXPECT_TRUE(nothing_is_cached(fd_, kSize));
}

TEST_F(MemoryLooks, APageThatTheDiskDoesNotHoldIsFoundWhereverItLies) {
  if (!has_direct_) GTEST_SKIP() << "no direct I/O in /var/tmp";
  for (const uint64_t at : {uint64_t{0}, 3 * kMiB - 4 * kKiB, kSize - 1}) {
    direct_read = [at, fd = fd_](void* into, size_t bytes, off_t offset) {
      const auto got = ::syscall(SYS_pread64, fd, into, bytes, offset);
      const uint64_t begin = static_cast<uint64_t>(offset);
      if (begin <= at && at < begin + bytes) static_cast<char*>(into)[at - begin] ^= 1;
      return static_cast<ssize_t>(got);
    };
    const MemoryLook look = look_at_memory(path_, {{4 * kMiB, 4 * kMiB}, {0, 4 * kMiB}}, kPatient);
    EXPECT_EQ(look.found, MemoryFound::kDeceives) << at;
    EXPECT_EQ(look.at_bytes / kMiB, at / kMiB);
    EXPECT_EQ(look.error, 0);
  }
}

TEST_F(MemoryLooks, WhatTheDiskCanNotReadIsNotBelieved) {
  if (!has_direct_) GTEST_SKIP() << "no direct I/O in /var/tmp";
  direct_read = [](void*, size_t, off_t) {
    errno = EIO;
    return ssize_t{-1};
  };
  const MemoryLook look = look_at_memory(path_, {{0, kSize}}, kPatient);
  EXPECT_EQ(look.found, MemoryFound::kDeceives);
  EXPECT_EQ(look.error, EIO);
}

// A process that was killed was told nothing of it, and what it was about has left memory: nothing differs any more.
TEST_F(MemoryLooks, AWriteBackThatFailedIsFoundThoughNothingIsLeftOfIt) {
  if (!has_direct_) GTEST_SKIP() << "no direct I/O in /var/tmp";
  forget();
  write_back_errno = EIO;
  const MemoryLook look = look_at_memory(path_, {{0, kSize}}, kPatient);
  EXPECT_EQ(look.found, MemoryFound::kDeceives);
  EXPECT_EQ(look.error, EIO);
}

// However far the place lies from where the range begins: of a large volume almost all is one range.
TEST_F(MemoryLooks, APageInALongRangeIsFound) {
  if (!has_direct_) GTEST_SKIP() << "no direct I/O in /var/tmp";
  constexpr uint64_t kLong = 2 * kGiB + kSize;
  ASSERT_EQ(::ftruncate(fd_, kLong), 0);
  for (const uint64_t at : {kGiB + 4 * kKiB, kLong - 4 * kKiB}) {
    forget();
    remember(at, 4 * kKiB);
    direct_read = [at, fd = fd_](void* into, size_t bytes, off_t offset) {
      const auto got = ::syscall(SYS_pread64, fd, into, bytes, offset);
      const uint64_t begin = static_cast<uint64_t>(offset);
      if (begin <= at && at < begin + bytes) static_cast<char*>(into)[at - begin] ^= 1;
      return static_cast<ssize_t>(got);
    };
    const MemoryLook look = look_at_memory(path_, {{0, kLong}}, kPatient);
    EXPECT_EQ(look.found, MemoryFound::kDeceives) << at;
    EXPECT_EQ(look.at_bytes / kMiB, at / kMiB);
  }
}

TEST_F(MemoryLooks, AFileSystemWithoutDirectReadsTellsNothing) {
  direct_read = [](void*, size_t, off_t) {
    errno = EINVAL;
    return ssize_t{-1};
  };
  EXPECT_EQ(look_at_memory(path_, {{0, kSize}}, kPatient).found, MemoryFound::kUntold);
  EXPECT_EQ(look_at_memory(directory_ + "/missing", {{0, kSize}}).found, MemoryFound::kUntold);
}

TEST_F(MemoryLooks, ADiskThatDoesNotAnswerIsNotWaitedFor) {
  if (!has_direct_) GTEST_SKIP() << "no direct I/O in /var/tmp";
  std::atomic<bool> goes_on{false};
  direct_read = [&goes_on, fd = fd_, first = true](void* into, size_t bytes, off_t offset) mutable {
    if (std::exchange(first, false)) return static_cast<ssize_t>(::syscall(SYS_pread64, fd, into, bytes, offset));
    return hang(goes_on);
  };
  const MemoryLook look = look_at_memory(path_, {{0, kSize}}, {5 * kSecond_ns, 200 * kMillisecond_ns});
  EXPECT_EQ(look.found, MemoryFound::kHangs);
  goes_on = true;
  wait_for_threads();
}

// That is known later than a good disk is left.
TEST_F(MemoryLooks, ADiskThatMayHangIsGivenTheTimeToShowIt) {
  if (!has_direct_) GTEST_SKIP() << "no direct I/O in /var/tmp";
  std::atomic<bool> goes_on{false};
  direct_read = [&goes_on](void*, size_t, off_t) {
    return hang(goes_on);
  };
  const MemoryLook look = look_at_memory(path_, {{0, kSize}}, {3 * kSecond_ns, 4 * kSecond_ns});
  EXPECT_EQ(look.found, MemoryFound::kHangs);
  goes_on = true;
  wait_for_threads();
}

TEST_F(MemoryLooks, ASlowDiskIsLookedAtForSoLongAndNoLonger) {
  if (!has_direct_) GTEST_SKIP() << "no direct I/O in /var/tmp";
  direct_read = [fd = fd_](void* into, size_t bytes, off_t offset) {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    return static_cast<ssize_t>(::syscall(SYS_pread64, fd, into, bytes, offset));
  };
  const MemoryLook look = look_at_memory(path_, {{0, kSize}}, {300 * kMillisecond_ns, 3600 * kSecond_ns});
  EXPECT_EQ(look.found, MemoryFound::kCutOff);
  EXPECT_LT(look.at_bytes, kSize);
}

// The real thing: what lies below a device is not what the kernel holds of that device.
TEST_F(MemoryLooks, APageOfADeviceThatItDoesNotHoldIsFound) {
  const LoopDevice device(path_);
  if (device.path().empty()) GTEST_SKIP() << "no loop device to be had here";
  const int fd = ::open(device.path().c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  ASSERT_EQ(::posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM), 0);
  Bytes block(4 * kKiB);
  ASSERT_EQ(::syscall(SYS_pread64, fd, block.data(), block.size(), 5 * kMiB), static_cast<ssize_t>(block.size()));
  EXPECT_EQ(look_at_memory(device.path(), {{0, kSize}}, kPatient).found, MemoryFound::kHonest);
  const char byte = 'x';
  ASSERT_EQ(::pwrite(fd_, &byte, 1, 6 * kMiB), 1);
  EXPECT_EQ(look_at_memory(device.path(), {{0, kSize}}, kPatient).found, MemoryFound::kHonest) << "it is not in memory";
  ASSERT_EQ(::pwrite(fd_, &byte, 1, 5 * kMiB + 100), 1);
  const MemoryLook look = look_at_memory(device.path(), {{0, kSize}}, kPatient);
  EXPECT_EQ(look.found, MemoryFound::kDeceives);
  EXPECT_EQ(look.at_bytes, 5 * kMiB);
  EXPECT_EQ(look.error, 0);
  ::close(fd);
}

}  // namespace
}  // namespace twinblock
