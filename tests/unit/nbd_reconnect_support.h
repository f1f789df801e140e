// A host with an attached device of the kernel's nbd whose connection is to be another one, for tests.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/nbd-netlink.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "io/posix/descriptor.h"
#include "nbd3_support.h"
#include "nbd_kernel.h"
#include "nbd_server.h"
#include "scripted_node.h"
#include "temporary_directory.h"
#include "twinblock/attach.h"
#include "twinblock/attach_nbd.h"
#include "twinblock/exit_status.h"

namespace twinblock {

// A host with /dev/nbd3, whose node was restarted: its successor is this process.
class NbdReconnect : public testing::Test {
 protected:
  using json = nlohmann::json;
  static constexpr uint64_t kSizeBytes = NbdServer::kSizeBytes;

  NbdReconnect() {
    nbd_kernel() = {};
    put(host_.sys + "/block/nbd3/pid", "77\n");
    put(host_.sys + "/block/nbd3/backend", "twinblock/r0\n");
    attachment_ = attached_nbd3(host_);
    attachment_.server.start_ticks += 1;  // that process has ended
  }
  ~NbdReconnect() override { nbd_kernel() = {}; }

  [[nodiscard]] json node_status(const char* role, uint64_t term, pid_t pid) const {
    return {{"node", "alpha"}, {"role", role}, {"term", term}, {"pid", pid}, {"nbd", "nbd+unix:///r0?socket=" + path_}};
  }
  // The node is as the first of them says until it has been asked that often, and then as the second one says.
  AskStatus changes(int after, const json& first, const json& second) {
    return [this, after, first, second]() -> Result<json> { return ++asked_ > after ? second : first; };
  }
  Result<FateVerdict> reconnect(const AskStatus& ask) {
    EXPECT_TRUE(create_attachment(stem_, attachment_).ok());
    return reconnect_nbd_device(host_, ask, stem_, attachment_);
  }
  void expect_that_another_one_is_not_taken(const json& now) {
    const Result<FateVerdict> verdict = reconnect(changes(1, node_status("primary", 5, getpid()), now));
    ASSERT_FALSE(verdict.ok());
    EXPECT_EQ(verdict.error().code, kExitUnreachable);
    EXPECT_TRUE(nbd_kernel().orders.empty());
  }
  // The note of the device, and what is left of others.
  [[nodiscard]] int notes() const {
    int count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(directory_.path()))
      count += entry.path().string().starts_with(stem_ + ".attach") ? 1 : 0;
    return count;
  }
  static std::string word_of(const std::string& path) {
    std::ifstream file(path);
    std::string word;
    file >> word;
    return word;
  }
  // As the kernel does with a socket that it works with.
  void take_the_socket(const NbdOrder& order) {
    ASSERT_EQ(order.sockets.size(), 1u);
    taken_.emplace(::fcntl(order.sockets[0], F_DUPFD_CLOEXEC, 0));
  }

  // The device is in use, and half as large as its volume has become. The node ends its connection when it is told to.
  void make_volume_larger() {
    attachment_.server = identify_process(getpid());
    put(host_.sys + "/block/nbd3/size", "8192\n");  // in sectors
    EXPECT_TRUE(create_attachment(stem_, attachment_).ok());
    node_.emplace(control_, [this](const std::string& verb, const json& args) -> std::optional<std::string> {
      EXPECT_EQ(verb, "hang-up");
      EXPECT_EQ(args["pid"], attachment_.nbd_pid);
      const Result<std::optional<Attachment>> note = read_attachment(stem_);
      EXPECT_TRUE(note.ok() && note.value() && note.value()->server.pid == 0) << "on record before the connection ends";
      EXPECT_EQ(note.value()->hung_up_by.pid, getpid());
      return ScriptedNode::good({{"connections", 1}});
    });
    nbd_kernel().answer = [this](const NbdOrder& order) {
      if (order.sockets.size() == 1) take_the_socket(order);
      return 0;
    };
  }
  // No server is on record: who was to end the connection, so that another one takes its place, had got that far. The
  // node ends it when it is told to, and the kernel takes no other one before. `by`: who it was.
  Result<std::optional<FateVerdict>> look_after_a_growth_of(const ProcessId& by, bool has_ended) {
    attachment_.server = {};
    attachment_.hung_up_by = by;
    EXPECT_TRUE(create_attachment(stem_, attachment_).ok());
    hung_up_ = has_ended;
    node_.emplace(control_, [this](const std::string& verb, const json& args) -> std::optional<std::string> {
      EXPECT_EQ(verb, "hang-up");
      EXPECT_EQ(args["pid"], hang_ups_ == 0 ? attachment_.nbd_pid : attachment_.hung_up_by.pid);
      ++hang_ups_;
      return ScriptedNode::good({{"connections", hung_up_.exchange(true) ? 0 : 1}});
    });
    nbd_kernel().answer = [this](const NbdOrder& order) {
      if (hung_up_) take_the_socket(order);
      return 0;
    };
    json status = node_status("primary", 5, getpid());
    status["control"] = control_;
    std::optional<Attachment> existing = attachment_;
    return revive(host_, [status] { return Result<json>(status); }, stem_, existing);
  }
  void expect_that_it_has_grown() const {
    ASSERT_EQ(nbd_kernel().orders.size(), 2u);
    EXPECT_EQ(nbd_kernel().orders[0].sockets.size(), 1u);
    EXPECT_EQ(nbd_kernel().orders[1].attributes.at(NBD_ATTR_SIZE_BYTES), as_u64(kSizeBytes));
    const Result<std::optional<Attachment>> note = read_attachment(stem_);
    ASSERT_TRUE(note.ok() && note.value());
    EXPECT_TRUE(process_runs(note.value()->server));
  }

  const TemporaryDirectory directory_;
  const HostPaths host_{directory_ / "sys", directory_ / "dev", "/proc"};
  const std::string stem_ = directory_ / "r0";
  const std::string path_ = directory_ / "r0.nbd";
  const std::string control_ = directory_ / "r0.ctl";
  Attachment attachment_;
  int asked_ = 0;
  std::atomic<bool> hung_up_ = false;
  std::atomic<int> hang_ups_ = 0;
  NbdServer server_{path_};
  std::optional<Descriptor> taken_;  // below the server, whose thread ends when it is closed
  std::optional<ScriptedNode> node_;
};

}  // namespace twinblock
