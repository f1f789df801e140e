// A host of files with an attachment by nbdfuse, for tests; their program has noted_syncs.cc.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "base/units.h"
#include "noted_syncs.h"
#include "temporary_directory.h"
#include "twinblock/attach.h"
#include "twinblock/process.h"

namespace twinblock {

// A host of files: sysfs, /dev and mountinfo.
class FakeHost : public testing::Test {
 protected:
  FakeHost() {
    noted_syncs().clear();
    host_ = HostPaths{dir_ + "/sys", dir_ + "/dev", dir_ + "/proc"};
    std::filesystem::create_directories(host_.sys + "/block");
    std::filesystem::create_directories(host_.sys + "/module");
    std::filesystem::create_directories(host_.dev);
    std::filesystem::create_directories(dir_ + "/run");
    stem_ = dir_ + "/run/r0";
  }

  static void put(const std::string& path, const std::string& text = "") {
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path) << text;
  }

  [[nodiscard]] std::string mountinfo() const { return host_.proc + "/self/mountinfo"; }

  // For as long as that file is there, but for no more than a minute.
  static constexpr const char* kRunsWhile =
      "n=0; while [ -e \"$0\" ] && [ $((n += 1)) -lt 3000 ]; do sleep 0.02; done";

  // A finished attachment by nbdfuse with a loop device, whose node is process 4711, as attach
  // leaves it; `nbdfuse` runs until it is to end, if it ever does.
  Attachment attached_by_nbdfuse() {
    put(runs_);
    Attachment attachment;
    attachment.volume = "r0";
    attachment.node = "alpha";
    attachment.method = kMethodNbdfuse;
    attachment.mount_dir = stem_ + ".mnt";
    attachment.file = attachment.mount_dir + "/r0";
    attachment.device = host_.dev + "/loop0";
    attachment.log = stem_ + ".nbdfuse.log";
    attachment.node_pid = 4711;
    attachment.nbdfuse =
        identify_process(start_background({"sh", "-c", kRunsWhile, runs_}, "/dev/null").value());
    attachment.complete = true;
    EXPECT_TRUE(create_attachment(stem_, attachment).ok());
    put(mountinfo(), "40 22 0:50 / " + attachment.mount_dir + " rw - fuse.nbdfuse nbdfuse rw\n");
    put(backing_file(), attachment.file + "\n");
    return attachment;
  }
  void let_nbdfuse_end() const { std::filesystem::remove(runs_); }
  // … not before it was seen to run: when somebody then asks where things are mounted.
  [[nodiscard]] std::future<void> let_nbdfuse_end_when_seen() const {
    std::filesystem::rename(mountinfo(), mountinfo() + ".told");
    EXPECT_EQ(mkfifo(mountinfo().c_str(), 0600), 0);
    return std::async(std::launch::async, [this] {
      int asked = -1;
      for (int i = 0; i < 3000 && asked < 0; ++i) {
        asked = open(mountinfo().c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
        if (asked < 0) sleep_ns(20 * kMillisecond_ns);
      }
      std::filesystem::rename(mountinfo() + ".told", mountinfo());  // for whoever asks again
      std::ifstream told(mountinfo());
      const std::string mounts{std::istreambuf_iterator<char>(told), {}};
      EXPECT_EQ(write(asked, mounts.data(), mounts.size()), static_cast<ssize_t>(mounts.size()));
      close(asked);
      let_nbdfuse_end();
    });
  }
  [[nodiscard]] std::string backing_file() const {
    return host_.sys + "/block/loop0/loop/backing_file";
  }

  const TemporaryDirectory directory_;
  const std::string dir_ = directory_.path();
  std::string stem_;
  HostPaths host_;
  const std::string runs_ = dir_ + "/nbdfuse-runs";
};

inline nlohmann::json node_status(const std::string& role, bool connected, const std::string& peer_role) {
  return nlohmann::json{{"volume", "r0"},
                        {"node", "alpha"},
                        {"role", role},
                        {"nbd", "nbd+unix:///?socket=/nowhere/r0.nbd"},
                        {"peer", {{"name", "beta"}, {"connected", connected}, {"role", peer_role}}}};
}

}  // namespace twinblock
