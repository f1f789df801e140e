// A device that nbdfuse serves: how it is, and that what was written to it is on the volume before it goes.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/units.h"
#include "fake_host.h"
#include "ignored_children.h"
#include "twinblock/detach.h"
#include "twinblock/device_text.h"

namespace twinblock {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

class NbdfuseDevice : public FakeHost {
 protected:
  NbdfuseDevice() { status_["pid"] = 4711; }
  ~NbdfuseDevice() override { noted_syncs().clear(); }

  static void fail_flushes_of(const std::string& file) {
    noted_syncs().before = [file](const std::string& path) { return path == file ? EIO : 0; };
  }

  json status_ = node_status("primary", true, "secondary");
};

// Pacemaker goes by it, too: a service would be left on what gives nothing but errors.
TEST_F(NbdfuseDevice, StatusSaysWhetherItLives) {
  const Attachment attachment = attached_by_nbdfuse();
  const auto state = [&] { return attached_device(host_, status_, stem_)["state"].get<std::string>(); };
  EXPECT_EQ(state(), "connected");
  status_["pid"] = 4712;
  EXPECT_EQ(state(), "dead") << "its node was restarted";
  status_["pid"] = 4711;
  EXPECT_EQ(state(), "connected");
  kill(attachment.nbdfuse.pid, SIGKILL);
  ASSERT_TRUE(wait_process_end(attachment.nbdfuse, 60 * kSecond_ns));
  EXPECT_EQ(state(), "dead") << "nbdfuse has ended";
}

// Its file is no longer mounted, and the loop device on it still holds what was written.
TEST_F(NbdfuseDevice, WhatIsLeftOfItIsFlushedOrStays) {
  const Attachment attachment = attached_by_nbdfuse();
  put(mountinfo(), "");
  put(attachment.device);
  fail_flushes_of(attachment.device);
  const Result<std::string> cleared = clear_dead_attachment(host_, status_, stem_);
  kill(attachment.nbdfuse.pid, SIGKILL);
  ASSERT_FALSE(cleared.ok()) << cleared.value();
  EXPECT_NE(cleared.error().what.find("can't flush " + attachment.device), std::string::npos) << cleared.error().what;
  EXPECT_TRUE(fs::exists(attachment_path(stem_)));
}

// As a service of a container or a script of Perl may be started.
TEST_F(NbdfuseDevice, AFlushThatFailsIsHeardOfWhereChildrenAreIgnored) {
  const Attachment attachment = attached_by_nbdfuse();
  put(attachment.device);
  fail_flushes_of(attachment.device);
  const IgnoredChildren ignored;
  const Status kept = detach(host_, stem_, attachment, false);
  kill(attachment.nbdfuse.pid, SIGKILL);
  ASSERT_FALSE(kept.ok());
  EXPECT_EQ(kept.error().what, system_error(EIO, "can't flush " + attachment.device).what);
  EXPECT_TRUE(fs::exists(attachment_path(stem_)));
}

// Where there are no loop devices, the file itself is what is used.
TEST_F(NbdfuseDevice, AFileThatCanNotBeFlushedStays) {
  Attachment attachment = attached_by_nbdfuse();
  fs::remove(backing_file());
  fs::create_directory_symlink("/proc", attachment.mount_dir);  // a mount is on another device than what is above it
  attachment.method = kMethodNbdfuseFile;
  attachment.device = attachment.file = dir_ + "/file";
  put(attachment.file);
  ASSERT_TRUE(update_attachment(stem_, attachment).ok());
  // Nothing of this machine's is unmounted, whatever detach does; nbdfuse ends with its mount.
  put(dir_ + "/bin/fusermount3", "#!/bin/sh\nrm " + runs_ + "\n");
  ASSERT_EQ(chmod((dir_ + "/bin/fusermount3").c_str(), 0755), 0);
  const char* path = getenv("PATH");
  const std::string before = path == nullptr ? "" : path;
  setenv("PATH", (dir_ + "/bin:" + before).c_str(), 1);
  fail_flushes_of(attachment.file);
  const Status kept = detach(host_, stem_, attachment, false);
  setenv("PATH", before.c_str(), 1);
  const bool ran = process_runs(attachment.nbdfuse);
  kill(attachment.nbdfuse.pid, SIGKILL);
  ASSERT_FALSE(kept.ok());
  EXPECT_EQ(kept.error().what, system_error(EIO, "can't flush " + attachment.file).what);
  EXPECT_TRUE(ran);
  EXPECT_TRUE(fs::exists(attachment_path(stem_)));
}

}  // namespace
}  // namespace twinblock
