#include "twinblock/attach.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

#include "base/units.h"
#include "fake_host.h"
#include "loop_device.h"
#include "twinblock/detach.h"
#include "twinblock/exit_status.h"

namespace twinblock {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

TEST_F(FakeHost, KernelNbdIsFoundByItsModuleOrItsDevice) {
  EXPECT_FALSE(has_kernel_nbd(host_));
  put(host_.dev + "/nbd0");
  EXPECT_TRUE(has_kernel_nbd(host_));
  fs::remove(host_.dev + "/nbd0");
  fs::create_directories(host_.sys + "/module/nbd");
  EXPECT_TRUE(has_kernel_nbd(host_));
}

TEST_F(FakeHost, TheFirstNbdDeviceWithoutAServerIsFree) {
  EXPECT_EQ(free_nbd_index(host_, 0), 0u);
  put(host_.sys + "/block/nbd0/pid", "12\n");
  EXPECT_EQ(free_nbd_index(host_, 0), 1u);
  EXPECT_TRUE(nbd_device_connected(host_, host_.dev + "/nbd0"));
  EXPECT_FALSE(nbd_device_connected(host_, host_.dev + "/nbd1"));
  put(host_.sys + "/block/nbd1/pid", "13\n");
  put(host_.sys + "/block/nbd3/pid", "15\n");
  EXPECT_EQ(free_nbd_index(host_, 0), 2u);
  EXPECT_EQ(free_nbd_index(host_, 3), 4u);
}

TEST_F(FakeHost, ALoopDeviceIsFoundByItsFile) {
  put(host_.sys + "/block/loop0/loop/backing_file", "/other\n");
  put(host_.sys + "/block/loop1/loop/backing_file", "/run/r0.mnt/r0\n");
  fs::create_directories(host_.sys + "/block/loop2");
  EXPECT_EQ(loop_device_of(host_, "/run/r0.mnt/r0"), host_.dev + "/loop1");
  EXPECT_EQ(loop_device_of(host_, "/run/r1.mnt/r1"), "");
  EXPECT_EQ(loop_backing_file(host_, "/dev/loop0"), "/other");
  EXPECT_EQ(loop_backing_file(host_, "/dev/loop2"), "");
}

TEST_F(FakeHost, WithoutFuseTheUserIsToldWhatIsMissing) {
  const Result<AttachPlan> plan = plan_attach(host_, true, kMethodAuto);
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.error().code, kExitRefused);
  EXPECT_NE(plan.error().what.find("no nbd module"), std::string::npos) << plan.error().what;
}

TEST_F(FakeHost, TheBestMethodThatWorksIsChosen) {
  if (find_program("nbdfuse").empty() || find_program("fusermount3").empty() ||
      find_program("losetup").empty())
    GTEST_SKIP() << "needs nbdfuse, fusermount3 and losetup";
  put(host_.dev + "/fuse");
  EXPECT_EQ(plan_attach(host_, false, kMethodAuto).value().method, kMethodNbdfuseFile);
  EXPECT_EQ(plan_attach(host_, true, kMethodAuto).value().method, kMethodNbdfuseFile);
  EXPECT_FALSE(plan_attach(host_, true, kMethodNbdfuse).ok());
  put(host_.dev + "/loop-control");
  EXPECT_EQ(plan_attach(host_, true, kMethodAuto).value().method, kMethodNbdfuse);
  EXPECT_EQ(plan_attach(host_, true, kMethodNbdfuseFile).value().method, kMethodNbdfuseFile);
  EXPECT_EQ(plan_attach(host_, false, kMethodAuto).value().method, kMethodNbdfuseFile);
  EXPECT_FALSE(plan_attach(host_, true, kMethodNbd).ok());
}

// A note that can't be understood would be in the way of attach, of detach, and of a removal of the package.
TEST_F(FakeHost, ANoteThatFindsNoRoomIsNone) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  for (const rlim_t room : {0, 10}) {
    const rlimit none{room, before.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &none), 0);
    const Status created = create_attachment(stem_, Attachment{});
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
    ASSERT_FALSE(created.ok()) << room;
    EXPECT_NE(created.error().what.find(attachment_path(stem_)), std::string::npos) << created.error().what;
    const Result<std::optional<Attachment>> read = read_attachment(stem_);
    ASSERT_TRUE(read.ok()) << read.error().what;
    EXPECT_FALSE(read.value().has_value());
  }
  (void)signal(SIGXFSZ, handler);
}

TEST_F(FakeHost, ANoteOfAnAttachmentIsReadBack) {
  EXPECT_FALSE(read_attachment(stem_).value().has_value());
  Attachment attachment;
  attachment.volume = "r0";
  attachment.node = "alpha";
  attachment.method = kMethodNbdfuse;
  attachment.mount_dir = stem_ + ".mnt";
  attachment.file = stem_ + ".mnt/r0";
  attachment.log = stem_ + ".nbdfuse.log";
  ASSERT_TRUE(create_attachment(stem_, attachment).ok());
  EXPECT_FALSE(create_attachment(stem_, attachment).ok()) << "two commands at once";
  attachment.device = "/dev/loop3";
  attachment.nbdfuse = ProcessId{4711, 99};
  attachment.complete = true;
  ASSERT_TRUE(update_attachment(stem_, attachment).ok());
  const Result<std::optional<Attachment>> read = read_attachment(stem_);
  ASSERT_TRUE(read.ok() && read.value());
  EXPECT_EQ(to_json(*read.value()), to_json(attachment));
  EXPECT_EQ(read.value()->nbdfuse.pid, 4711);
  ASSERT_TRUE(remove_attachment(stem_).ok());
  EXPECT_FALSE(read_attachment(stem_).value().has_value());
}

TEST_F(FakeHost, ADamagedNoteIsNotGuessedAt) {
  put(attachment_path(stem_), "{\"volume\": ");
  const Result<std::optional<Attachment>> read = read_attachment(stem_);
  ASSERT_FALSE(read.ok());
  EXPECT_NE(read.error().what.find("can't be understood"), std::string::npos);
}

// Nobody answers at the control socket.
Result<json> nobody() { return unreachable("nobody"); }

TEST_F(FakeHost, ASecondaryNamesThePrimary) {
  std::string note;
  const Result<Attachment> result =
      attach(host_, node_status("secondary", true, "primary"), nobody, stem_, kMethodAuto, note);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().what, "alpha is secondary, the primary is beta");
  EXPECT_NE(result.error().action.find("attach on beta"), std::string::npos);
  const Result<Attachment> alone =
      attach(host_, node_status("secondary", false, ""), nobody, stem_, kMethodAuto, note);
  EXPECT_NE(alone.error().action.find("twinblock promote"), std::string::npos);
  EXPECT_FALSE(fs::exists(attachment_path(stem_)));
}

TEST_F(FakeHost, AttachingTwiceSaysWhereItIs) {
  Attachment attachment;
  attachment.volume = "r0";
  attachment.method = kMethodNbd;
  attachment.device = "/dev/nbd7";
  attachment.node_pid = 4711;
  attachment.complete = true;
  ASSERT_TRUE(create_attachment(stem_, attachment).ok());
  put(host_.sys + "/block/nbd7/pid", "77\n");
  json status = node_status("primary", true, "secondary");
  status["pid"] = 4711;
  EXPECT_EQ(clear_dead_attachment(host_, status, stem_).value(), "");
  std::string note;
  const Result<Attachment> again =
      attach(host_, node_status("primary", true, "secondary"), nobody, stem_, kMethodAuto, note);
  ASSERT_FALSE(again.ok());
  EXPECT_EQ(again.error().what, "already attached as /dev/nbd7");
}

// What undid it would take it out of the hands of who makes it.
TEST_F(FakeHost, AttachingBesideWhoIsJustAttachingSaysWhoThatIs) {
  Attachment attachment;
  attachment.volume = "r0";
  attachment.method = kMethodNbd;
  attachment.maker = identify_process(getpid());
  ASSERT_TRUE(create_attachment(stem_, attachment).ok());
  std::string note;
  const auto again = [&] {
    return attach(host_, node_status("primary", true, "secondary"), nobody, stem_, kMethodAuto, note).error();
  };
  EXPECT_EQ(again().what, "process " + std::to_string(getpid()) + " is just attaching it");
  EXPECT_EQ(again().action, "wait for it, see: twinblock status r0");
  attachment.maker.start_ticks += 1;  // that process has ended
  ASSERT_TRUE(update_attachment(stem_, attachment).ok());
  EXPECT_EQ(again().what, "an earlier attach ended half-way");
  EXPECT_NE(again().action.find("twinblock detach"), std::string::npos);
}

TEST_F(FakeHost, ADeadDeviceIsTakenAway) {
  json status = node_status("primary", true, "secondary");
  status["pid"] = 4711;
  EXPECT_EQ(clear_dead_attachment(host_, status, stem_).value(), "") << "nothing is attached";
  Attachment attachment;
  attachment.volume = "r0";
  attachment.method = kMethodNbdfuseFile;
  attachment.mount_dir = stem_ + ".mnt";
  attachment.file = attachment.device = attachment.mount_dir + "/r0";
  attachment.log = stem_ + ".nbdfuse.log";
  attachment.node_pid = 4711;
  ASSERT_TRUE(create_attachment(stem_, attachment).ok());
  EXPECT_EQ(clear_dead_attachment(host_, status, stem_).value(), "") << "may be at work";
  attachment.complete = true;
  attachment.nbdfuse = identify_process(getpid());
  put(mountinfo(), "40 22 0:50 / " + attachment.mount_dir + " rw - fuse.nbdfuse nbdfuse rw\n");
  ASSERT_TRUE(update_attachment(stem_, attachment).ok());
  EXPECT_EQ(clear_dead_attachment(host_, status, stem_).value(), "") << "alive";
  attachment.nbdfuse.start_ticks += 1;  // another process that has got the number
  ASSERT_TRUE(update_attachment(stem_, attachment).ok());
  fs::create_directories(attachment.mount_dir);
  put(attachment.log, "bye");
  const Result<std::string> cleared = clear_dead_attachment(host_, status, stem_);
  ASSERT_TRUE(cleared.ok()) << cleared.error().what;
  EXPECT_NE(cleared.value().find("is dead (nbdfuse has ended)"), std::string::npos)
      << cleared.value();
  for (const std::string& path : {attachment_path(stem_), attachment.mount_dir, attachment.log})
    EXPECT_FALSE(fs::exists(path)) << path;
}

// A detach that had taken the loop device away, and failed then: the note is the old one.
TEST_F(FakeHost, ALoopDeviceThatIsFreeOrSomebodyElsesIsNoAttachment) {
  json status = node_status("primary", true, "secondary");
  status["pid"] = 4711;
  const std::string other = dir_ + "/other.img";
  for (const std::string& behind : {std::string(), other}) {
    const Attachment attachment = attached_by_nbdfuse();
    EXPECT_EQ(clear_dead_attachment(host_, status, stem_).value(), "") << "it works";
    if (behind.empty())
      fs::remove(backing_file());
    else
      put(backing_file(), behind + "\n");
    const std::future<void> ends = let_nbdfuse_end_when_seen();
    const Result<std::string> cleared = clear_dead_attachment(host_, status, stem_);
    ASSERT_TRUE(cleared.ok()) << cleared.error().what;
    EXPECT_NE(cleared.value().find("loop0 of an earlier attach is dead ("), std::string::npos)
        << cleared.value();
    EXPECT_NE(cleared.value().find(behind.empty() ? "it was detached" : other), std::string::npos)
        << cleared.value();
    EXPECT_EQ(cleared.value().find("is lost"), std::string::npos) << "it could be flushed";
    EXPECT_FALSE(read_attachment(stem_).value().has_value());
    EXPECT_FALSE(process_runs(attachment.nbdfuse)) << "it was waited for, and not killed";
    EXPECT_EQ(loop_backing_file(host_, attachment.device), behind) << "not ours to touch";
  }
}

// Another one has been made in the place of the file on which the device is.
TEST_F(FakeHost, ALoopDeviceOnAnotherFileOfTheSameNameIsNotOnThisOne) {
  const std::string file = dir_ + "/image";
  std::ofstream(file) << std::string(1 * kMiB, 'x');
  const LoopDevice device(file);
  if (device.path().empty()) GTEST_SKIP() << "no loop device to be had here";
  put(host_.sys + "/block/" + fs::path(device.path()).filename().string() + "/loop/backing_file",
      file + "\n");
  EXPECT_TRUE(loop_is_on(host_, device.path(), file));
  EXPECT_FALSE(loop_is_on(host_, device.path(), file + "2"));
  fs::rename(file, file + ".old");
  EXPECT_TRUE(loop_is_on(host_, device.path(), file)) << "no other one is known";
  std::ofstream(file) << std::string(1 * kMiB, 'y');
  EXPECT_FALSE(loop_is_on(host_, device.path(), file));
}

TEST_F(FakeHost, AMountThatIsGoneIsNoAttachment) {
  json status = node_status("primary", true, "secondary");
  status["pid"] = 4711;
  attached_by_nbdfuse();
  put(mountinfo(), "");
  fs::remove(backing_file());
  const std::future<void> ends = let_nbdfuse_end_when_seen();
  const Result<std::string> cleared = clear_dead_attachment(host_, status, stem_);
  ASSERT_TRUE(cleared.ok()) << cleared.error().what;
  EXPECT_NE(cleared.value().find("no longer mounted"), std::string::npos) << cleared.value();
  EXPECT_FALSE(read_attachment(stem_).value().has_value());
}

TEST_F(FakeHost, ALoopDeviceThatGoesWithItsLastUserIsNotRecommended) {
  json status = node_status("primary", true, "secondary");
  status["pid"] = 4711;
  const Attachment attachment = attached_by_nbdfuse();
  put(host_.sys + "/block/loop0/loop/autoclear", "1\n");
  EXPECT_EQ(clear_dead_attachment(host_, status, stem_).value(), "") << "it is in use";
  std::string note;
  const Result<Attachment> again = attach(host_, status, nobody, stem_, kMethodAuto, note);
  kill(attachment.nbdfuse.pid, SIGKILL);
  ASSERT_FALSE(again.ok());
  EXPECT_NE(again.error().what.find("has not ended"), std::string::npos) << again.error().what;
  EXPECT_EQ(again.error().action.find("use that"), std::string::npos) << again.error().action;
}

TEST_F(FakeHost, ADeviceByNbdfuseEndsWithTheNodesProcess) {
  json status = node_status("primary", true, "secondary");
  status["pid"] = 4712;
  const Attachment attachment = attached_by_nbdfuse();
  put(mountinfo(), "");
  fs::remove(backing_file());
  let_nbdfuse_end();
  const Result<std::string> cleared = clear_dead_attachment(host_, status, stem_);
  ASSERT_TRUE(cleared.ok()) << cleared.error().what;
  EXPECT_NE(cleared.value().find("is dead (the node was restarted)"), std::string::npos)
      << cleared.value();
  EXPECT_FALSE(process_runs(attachment.nbdfuse));
}

// nbdfuse serves others, who see its mount.
TEST_F(FakeHost, AnAttachmentInAnotherMountNamespaceIsLeftAlone) {
  json status = node_status("primary", true, "secondary");
  status["pid"] = 4711;
  const Attachment attachment = attached_by_nbdfuse();
  put(mountinfo(), "");
  fs::remove(backing_file());
  const std::string process = host_.proc + "/" + std::to_string(attachment.nbdfuse.pid);
  for (const auto& [of, space] : {std::pair(host_.proc + "/self", "mnt:[1]"),
                                  std::pair(process, "mnt:[2]")}) {
    fs::create_directories(of + "/ns");
    fs::create_symlink(space, of + "/ns/mnt");
  }
  EXPECT_EQ(clear_dead_attachment(host_, status, stem_).value(), "");
  std::string note;
  const Result<Attachment> again = attach(host_, status, nobody, stem_, kMethodAuto, note);
  EXPECT_TRUE(process_runs(attachment.nbdfuse));
  kill(attachment.nbdfuse.pid, SIGKILL);
  ASSERT_FALSE(again.ok());
  EXPECT_NE(again.error().what.find("in another mount namespace"), std::string::npos)
      << again.error().what;
}

TEST_F(FakeHost, AnNbdDeviceThatSomebodyElseHasConnectedSinceIsLeftAlone) {
  json status = node_status("primary", true, "secondary");
  status["pid"] = 4711;
  Attachment attachment;
  attachment.method = kMethodNbd;
  attachment.device = host_.dev + "/nbd0";
  attachment.node_pid = 4711;
  attachment.nbd_pid = 77;
  attachment.complete = true;
  ASSERT_TRUE(create_attachment(stem_, attachment).ok());
  put(host_.sys + "/block/nbd0/pid", "77\n");
  EXPECT_EQ(clear_dead_attachment(host_, status, stem_).value(), "") << "it works";
  put(host_.sys + "/block/nbd0/pid", "78\n");
  const Result<std::string> cleared = clear_dead_attachment(host_, status, stem_);
  ASSERT_TRUE(cleared.ok()) << cleared.error().what;
  EXPECT_NE(cleared.value().find("somebody else's"), std::string::npos) << cleared.value();
  EXPECT_FALSE(read_attachment(stem_).value().has_value());
}

TEST_F(FakeHost, ANoteOfAnotherOnesNbdDeviceIsRemovedAndTheDeviceLeftAlone) {
  put(host_.sys + "/block/nbd0/dev", "43:0\n");
  put(host_.sys + "/block/nbd0/pid", "78\n");
  put(mountinfo(), "30 22 43:0 / /theirs rw - ext4 /dev/nbd0 rw\n");
  Attachment attachment;
  attachment.method = kMethodNbd;
  attachment.device = host_.dev + "/nbd0";
  attachment.nbd_pid = 77;
  attachment.complete = true;
  ASSERT_TRUE(create_attachment(stem_, attachment).ok());
  const Status gone = detach(host_, stem_, attachment, false);
  EXPECT_TRUE(gone.ok()) << gone.error().what;
  EXPECT_FALSE(fs::exists(attachment_path(stem_)));
}

TEST_F(FakeHost, ADeadDeviceThatIsMountedStaysAndIsNamed) {
  put(host_.sys + "/block/nbd0/dev", "43:0\n");
  put(host_.sys + "/block/nbd0/pid", "77\n");
  put(mountinfo(), "30 22 43:0 / /mnt rw - ext4 /dev/nbd0 rw\n");
  Attachment attachment;
  attachment.method = kMethodNbd;
  attachment.device = host_.dev + "/nbd0";
  attachment.node_pid = 4711;
  attachment.complete = true;
  attachment.ended = "beta was promoted meanwhile";
  ASSERT_TRUE(create_attachment(stem_, attachment).ok());
  json status = node_status("primary", true, "secondary");
  status["pid"] = 4712;
  const Result<std::string> cleared = clear_dead_attachment(host_, status, stem_);
  ASSERT_FALSE(cleared.ok());
  EXPECT_NE(cleared.error().what.find("is dead (beta was promoted meanwhile)"), std::string::npos);
  EXPECT_NE(cleared.error().what.find("it is mounted at /mnt"), std::string::npos);
  EXPECT_NE(cleared.error().action.find("unmount it"), std::string::npos);
  EXPECT_TRUE(fs::exists(attachment_path(stem_)));
}

TEST_F(FakeHost, AFailedAttachLeavesNothingBehind) {
  if (find_program("nbdfuse").empty() || find_program("fusermount3").empty())
    GTEST_SKIP() << "needs nbdfuse and fusermount3";
  put(host_.dev + "/fuse");
  std::string note;
  const Result<Attachment> failed =
      attach(host_, node_status("primary", true, "secondary"), nobody, stem_, kMethodAuto, note);
  ASSERT_FALSE(failed.ok());
  EXPECT_NE(failed.error().what.find("nbdfuse failed: "), std::string::npos) << failed.error().what;
  EXPECT_FALSE(fs::exists(attachment_path(stem_)));
  EXPECT_FALSE(fs::exists(stem_ + ".mnt"));
}

TEST_F(FakeHost, AMountedDeviceIsNotDetached) {
  put(host_.sys + "/block/nbd0/dev", "43:0\n");
  put(host_.sys + "/block/nbd0/pid", "77\n");
  put(mountinfo(), "30 22 43:0 / /mnt rw - ext4 /dev/nbd0 rw\n");
  Attachment attachment;
  attachment.method = kMethodNbd;
  attachment.device = host_.dev + "/nbd0";
  attachment.complete = true;
  ASSERT_TRUE(create_attachment(stem_, attachment).ok());
  const Status refusal = detach(host_, stem_, attachment, true);
  ASSERT_FALSE(refusal.ok());
  EXPECT_NE(refusal.error().what.find("it is mounted at /mnt"), std::string::npos);
  EXPECT_TRUE(fs::exists(attachment_path(stem_)));
}

// What only the kernel has would be lost with it, and whoever is told that it is detached moves on.
TEST_F(FakeHost, ALoopDeviceThatCanNotBeFlushedStays) {
  const Attachment attachment = attached_by_nbdfuse();
  const auto is_kept = [&](const std::string& why) {
    const Status refusal = detach(host_, stem_, attachment, false);
    EXPECT_TRUE(!refusal.ok() && refusal.error().what.find("can't flush " + attachment.device) == 0) << why;
    EXPECT_TRUE(fs::exists(attachment_path(stem_))) << why;
    EXPECT_TRUE(process_runs(attachment.nbdfuse)) << why;
  };
  is_kept("it can't be opened");
  put(attachment.device);
  noted_syncs().before = [&](const std::string& path) { return path == attachment.device ? EIO : 0; };
  is_kept("its last writes fail");
  noted_syncs().before = [&](const std::string& path) { return path == attachment.device ? raise(SIGKILL) : 0; };
  is_kept("who flushes it is killed");
  kill(attachment.nbdfuse.pid, SIGKILL);
}

TEST_F(FakeHost, ADeviceOfAnInterruptedAttachMayBeSomebodyElses) {
  put(host_.sys + "/block/nbd0/pid", "77\n");
  Attachment attachment;
  attachment.method = kMethodNbd;
  attachment.device = host_.dev + "/nbd0";
  ASSERT_TRUE(create_attachment(stem_, attachment).ok());
  EXPECT_FALSE(detach(host_, stem_, attachment, false).ok());
  fs::remove(host_.sys + "/block/nbd0/pid");
  EXPECT_TRUE(detach(host_, stem_, attachment, false).ok());
  EXPECT_FALSE(fs::exists(attachment_path(stem_)));
}

}  // namespace
}  // namespace twinblock
