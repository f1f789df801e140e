// Which devices are not to be taken away: one whose node alone is stopped, and one that the kernel itself uses.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <utility>

#include "base/units.h"
#include "io/posix/descriptor.h"
#include "loop_device.h"
#include "nbd3_support.h"
#include "nbd_kernel.h"
#include "noted_syncs.h"
#include "temporary_directory.h"
#include "twinblock/actions.h"
#include "twinblock/detach.h"
#include "twinblock/exit_status.h"
#include "twinblock/options.h"

namespace twinblock {
namespace {

// A manager of services that says of itself what a test wants.
class Manager : public testing::Test {
 protected:
  Manager() { setenv("PATH", dir_.path().c_str(), 1); }
  ~Manager() override { setenv("PATH", before_.c_str(), 1); }

  void says(const std::string& state) const {
    std::ofstream(dir_ / "systemctl") << "#!/bin/sh\necho '" << state << "'\n";
    chmod((dir_ / "systemctl").c_str(), 0755);
  }

  const TemporaryDirectory dir_;

 private:
  const std::string before_ = getenv("PATH") == nullptr ? "" : getenv("PATH");
};
using HostGoesDown = Manager;

// A manager that is degraded, or still starting, stops nothing: who uses a device is not to lose it.
TEST_F(HostGoesDown, IsWhatTheManagerSaysAndNothingElse) {
  for (const auto& [state, down] : {std::pair("stopping", true), std::pair("running", false), std::pair("degraded", false),
                                    std::pair("starting", false), std::pair("maintenance", false), std::pair("", false)}) {
    says(state);
    EXPECT_EQ(host_goes_down(), down) << state;
  }
}

// The unit's ExecStop is carried out at each stop of the node: of one that is replaced, say.
TEST_F(HostGoesDown, AStopOfTheNodeAloneLeavesTheDevice) {
  says("running");
  const std::string stem = dir_ / "r0";
  Attachment attachment;
  attachment.volume = "r0";
  attachment.method = kMethodNbd;
  attachment.device = dir_ / "nbd0";
  attachment.complete = true;
  ASSERT_TRUE(create_attachment(stem, attachment).ok());
  Options options;
  options.detach.with_host = true;
  const Result<Output> done = run_detach(options, stem + ".ctl");
  ASSERT_TRUE(done.ok()) << done.error().what;
  EXPECT_EQ(done.value().text, "nothing to do\n");
  const Result<std::optional<Attachment>> note = read_attachment(stem);
  ASSERT_TRUE(note.ok() && note.value());
  EXPECT_TRUE(note.value()->ended.empty());
}

// A file system of several devices, RAID, a target of iSCSI: no mount tells of them, and no open file.
TEST(ADevice, ThatTheKernelHasClaimedIsNotTakenAway) {
  const TemporaryDirectory dir;
  const std::string stem = dir / "r0";
  const HostPaths host{dir / "sys", dir / "dev", dir / "proc"};
  std::ofstream(dir / "image") << std::string(kMiB, 'x');
  const LoopDevice device(dir / "image");
  if (device.path().empty()) GTEST_SKIP() << "loop devices need root";
  for (const std::string& each : {host.sys + "/block/loop0/loop", host.dev, host.proc})
    std::filesystem::create_directories(each);
  std::filesystem::create_symlink(device.path(), host.dev + "/loop0");
  Attachment attachment;
  attachment.volume = "r0";
  attachment.method = kMethodNbdfuse;
  attachment.mount_dir = stem + ".mnt";
  attachment.file = attachment.mount_dir + "/r0";
  attachment.device = host.dev + "/loop0";
  attachment.complete = true;
  ASSERT_TRUE(create_attachment(stem, attachment).ok());
  std::ofstream(host.sys + "/block/loop0/loop/backing_file") << attachment.file << "\n";
  const Descriptor claimed(::open(device.path().c_str(), O_RDONLY | O_EXCL | O_CLOEXEC));
  ASSERT_TRUE(claimed.open());
  const Status refusal = detach(host, stem, attachment, false);
  ASSERT_FALSE(refusal.ok());
  EXPECT_NE(refusal.error().what.find("something in the kernel has claimed it"), std::string::npos) << refusal.error().what;
  EXPECT_TRUE(std::filesystem::exists(attachment_path(stem)));
}

// A host with an attached /dev/nbd3, which nobody uses, and whose kernel takes it away when it is told to.
class DetachOfNbd : public testing::Test {
 protected:
  DetachOfNbd() {
    noted_syncs().clear();
    nbd_kernel() = {};
    nbd_kernel().answer = [this](const NbdOrder&) {
      std::filesystem::remove(block_ + "/pid");
      return 0;
    };
    put(host_.dev + "/nbd3");
    put(block_ + "/pid", "77\n");
    put(block_ + "/backend", "twinblock/r0\n");
    put(block_ + "/dev", "43:3\n");
    put(host_.proc + "/self/mountinfo", "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n");
    EXPECT_TRUE(create_attachment(stem_, attachment_).ok());
  }
  ~DetachOfNbd() override {
    noted_syncs().clear();
    nbd_kernel() = {};
  }

  const TemporaryDirectory dir_;
  const HostPaths host_{dir_ / "sys", dir_ / "dev", dir_ / "proc"};
  const std::string block_ = host_.sys + "/block/nbd3";
  const std::string stem_ = dir_ / "r0";
  const Attachment attachment_ = attached_nbd3(host_);
};

TEST_F(DetachOfNbd, TakesAwayWhatNobodyUses) {
  const Status gone = detach(host_, stem_, attachment_, false);
  EXPECT_TRUE(gone.ok()) << gone.error().what;
  EXPECT_EQ(nbd_kernel().orders.size(), 1u);
  EXPECT_FALSE(std::filesystem::exists(attachment_path(stem_)));
}

// udev looks at a device when one closes it that could have written: it would read while the device goes, and the kernel
// tell of I/O errors.
TEST_F(DetachOfNbd, LetsNobodyLookAtItAnew) {
  const Descriptor watch(inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  ASSERT_GE(inotify_add_watch(watch.get(), attachment_.device.c_str(), IN_CLOSE_WRITE), 0);
  ASSERT_TRUE(detach(host_, stem_, attachment_, false).ok());
  char event[512];
  EXPECT_LT(read(watch.get(), event, sizeof event), 0) << "a look at it is due";
}

// The flush of what the kernel holds may take its time, and nobody is kept from the device by it.
TEST_F(DetachOfNbd, LeavesADeviceThatWasMountedWhileItWasFlushed) {
  noted_syncs().before = [this](const std::string& path) {
    if (path == attachment_.device)
      put(host_.proc + "/self/mountinfo", "30 22 43:3 / /mnt rw - ext4 /dev/nbd3 rw\n");
    return 0;
  };
  for (const bool force : {false, true}) {
    put(host_.proc + "/self/mountinfo");
    const Status refusal = detach(host_, stem_, attachment_, force);
    ASSERT_FALSE(refusal.ok());
    EXPECT_NE(refusal.error().what.find("it is mounted at /mnt"), std::string::npos) << refusal.error().what;
  }
  EXPECT_TRUE(nbd_kernel().orders.empty());
  EXPECT_TRUE(std::filesystem::exists(attachment_path(stem_)));
}

// Else who demotes it next is refused, as the export is in use.
TEST_F(DetachOfNbd, HasEndedWhenItsNodeHasNoticed) {
  for (const bool force : {false, true}) {
    put(block_ + "/pid", "77\n");
    nbd_kernel().orders.clear();
    int asked = 0;
    const AskStatus ask = [&asked] {
      if (!nbd_kernel().orders.empty()) ++asked;
      return Result<nlohmann::json>(nlohmann::json{{"clients", asked < 3 ? 2 : 1}});
    };
    ASSERT_TRUE(detach(host_, stem_, attachment_, force, ask).ok());
    EXPECT_EQ(asked, 3);
    EXPECT_EQ(nbd_kernel().orders.size(), 1u);
  }
}

// Another one may have come meanwhile, or the node may not answer.
TEST_F(DetachOfNbd, HasEndedAlsoWhereItsNodeDoesNotNotice) {
  for (const bool answers : {true, false}) {
    put(block_ + "/pid", "77\n");
    int asked = 0;
    const AskStatus ask = [&]() -> Result<nlohmann::json> {
      if (++asked > 1 && !answers) return refused("nobody");
      return nlohmann::json{{"clients", 2}};
    };
    EXPECT_TRUE(detach(host_, stem_, attachment_, false, ask).ok());
    EXPECT_EQ(asked == 2, !answers) << asked;
  }
}

}  // namespace
}  // namespace twinblock
