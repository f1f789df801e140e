// Who uses a block device, by what sysfs and procfs say.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "temporary_directory.h"
#include "twinblock/host_devices.h"

namespace twinblock {
namespace {

namespace fs = std::filesystem;

// A host of files.
class DeviceUser : public testing::Test {
 protected:
  DeviceUser() {
    host_ = HostPaths{dir_ + "/sys", dir_ + "/dev", dir_ + "/proc"};
    for (const std::string& each : {host_.sys + "/block", host_.dev}) fs::create_directories(each);
  }

  static void put(const std::string& path, const std::string& text = "") {
    fs::create_directories(fs::path(path).parent_path());
    std::ofstream(path) << text;
  }

  [[nodiscard]] std::string mountinfo() const { return host_.proc + "/self/mountinfo"; }

  const TemporaryDirectory directory_;
  const std::string dir_ = directory_.path();
  HostPaths host_;
};

TEST_F(DeviceUser, AUserOfADeviceIsNamed) {
  put(host_.sys + "/block/loop0/dev", "7:0\n");
  fs::create_directories(host_.sys + "/block/loop0/holders");
  put(mountinfo(), "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n");
  EXPECT_EQ(device_user(host_, "/dev/loop0"), "");
  put(mountinfo(),
      "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
      "30 22 7:0 / /mnt/my\\040data rw - ext4 /dev/loop0 rw\n");
  EXPECT_EQ(device_user(host_, "/dev/loop0"), "it is mounted at /mnt/my data");
  put(mountinfo(), "");
  put(host_.sys + "/block/loop0/holders/dm-0");
  EXPECT_EQ(device_user(host_, "/dev/loop0"), "/dev/dm-0 is built on it");
}

// What was unmounted here may be mounted still where a container has a copy of the mounts.
TEST_F(DeviceUser, AMountThatOnlyAnotherProcessSeesIsAUseOfTheDevice) {
  put(host_.sys + "/block/loop0/dev", "7:0\n");
  put(mountinfo(), "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n");
  for (const char* pid : {"17", "18", "4712"}) {
    const std::string process = host_.proc + "/" + pid;
    put(process + "/mountinfo", "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n");
    fs::create_directories(process + "/ns");
    fs::create_symlink("mnt:[1]", process + "/ns/mnt");
  }
  fs::create_directories(host_.proc + "/self/ns");
  fs::create_symlink("mnt:[1]", host_.proc + "/self/ns/mnt");
  put(host_.proc + "/bus/mountinfo", "30 22 7:0 / /mnt rw - ext4 /dev/loop0 rw\n");
  EXPECT_EQ(device_user(host_, "/dev/loop0"), "") << "bus is no process";
  const std::string other = host_.proc + "/4712";
  put(other + "/mountinfo", "30 22 7:0 / /srv/data rw - ext4 /dev/loop0 rw\n");
  put(other + "/comm", "postgres\n");
  fs::remove(other + "/ns/mnt");
  fs::create_symlink("mnt:[2]", other + "/ns/mnt");
  const std::string user = device_user(host_, "/dev/loop0");
  EXPECT_EQ(user.rfind("it is mounted at /srv/data in another mount namespace, that of process "
                       "4712 (postgres)",
                       0),
            0u)
      << user;
  EXPECT_TRUE(in_another_mount_namespace(host_, 4712));
  EXPECT_FALSE(in_another_mount_namespace(host_, 17));
  EXPECT_FALSE(in_another_mount_namespace(host_, 99)) << "not known";
}

TEST_F(DeviceUser, AMountedPartitionIsAUseOfTheDevice) {
  put(host_.sys + "/block/nbd0/dev", "43:0\n");
  put(host_.sys + "/block/nbd0/nbd0p1/dev", "43:1\n");
  put(host_.sys + "/block/nbd0/nbd0p1/partition", "1\n");
  put(mountinfo(), "30 22 43:1 / /mnt rw - ext4 /dev/nbd0p1 rw\n");
  EXPECT_EQ(device_user(host_, "/dev/nbd0"), "its partition nbd0p1: it is mounted at /mnt");
}

// A btrfs has numbers of its own in mountinfo.
TEST_F(DeviceUser, AMountedBtrfsIsAUseOfTheDeviceThatItWasMountedBy) {
  put(host_.sys + "/block/nbd0/dev", "43:0\n");
  put(host_.dev + "/nbd0");
  put(host_.dev + "/nbd1");
  fs::create_directories(host_.dev + "/twinblock");
  fs::create_symlink("../nbd0", host_.dev + "/twinblock/r0");
  put(mountinfo(), "30 22 0:45 / /mnt rw shared:7 - btrfs " + host_.dev + "/nbd1 rw\n");
  EXPECT_EQ(device_user(host_, "/dev/nbd0"), "");
  put(mountinfo(), "30 22 0:45 / /mnt rw shared:7 - btrfs " + host_.dev + "/twinblock/r0 rw\n");
  EXPECT_EQ(device_user(host_, "/dev/nbd0"), "it is mounted at /mnt");
}

TEST_F(DeviceUser, ASwapAreaIsAUseOfTheDevice) {
  put(host_.sys + "/block/nbd0/dev", "43:0\n");
  put(host_.dev + "/nbd0");
  const std::string title = "Filename\tType\tSize\tUsed\tPriority\n";
  put(host_.proc + "/swaps", title + host_.dev + "/nbd01 partition\t65532\t0\t-2\n");
  EXPECT_EQ(device_user(host_, "/dev/nbd0"), "");
  put(host_.proc + "/swaps", title + host_.dev + "/nbd0 partition\t65532\t0\t-2\n");
  EXPECT_EQ(device_user(host_, "/dev/nbd0"), "it is a swap area; try: swapoff /dev/nbd0");
}

TEST_F(DeviceUser, WhoHasADeviceOpenIsNamed) {
  put(host_.sys + "/block/nbd0/dev", "43:0\n");
  put(host_.sys + "/block/nbd0/nbd0p1/dev", "43:1\n");
  put(host_.sys + "/block/nbd0/nbd0p1/partition", "1\n");
  const std::string process = host_.proc + "/4712";
  put(process + "/comm", "qemu-system-x86\n");
  fs::create_directories(process + "/fd");
  fs::create_directories(host_.proc + "/bus/fd");
  fs::create_symlink(host_.dev + "/nbd0", host_.proc + "/bus/fd/3");
  fs::create_symlink("/home/someone/nbd0", process + "/fd/3");
  fs::create_symlink(host_.dev + "/nbd01", process + "/fd/4");
  EXPECT_EQ(device_opener(host_, "/dev/nbd0"), "");
  fs::create_symlink(host_.dev + "/nbd0p1", process + "/fd/5");
  EXPECT_EQ(device_opener(host_, "/dev/nbd0"), "its partition nbd0p1: process 4712 (qemu-system-x86) has it open");
  fs::create_symlink(host_.dev + "/nbd0", process + "/fd/6");
  EXPECT_EQ(device_opener(host_, "/dev/nbd0"), "process 4712 (qemu-system-x86) has it open");
}

}  // namespace
}  // namespace twinblock
