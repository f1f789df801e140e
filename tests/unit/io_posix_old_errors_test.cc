// A write-back that failed before this process began, and of which nobody was told: the kernel tells it to each open
// file description then, and it counts once. What fails later counts again.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/fs.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <fstream>
#include <memory>
#include <string>

#include "io/posix/memory_look.h"
#include "io/posix/posix_disk.h"
#include "io_posix_support.h"
#include "loop_device.h"
#include "pattern.h"

namespace twinblock {
namespace {

// How many write-backs have failed, where the kernel's part is played: each description is told of the last one, once.
// Which one that was is its position, which duplicates share, and which nothing here uses.
std::atomic<off_t> failures{0};
// One more fails when so many descriptions have been told of the one before; 0: none does.
std::atomic<int> fails_again_after{0};

int owed(int fd) {
  const off_t last = failures;
  if (last == 0 || ::lseek(fd, 0, SEEK_CUR) == last) return 0;
  ::lseek(fd, last, SEEK_SET);
  if (fails_again_after > 0 && --fails_again_after == 0) ++failures;
  errno = EIO;
  return -1;
}

}  // namespace
}  // namespace twinblock

// These stand before those of the C library.
extern "C" int fdatasync(int fd) {
  return twinblock::owed(fd) != 0 ? -1 : static_cast<int>(::syscall(SYS_fdatasync, fd));
}

extern "C" int sync_file_range(int fd, off64_t offset, off64_t bytes, unsigned flags) {
  return twinblock::owed(fd) != 0 ? -1 : static_cast<int>(::syscall(SYS_sync_file_range, fd, offset, bytes, flags));
}

namespace twinblock {
namespace {

constexpr uint64_t kSize = 8 * kMiB;
// Each description has its turn, and more than once.
constexpr size_t kFlushes = 3 * DiskFlusher::kParallelMax;

class OldErrors : public ::testing::Test {
 protected:
  ~OldErrors() override {
    loop_.stop();
    disk_.reset();
    failures = 0;
    fails_again_after = 0;
  }
  void open(const std::string& path, bool create) {
    PosixDisk::Options options;
    options.file.path = path;
    options.file.size_bytes = kSize;
    options.file.create = create;
    options.engine = PosixDisk::Engine::kThreads;
    auto opened = PosixDisk::open(*loop_, options);
    ASSERT_TRUE(opened.ok()) << opened.error().what;
    disk_ = std::move(opened.value());
  }
  int run(DiskOp op, uint64_t offset_bytes, Bytes data) {
    DiskRequest request;
    std::atomic<bool> finished{false};
    request.op = op;
    request.offset_bytes = offset_bytes;
    request.length_bytes = data.size();
    request.data = data.data();
    request.done = [&finished](DiskRequest&) { finished = true; };
    loop_.call([&] { disk_->submit(request); });
    EXPECT_TRUE(soon([&] { return finished.load(); }));
    return request.error;
  }
  int flush() { return run(DiskOp::kFlush, 0, {}); }
  void expect_good_flushes() {
    for (size_t n = 0; n < kFlushes; ++n) ASSERT_EQ(flush(), 0) << n;
  }

  const TemporaryDirectory directory_;
  RunningLoop loop_;
  std::unique_ptr<PosixDisk> disk_;
};

TEST_F(OldErrors, an_error_of_before_fails_no_flush_and_a_later_one_does) {
  failures = 1;
  ASSERT_NO_FATAL_FAILURE(open(directory_ / "disk", true));
  EXPECT_TRUE(disk_->forget_cache());
  loop_.start();
  expect_good_flushes();
  ++failures;
  EXPECT_EQ(flush(), EIO);
  EXPECT_EQ(flush(), EIO) << "it is final";
}

// It is no old one: what memory held and the disk did not take is not dropped as if it had.
TEST_F(OldErrors, an_error_that_comes_meanwhile_is_told) {
  failures = 1;
  ASSERT_NO_FATAL_FAILURE(open(directory_ / "disk", true));
  // When the first description has been told, and others perhaps have not.
  fails_again_after = 1;
  EXPECT_FALSE(disk_->forget_cache());
  EXPECT_EQ(failures, 2);
}

// A block device that can't take what is written to it: the file system of the file that it lies on has no room.
class FullDevice {
 public:
  explicit FullDevice(const std::string& directory) : directory_(directory) {
    // In a name space of this program's own, so that no mount stays where it is killed.
    if (::mkdir(directory.c_str(), 0700) != 0 || ::unshare(CLONE_NEWNS) != 0 ||
        ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("none", directory.c_str(), "tmpfs", 0, "size=1m") != 0)
      return;
    mounted_ = true;
    const std::string image = directory + "/image";
    std::ofstream(image).flush();
    if (::truncate(image.c_str(), kSize) != 0) return;
    std::ofstream(directory + "/rest") << std::string(2 * kMiB, 'x');
    device_ = std::make_unique<LoopDevice>(image);
  }
  ~FullDevice() {
    device_.reset();
    if (mounted_) ::umount2(directory_.c_str(), MNT_DETACH);
  }
  FullDevice(const FullDevice&) = delete;
  FullDevice& operator=(const FullDevice&) = delete;
  [[nodiscard]] std::string path() const { return device_ ? device_->path() : ""; }

 private:
  const std::string directory_;
  bool mounted_ = false;
  std::unique_ptr<LoopDevice> device_;
};

// The real thing.
TEST_F(OldErrors, of_a_device_that_did_not_take_what_a_killed_process_wrote) {
  const FullDevice device(directory_ / "full");
  if (device.path().empty()) GTEST_SKIP() << "no loop device over a file system of this program's own to be had here";
  const Bytes data = pattern(4 * kKiB, 1);
  const int fd = ::open(device.path().c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  ASSERT_EQ(::pwrite(fd, data.data(), data.size(), kSize / 2), static_cast<ssize_t>(data.size()));
  // It is written, and whoever wrote it is not told how that went.
  EXPECT_EQ(::ioctl(fd, BLKFLSBUF, 0), 0);
  ::close(fd);
  ASSERT_NO_FATAL_FAILURE(open(device.path(), false));
  const MemoryLook look = look_at_memory(device.path(), {{0, kSize}});
  ASSERT_EQ(look.found, MemoryFound::kDeceives) << "nobody else was told";
  EXPECT_EQ(look.error, EIO);
  EXPECT_TRUE(disk_->forget_cache());
  loop_.start();
  expect_good_flushes();
  EXPECT_EQ(run(DiskOp::kWrite, kSize / 2, data), 0);
  EXPECT_EQ(flush(), EIO);
  loop_.stop();
  disk_.reset();
}

}  // namespace
}  // namespace twinblock
