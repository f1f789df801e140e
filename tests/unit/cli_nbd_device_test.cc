#include "twinblock/nbd_device.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

#include "nbd3_support.h"
#include "noted_syncs.h"
#include "temporary_directory.h"
#include "twinblock/attach.h"
#include "twinblock/detach.h"
#include "twinblock/device_text.h"
#include "twinblock/exit_status.h"
#include "twinblock/json_fields.h"
#include "twinblock/nbd_connection.h"

namespace twinblock {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// A host of files with an attached /dev/nbd3, whose server is this process.
class NbdHost : public testing::Test {
 protected:
  NbdHost() {
    put(host_.dev + "/nbd3");
    put(block() + "/pid", "77\n");
    put(block() + "/backend", "twinblock/r0\n");
    put(block() + "/uevent");
    put(block() + "/queue/io_timeout", "30000\n");
    attachment_ = attached_nbd3(host_);
  }

  static std::string text_of(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  [[nodiscard]] std::string block() const { return host_.sys + "/block/nbd3"; }
  [[nodiscard]] static json node_status(const char* role, uint64_t term, pid_t pid) {
    return {{"node", "alpha"}, {"role", role}, {"term", term}, {"pid", pid}};
  }
  json state_with(const json& status) {
    EXPECT_TRUE(update_attachment(stem_, attachment_).ok());
    return attached_device(host_, status, stem_);
  }

  const TemporaryDirectory directory_;
  const std::string dir_ = directory_.path();
  const HostPaths host_{dir_ + "/sys", dir_ + "/dev", dir_ + "/proc"};
  const std::string stem_ = dir_ + "/r0";
  Attachment attachment_;
};

TEST_F(NbdHost, ADevicesNumberIsInItsName) {
  EXPECT_EQ(nbd_index("/dev/nbd3"), 3u);
  EXPECT_EQ(nbd_index("/dev/nbd12"), 12u);
  for (const char* name : {"", "/dev/nbd", "/dev/nbd3p1", "/dev/loop3", "/dev/nbd-1"})
    EXPECT_EQ(nbd_index(name), std::nullopt) << name;
}

TEST_F(NbdHost, ADeviceIsOursWhileNobodyElseHasIt) {
  EXPECT_TRUE(is_ours(host_, attachment_));
  put(block() + "/pid", "78\n");
  EXPECT_FALSE(is_ours(host_, attachment_)) << "connected anew";
  put(block() + "/pid", "77\n");
  put(block() + "/backend", "twinblock/r1\n");
  EXPECT_FALSE(is_ours(host_, attachment_)) << "another volume's";
  fs::remove(block() + "/backend");
  EXPECT_TRUE(is_ours(host_, attachment_)) << "a kernel that knows no backends";
  fs::remove(block() + "/pid");
  EXPECT_FALSE(is_ours(host_, attachment_)) << "not connected";
}

TEST_F(NbdHost, TheStableNameComesAndGoesWithTheDevice) {
  attachment_.link = give_stable_name(host_, "r0", attachment_.device);
  EXPECT_EQ(attachment_.link, host_.dev + "/twinblock/r0");
  EXPECT_EQ(fs::read_symlink(attachment_.link), attachment_.device);
  EXPECT_EQ(text_of(block() + "/uevent"), "change\n") << "udev is to look again";
  take_stable_name(host_, attachment_);
  EXPECT_FALSE(fs::exists(fs::symlink_status(attachment_.link)));
}

TEST_F(NbdHost, ANameOfAnotherDeviceIsLeftAlone) {
  attachment_.link = give_stable_name(host_, "r0", attachment_.device);
  put(host_.dev + "/nbd4");
  EXPECT_EQ(give_stable_name(host_, "r0", host_.dev + "/nbd4"), attachment_.link);
  take_stable_name(host_, attachment_);
  EXPECT_EQ(fs::read_symlink(attachment_.link), host_.dev + "/nbd4");
}

TEST_F(NbdHost, RequestsAreLookedAfterAsSaid) {
  ASSERT_TRUE(look_after_requests(host_, "/dev/nbd3", 2000).ok());
  EXPECT_EQ(text_of(block() + "/queue/io_timeout"), "2000\n");
  ASSERT_TRUE(look_after_requests(host_, "/dev/nbd3", 0).ok());
  EXPECT_EQ(text_of(block() + "/queue/io_timeout"), "30000\n");
  EXPECT_FALSE(look_after_requests(host_, "/dev/nbd9", 2000).ok());
}

// Who sets it may have to wait for requests, and keeps those that come meanwhile.
TEST_F(NbdHost, WhatIsSetAlreadyIsNotSetAgain) {
  put(block() + "/queue/io_timeout", "2000");
  ASSERT_TRUE(look_after_requests(host_, "/dev/nbd3", 2000).ok());
  EXPECT_EQ(text_of(block() + "/queue/io_timeout"), "2000") << "whoever sets it adds a newline";
}

// Somebody who was ended may be about to set his own, once the kernel lets him.
TEST_F(NbdHost, WhatTheKernelChoseItselfIsSetAgainAfterWhoWaits) {
  put(block() + "/queue/io_timeout", "30000");
  ASSERT_TRUE(look_after_requests(host_, "/dev/nbd3", 0).ok());
  EXPECT_EQ(text_of(block() + "/queue/io_timeout"), "30000\n");
}

TEST_F(NbdHost, StatusSaysWhetherTheDeviceLives) {
  EXPECT_TRUE(attached_device(host_, node_status("primary", 5, getpid()), stem_).is_null());
  EXPECT_EQ(device_text(nullptr), "");
  const json well = state_with(node_status("primary", 5, getpid()));
  EXPECT_EQ(text_at(well, "state"), "connected");
  EXPECT_EQ(device_text(well), host_.dev + "/nbd3 by nbd: connected");
  attachment_.link = "/dev/twinblock/r0";
  attachment_.server.start_ticks += 1;  // that process has ended
  const json waits = state_with(json());
  EXPECT_EQ(device_text(waits),
            "/dev/twinblock/r0 (" + host_.dev + "/nbd3) by nbd: waits, alpha does not answer");
  const json again = state_with(node_status("primary", 5, 1));
  EXPECT_EQ(text_at(again, "state"), "waits");
  EXPECT_NE(text_at(again, "why").find("twinblock attach reconnects it"), std::string::npos);
  EXPECT_EQ(text_at(state_with(node_status("primary", 6, 1)), "state"), "dead");
  attachment_.ended = "beta was promoted meanwhile";
  EXPECT_EQ(text_at(state_with(node_status("primary", 5, 1)), "why"), attachment_.ended);
  attachment_.ended.clear();
  fs::remove(block() + "/pid");
  EXPECT_EQ(text_at(state_with(node_status("primary", 5, 1)), "state"), "dead");
}

TEST_F(NbdHost, StatusSaysWhoIsJustAttachingIt) {
  attachment_.complete = false;
  attachment_.maker = identify_process(getpid());
  const json status = node_status("primary", 5, getpid());
  EXPECT_EQ(device_text(state_with(status)), host_.dev + "/nbd3 by nbd: being attached, by process " +
                                                 std::to_string(getpid()));
  attachment_.device.clear();
  EXPECT_TRUE(device_text(state_with(status)).starts_with("a device by nbd: being attached"));
  attachment_.maker.start_ticks += 1;  // that process has ended
  const json dead = state_with(status);
  EXPECT_EQ(text_at(dead, "state"), "dead");
  EXPECT_EQ(text_at(dead, "why"), "attach ended half-way");
}

TEST_F(NbdHost, TheNoteOfADeviceIsReadBack) {
  attachment_.link = "/dev/twinblock/r0";
  attachment_.volume_uuid = "u";
  attachment_.ended = "why";
  ASSERT_TRUE(update_attachment(stem_, attachment_).ok());
  const Result<std::optional<Attachment>> read = read_attachment(stem_);
  ASSERT_TRUE(read.ok() && read.value());
  EXPECT_EQ(to_json(*read.value()), to_json(attachment_));
  EXPECT_EQ(read.value()->server.start_ticks, attachment_.server.start_ticks);
}

// Nobody but the operator gives up what may still be written.
TEST_F(NbdHost, ADeviceThatWaitsIsAttachedAndLeftAlone) {
  attachment_.server.start_ticks += 1;
  std::optional<Attachment> existing = attachment_;
  const auto secondary = [] { return Result<json>(node_status("secondary", 0, 1)); };
  const Result<std::optional<FateVerdict>> verdict = revive(host_, secondary, stem_, existing);
  ASSERT_TRUE(verdict.ok() && verdict.value());
  EXPECT_EQ(verdict.value()->fate, Fate::kWait);
  EXPECT_EQ(existing->ended, "");
  const auto nobody = [] { return Result<json>(unreachable("nobody")); };
  EXPECT_EQ(revive(host_, nobody, stem_, existing).value()->fate, Fate::kWait);
}

TEST_F(NbdHost, WhatIsNoLivingDeviceIsNotRevived) {
  const auto nobody = [] { return Result<json>(unreachable("nobody")); };
  std::optional<Attachment> none;
  EXPECT_FALSE(revive(host_, nobody, stem_, none).value().has_value());
  std::optional<Attachment> ended = attachment_;
  ended->ended = "why";
  EXPECT_FALSE(revive(host_, nobody, stem_, ended).value().has_value());
  std::optional<Attachment> half = attachment_;
  half->complete = false;
  EXPECT_FALSE(revive(host_, nobody, stem_, half).value().has_value());
  std::optional<Attachment> elses = attachment_;
  elses->nbd_pid = 78;
  EXPECT_FALSE(revive(host_, nobody, stem_, elses).value().has_value());
}

// The same with a number that no device of this host has: a detach that goes on disconnects by the number.
class HostOfAFarDevice : public NbdHost {
 protected:
  HostOfAFarDevice() {
    noted_syncs().clear();
    fs::rename(block(), host_.sys + "/block/nbd4095");
    fs::rename(attachment_.device, host_.dev + "/nbd4095");
    attachment_.device = host_.dev + "/nbd4095";
    EXPECT_TRUE(create_attachment(stem_, attachment_).ok());
  }
  void expect_that_it_stays(const std::string& why) {
    const Status refusal = detach(host_, stem_, attachment_, false);
    ASSERT_FALSE(refusal.ok());
    EXPECT_EQ(refusal.error().what.find("can't flush " + attachment_.device + ": " + why), 0u) << refusal.error().what;
    EXPECT_NE(refusal.error().action.find("--force"), std::string::npos);
    EXPECT_TRUE(fs::exists(attachment_path(stem_)));
  }
};

TEST_F(HostOfAFarDevice, ADeviceThatCanNotBeFlushedStays) {
  noted_syncs().before = [this](const std::string& path) { return path == attachment_.device ? EIO : 0; };
  expect_that_it_stays("Input/output error");
}

// It holds what the node has not got, and attaching again is what brings it there.
TEST_F(HostOfAFarDevice, ADeviceThatWaitsForItsNodeStays) {
  attachment_.server.start_ticks += 1;
  expect_that_it_stays("its node's process has ended");
}

TEST_F(NbdHost, ASocketIsKnownByItsNumber) {
  put(host_.proc + "/net/unix",
      "Num       RefCount Protocol Flags    Type St Inode Path\n"
      "0000000000000000: 00000003 00000000 00000000 0001 03  4711\n"
      "0000000000000000: 00000002 00000000 00010000 0001 01 12 /run/twinblock/r0.nbd\n");
  EXPECT_TRUE(unix_socket_exists(host_.proc, 4711));
  EXPECT_TRUE(unix_socket_exists(host_.proc, 12));
  EXPECT_FALSE(unix_socket_exists(host_.proc, 471));
}

}  // namespace
}  // namespace twinblock
