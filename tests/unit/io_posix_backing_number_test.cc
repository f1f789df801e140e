// Whether a backing is the one that a record is about.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include "io/posix/backing_number.h"
#include "io/posix/descriptor.h"
#include "io/posix/reflink.h"
#include "loop_device.h"
#include "temporary_directory.h"

namespace twinblock {
namespace {

uint64_t number_at(const std::string& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  EXPECT_TRUE(file.open()) << path;
  return backing_number(file.get());
}

class BackingNumberTest : public testing::Test {
 protected:
  BackingNumberTest() {
    std::ofstream(image_) << "data";
    number_ = number_at(image_);
  }
  // As sysfs has it.
  void say(const std::string& name, const std::string& line) {
    const std::filesystem::path path = directory_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << line << "\n";
  }
  // As `stat` says of it, whatever the number is.
  [[nodiscard]] bool tells() const {
    struct statfs system {};
    struct statx file {};
    EXPECT_EQ(::statfs(image_.c_str(), &system), 0);
    EXPECT_EQ(::statx(AT_FDCWD, image_.c_str(), 0, STATX_BTIME, &file), 0);
    const auto type = static_cast<uint32_t>(system.f_type);
    const bool known = type == EXT4_SUPER_MAGIC || type == XFS_SUPER_MAGIC || type == BTRFS_SUPER_MAGIC ||
                       type == F2FS_SUPER_MAGIC || type == TMPFS_MAGIC;
    return known && (file.stx_mask & STATX_BTIME) != 0;
  }
  [[nodiscard]] uint64_t device(const std::string& name) const { return device_number(directory_ / name); }

  const TemporaryDirectory directory_;
  const std::string image_ = directory_ / "image";
  uint64_t number_ = 0;
};

TEST_F(BackingNumberTest, AFileStaysTheSameWhateverIsDoneToIt) {
  if (!tells()) GTEST_SKIP() << "this file system does not tell";
  ASSERT_GT(number_, kBackingTellsNothing);
  EXPECT_EQ(number_at(image_), number_);
  std::ofstream(image_, std::ios::app) << "more";
  EXPECT_EQ(::truncate(image_.c_str(), 1 << 20), 0);
  EXPECT_EQ(::chmod(image_.c_str(), 0600), 0);
  const std::string renamed = directory_ / "renamed", link = directory_ / "link";
  std::filesystem::rename(image_, renamed);
  std::filesystem::create_symlink(renamed, link);
  EXPECT_EQ(number_at(link), number_);
}

TEST_F(BackingNumberTest, ACopyOfAFileIsAnother) {
  if (!tells()) GTEST_SKIP() << "this file system does not tell";
  ASSERT_GT(number_, kBackingTellsNothing);
  const std::string copy = directory_ / "copy";
  std::filesystem::copy_file(image_, copy);
  EXPECT_NE(number_at(copy), number_);
  EXPECT_GT(number_at(copy), kBackingTellsNothing);
  // What a way back is brought back by writes into the file that is there.
  if (reflink_onto(copy, image_)) {
    EXPECT_EQ(number_at(image_), number_);
  }
  // The inode's number may be used again.
  std::filesystem::remove(image_);
  std::filesystem::rename(copy, image_);
  EXPECT_NE(number_at(image_), number_);
}

TEST_F(BackingNumberTest, AFileThatIsMadeAnewIsAnother) {
  if (!tells()) GTEST_SKIP() << "this file system does not tell";
  ASSERT_GT(number_, kBackingTellsNothing);
  for (int i = 0; i < 20; ++i) {
    std::filesystem::remove(image_);
    ::usleep(10'000);  // the clock of a file system's times is coarse
    std::ofstream(image_) << "data";
    EXPECT_NE(number_at(image_), number_);
  }
}

TEST_F(BackingNumberTest, NothingIsToldOfADeviceThatSaysNothingOfItself) {
  EXPECT_NE(kBackingTellsNothing, 0U) << "that stands on record for what is not known";
  const LoopDevice loop(image_);
  if (!loop.path().empty()) {
    EXPECT_EQ(number_at(loop.path()), kBackingTellsNothing);
  }
  say("sda/size", "8");
  EXPECT_EQ(device("sda"), kBackingTellsNothing);
  say("sda/serial", "  ");
  EXPECT_EQ(device("sda"), kBackingTellsNothing);
  EXPECT_EQ(number_at("/dev/null"), kBackingTellsNothing);
}

TEST_F(BackingNumberTest, ADeviceIsKnownByWhatItSaysOfItself) {
  say("sda/device/wwid", "naa.5000c500a1b2c3d4");
  say("sdb/device/wwid", "naa.5000c500a1b2c3d5");
  say("nvme0n1/wwid", "eui.0025385b21404321");
  say("vda/serial", "data of r0");
  for (const char* name : {"sda", "nvme0n1", "vda"}) EXPECT_GT(device(name), kBackingTellsNothing) << name;
  EXPECT_NE(device("sda"), device("sdb"));
  const uint64_t before = device("sda");
  std::filesystem::rename(directory_ / "sda", directory_ / "sdc");
  EXPECT_EQ(device("sdc"), before) << "it has another name";
}

TEST_F(BackingNumberTest, APartitionIsKnownByItsDiskAndItsBeginning) {
  say("sda/device/wwid", "naa.5000c500a1b2c3d4");
  const uint64_t disk = device("sda");
  for (const char* number : {"1", "2"}) {
    say("sda/sda" + std::string(number) + "/partition", number);
    say("sda/sda" + std::string(number) + "/start", "2048" + std::string(number));
  }
  const uint64_t first = device("sda/sda1");
  EXPECT_GT(first, kBackingTellsNothing);
  EXPECT_NE(first, disk);
  EXPECT_NE(first, device("sda/sda2"));
  say("sda/sda1/partition", "3");
  EXPECT_EQ(device("sda/sda1"), first) << "it has another number";
  say("sda/device/wwid", "naa.5000c500a1b2c3d5");
  EXPECT_NE(device("sda/sda1"), first);
  say("sda/device/wwid", "");
  EXPECT_EQ(device("sda/sda1"), kBackingTellsNothing);
}

TEST_F(BackingNumberTest, AMappedDeviceIsKnownByWhatItMapsAndNotByItsName) {
  say("dm-0/serial", "of nothing that is mapped");
  say("dm-0/dm/uuid", "");
  EXPECT_EQ(device("dm-0"), kBackingTellsNothing);
  say("dm-0/dm/uuid", "LVM-Dz5JCGaXyIVoDMUYPwRMmSyBVV1qyYh6");
  const uint64_t logical_volume = device("dm-0");
  EXPECT_GT(logical_volume, kBackingTellsNothing);
  const std::string luks = "CRYPT-LUKS2-0123456789abcdef0123456789abcdef";
  say("dm-0/dm/uuid", luks + "-r0");
  const uint64_t crypt = device("dm-0");
  EXPECT_GT(crypt, kBackingTellsNothing);
  EXPECT_NE(crypt, logical_volume);
  say("dm-0/dm/uuid", luks + "-another");
  EXPECT_EQ(device("dm-0"), crypt);
  say("dm-0/dm/uuid", "CRYPT-LUKS2-0123456789abcdef0123456789abcdee-r0");
  EXPECT_NE(device("dm-0"), crypt);
  say("dm-0/dm/uuid", "CRYPT-PLAIN-r0");
  EXPECT_EQ(device("dm-0"), kBackingTellsNothing);
}

}  // namespace
}  // namespace twinblock
