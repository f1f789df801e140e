// What is said of a device when its volume has grown: nothing of one that has that size, so that the order can be given
// again to see.
#include "twinblock/grow_device.h"

#include <gtest/gtest.h>
#include <linux/nbd-netlink.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <optional>

#include "base/units.h"
#include "fake_host.h"
#include "nbd3_support.h"
#include "nbd_kernel.h"
#include "twinblock/exit_status.h"

namespace twinblock {
namespace {

using nlohmann::json;

constexpr uint64_t kVolumeBytes = 64 * kMiB;

class GrowDevice : public FakeHost {
 protected:
  GrowDevice() {
    nbd_kernel() = {};
    status_["size_bytes"] = kVolumeBytes;
    status_["pid"] = getpid();
    status_["term"] = 5;
  }
  ~GrowDevice() override {
    if (nbdfuse_.pid != 0) kill(nbdfuse_.pid, SIGKILL);
    nbd_kernel() = {};
  }

  void attach_by_nbdfuse(const char* method) {
    Attachment attachment = attached_by_nbdfuse();
    nbdfuse_ = attachment.nbdfuse;
    attachment.method = method;
    if (attachment.method == kMethodNbdfuseFile) attachment.device = attachment.file;
    device_ = attachment.device;
    ASSERT_TRUE(update_attachment(stem_, attachment).ok());
  }
  void attach_nbd3(bool server_runs = true) {
    put(host_.sys + "/block/nbd3/pid", "77\n");
    put(host_.sys + "/block/nbd3/backend", "twinblock/r0\n");
    Attachment attachment = attached_nbd3(host_);
    if (!server_runs) attachment.server.start_ticks += 1;
    device_ = attachment.device;
    ASSERT_TRUE(create_attachment(stem_, attachment).ok());
  }
  void has_bytes(const char* name, uint64_t bytes) const {
    put(host_.sys + "/block/" + name + "/size", std::to_string(bytes / 512) + "\n");
  }
  [[nodiscard]] std::string said(bool root) const {
    return grow_device(host_, [this]() -> Result<json> { return status_; }, stem_, root);
  }

  json status_ = node_status("primary", true, "secondary");
  std::string device_;
  ProcessId nbdfuse_;
};

TEST_F(GrowDevice, WithoutADeviceThereIsNothingToSay) { EXPECT_EQ(said(true), ""); }

// Whoever gives the order again to see would detach a device that is right.
TEST_F(GrowDevice, ALoopDeviceThatHasTheSizeIsNotToBeDetached) {
  attach_by_nbdfuse(kMethodNbdfuse);
  has_bytes("loop0", kVolumeBytes / 2);
  EXPECT_EQ(said(true),
            device_ + " was attached by nbdfuse, and keeps its old size until it is detached and attached again.");
  has_bytes("loop0", kVolumeBytes);
  EXPECT_EQ(said(true), "");
}

TEST_F(GrowDevice, AFileThatHasTheSizeIsNotToBeDetached) {
  attach_by_nbdfuse(kMethodNbdfuseFile);
  put(device_, "x");
  EXPECT_EQ(said(false),
            device_ + " was attached by nbdfuse-file, and keeps its old size until it is detached and attached again.");
  std::filesystem::resize_file(device_, kVolumeBytes);
  EXPECT_EQ(said(false), "");
}

// It is mounted for others only, say.
TEST_F(GrowDevice, OfAFileThatIsNotSeenNothingIsClaimed) {
  attach_by_nbdfuse(kMethodNbdfuseFile);
  EXPECT_NE(said(false).find("if that was before the volume grew"), std::string::npos) << said(false);
}

TEST_F(GrowDevice, WhoIsNotRootIsToldOfADeviceThatIsSmallerOnly) {
  attach_nbd3();
  has_bytes("nbd3", kVolumeBytes / 2);
  EXPECT_EQ(said(false), device_ + " keeps its old size until root gives it the new one: twinblock attach r0");
  has_bytes("nbd3", kVolumeBytes);
  EXPECT_EQ(said(false), "");
  EXPECT_EQ(said(true), "");
  EXPECT_TRUE(nbd_kernel().orders.empty());
}

TEST_F(GrowDevice, OfSomebodyElsesDeviceNothingIsSaid) {
  attach_nbd3();
  has_bytes("nbd3", kVolumeBytes / 2);
  put(host_.sys + "/block/nbd3/pid", "78\n");
  EXPECT_EQ(said(false), "");
}

TEST_F(GrowDevice, OneThatWaitsIsSaidToWait) {
  attach_nbd3(false);
  has_bytes("nbd3", kVolumeBytes / 2);
  status_["role"] = "secondary";
  status_["peer"]["role"] = "secondary";
  status_["resumes"] = true;
  EXPECT_EQ(said(true).find(device_ + " waits for its node: alpha is not primary yet; see twinblock status"), 0u)
      << said(true);
  EXPECT_TRUE(nbd_kernel().orders.empty());
  // Nothing takes it back.
  status_["resumes"] = false;
  EXPECT_NE(said(true).find("what waits in the device; give up what was not written: twinblock detach r0 --force."),
            std::string::npos)
      << said(true);
}

TEST_F(GrowDevice, OneThatWasEndedIsSaidToHaveBeenEnded) {
  attach_nbd3(false);
  has_bytes("nbd3", kVolumeBytes / 2);
  status_["role"] = "secondary";
  status_["peer"]["role"] = "primary";
  EXPECT_EQ(said(true), device_ + " was ended, since its pages may be stale: beta was promoted meanwhile; unmount it "
                                  "and attach again.");
  ASSERT_EQ(nbd_kernel().orders.size(), 1u);
  EXPECT_EQ(nbd_kernel().orders[0].command, NBD_CMD_DISCONNECT);
}

}  // namespace
}  // namespace twinblock
