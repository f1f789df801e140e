// What the tests of a backing's copies share: a loop of their own, commands, and a file system that has reflinks.
#pragma once

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <future>
#include <iterator>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "io/posix/backing_copies.h"
#include "io_posix_support.h"
#include "loop_device.h"
#include "noted_syncs.h"

namespace twinblock {

class KeptLog final : public Log {
 public:
  void log(Severity, const std::string& line) override {
    const std::lock_guard lock(mutex_);
    lines_ += line + "\n";
  }
  std::string lines() {
    const std::lock_guard lock(mutex_);
    return lines_;
  }

 private:
  std::mutex mutex_;
  std::string lines_;
};

inline std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void write(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

inline bool exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

inline bool says(const Status& status, const std::string& part) {
  return !status.ok() && (status.error().what + "; " + status.error().action).find(part) != std::string::npos;
}

class CopiesTest : public ::testing::Test {
 protected:
  CopiesTest() { noted_syncs().clear(); }
  void TearDown() override {
    if (copies_) loop_.call([&] { copies_.reset(); });
  }
  std::string script(const std::string& body, mode_t mode = 0755) {
    const std::string path = directory_ / "copy";
    write(path, "#!/bin/sh\n" + body);
    ::chmod(path.c_str(), mode);
    return path;
  }
  void make(const CopyWays& ways, const std::string& backing) {
    const BackingCopies::Of of{"r0", "beta", backing, directory_ / "lock"};
    loop_.call([&] { copies_ = std::make_unique<BackingCopies>(*loop_, log_, of, ways); });
  }
  void open(const CopyWays& ways, const std::string& backing) {
    loop_.start();
    make(ways, backing);
  }
  void open_command(const std::string& path, uint64_t timeout_ns = 600 * kSecond_ns) {
    CopyWays ways;
    ways.before_resync.command = ways.after_resync.command = ways.rollback.command = path;
    ways.timeout_ns = timeout_ns;
    write(directory_ / "backing", "data");
    open(ways, directory_ / "backing");
  }
  Status run(CopyStep step, const std::string& name = "") {
    std::promise<Status> said;
    bool inside = false;
    loop_->post([&] {
      inside = true;
      copies_->begin(step, name, [&](Status status) {
        EXPECT_FALSE(inside) << "never from within the request";
        said.set_value(std::move(status));
      });
      inside = false;
    });
    return said.get_future().get();
  }

  const TemporaryDirectory directory_;
  KeptLog log_;
  RunningLoop loop_;
  std::unique_ptr<BackingCopies> copies_;
};

inline CopyWays reflinks() {
  CopyWays ways;
  ways.before_resync.reflink = ways.after_resync.reflink = ways.rollback.reflink = true;
  ways.timeout_ns = 60 * kSecond_ns;
  return ways;
}

// A file system with reflinks on a loop device, as root.
class XfsCopiesTest : public CopiesTest {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "mounting needs root";
    const std::string image = directory_ / "image";
    write(image, "");
    ASSERT_EQ(::truncate(image.c_str(), 320 << 20), 0);
    mount_ = directory_ / "mnt";
    ::mkdir(mount_.c_str(), 0755);
    if (::system(("mkfs.xfs -q -m reflink=1 " + image + " >/dev/null 2>&1").c_str()) != 0)
      GTEST_SKIP() << "there is no mkfs.xfs";
    device_ = std::make_unique<LoopDevice>(image);
    if (device_->path().empty() || ::system(("mount " + device_->path() + " " + mount_ + " 2>/dev/null").c_str()) != 0)
      GTEST_SKIP() << "no loop device can be mounted here";
    mounted_ = true;
    backing_ = mount_ + "/r0.img";
    write(backing_, std::string(1 << 20, 'a'));
    open(reflinks(), backing_);
  }
  void TearDown() override {
    CopiesTest::TearDown();
    if (mounted_) {
      EXPECT_EQ(::system(("umount " + mount_).c_str()), 0);
    }
    device_.reset();
  }
  // What makes a copy has made it durable, and after that the name that it has.
  void expect_durable(CopyStep makes, const std::string& name, const std::string& copy) {
    noted_syncs().clear();
    bool had_name = false;
    noted_syncs().before = [&](const std::string& path) {
      if (path == mount_) had_name = exists(copy);
      return 0;
    };
    EXPECT_TRUE(run(makes, name).ok());
    EXPECT_TRUE(exists(copy));
    EXPECT_TRUE(noted_syncs().had(copy + ".part"));
    EXPECT_TRUE(noted_syncs().had(mount_) && had_name);
    noted_syncs().clear();
  }
  void fail_to_sync(const std::string& name) {
    noted_syncs().before = [name](const std::string& path) { return path == name ? EIO : 0; };
  }
  std::string mount_, backing_;
  std::unique_ptr<LoopDevice> device_;
  bool mounted_ = false;
};

}  // namespace twinblock
