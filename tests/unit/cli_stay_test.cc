// Who looks after a device is told to stop, while that waits for its node.
#include "twinblock/stay.h"

#include <gtest/gtest.h>
#include <linux/nbd-netlink.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <utility>

#include "base/units.h"
#include "nbd3_support.h"
#include "nbd_kernel.h"
#include "service_manager.h"
#include "temporary_directory.h"
#include "twinblock/detach.h"
#include "twinblock/exit_status.h"
#include "twinblock/nbd_device.h"
#include "twinblock/process.h"

namespace twinblock {
namespace {

using nlohmann::json;

// A host with /dev/nbd3, which is mounted, and whose node's process has ended.
class StayBesideADevice : public testing::Test {
 protected:
  StayBesideADevice() {
    nbd_kernel() = {};
    put(host_.sys + "/block/nbd3/pid", "77\n");
    put(host_.sys + "/block/nbd3/backend", "twinblock/r0\n");
    put(host_.sys + "/block/nbd3/dev", "43:3\n");
    put(host_.proc + "/self/mountinfo", "30 22 43:3 / /mnt rw - ext4 /dev/nbd3 rw\n");
    Attachment attachment = attached_nbd3(host_);
    attachment.server.start_ticks += 1;
    EXPECT_TRUE(create_attachment(stem_, attachment).ok());
  }
  ~StayBesideADevice() override { nbd_kernel() = {}; }

  // Told to stop while nobody answers; who asks after that hears `then`.
  Result<Output> stopped(const Result<json>& then) {
    bool told = false;
    const AskStatus ask = [&told, &then]() -> Result<json> {
      if (told) return then;
      told = true;
      raise(SIGTERM);
      return unreachable("nobody answers");
    };
    return stay_attached(host_, ask, stem_, [](const std::string&) {});
  }

  // As an attach has left it that was killed before it could note that the kernel has the device.
  void begin_half_way(const ProcessId& maker) {
    Attachment attachment = attached_nbd3(host_);
    attachment.nbd_pid = 0;
    attachment.complete = false;
    attachment.maker = maker;
    EXPECT_TRUE(update_attachment(stem_, attachment).ok());
    put(host_.dev + "/nbd3");
    put(host_.sys + "/block/nbd3/uevent");
    put(host_.sys + "/block/nbd3/queue/io_timeout", "30000\n");
  }
  [[nodiscard]] std::string patience() const {
    std::ifstream file(host_.sys + "/block/nbd3/queue/io_timeout");
    std::string interval_ms;
    file >> interval_ms;
    return interval_ms;
  }
  static ProcessId ended_process() {
    ProcessId process = identify_process(getpid());
    process.start_ticks += 1;
    return process;
  }
  // Told to stop at that question, if it has not ended by itself. The answer to each is `status`.
  Result<Output> looked(const json& status, int stops_at) {
    const AskStatus ask = [&stops_at, &status]() -> Result<json> {
      if (--stops_at == 0) raise(SIGTERM);
      return status;
    };
    sigset_t stops, before;
    sigemptyset(&stops);
    sigaddset(&stops, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &stops, &before);
    Result<Output> done = stay_attached(host_, ask, stem_, [this](const std::string& what) { said_ += what + "\n"; });
    // Who has ended by itself has not taken it.
    const timespec at_once{};
    (void)sigtimedwait(&stops, nullptr, &at_once);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return done;
  }
  static json node_status(const char* role) {
    return {{"volume", "r0"}, {"node", "alpha"}, {"role", role}, {"term", 5}, {"pid", getpid()},
            {"peer", {{"name", "beta"}}}};
  }

  const TemporaryDirectory directory_;
  const HostPaths host_{directory_ / "sys", directory_ / "dev", directory_ / "proc"};
  const std::string stem_ = directory_ / "r0";
  std::string said_;
};

// Too many ask at a time, say, or the kernel has not noticed yet that the process before has ended: who gave it up then
// would leave it without anybody to connect it again.
TEST_F(StayBesideADevice, ARefusalIsBorne) {
  int asked = 0;
  const AskStatus ask = [&asked]() -> Result<json> {
    ++asked;
    if (asked == 2) return refused("too many control connections");
    if (asked == 3) raise(SIGTERM);
    return unreachable("nobody answers");
  };
  const Result<Output> done = stay_attached(host_, ask, stem_, [](const std::string&) {});
  EXPECT_GE(asked, 3);
  ASSERT_FALSE(done.ok());
  EXPECT_NE(done.error().what.find("stays, and nobody looks after it"), std::string::npos) << done.error().what;
}

// From now on nobody looks after the device, and an umount would hang for good.
TEST_F(StayBesideADevice, WhatNothingTakesBackIsEndedOnTheWayOut) {
  const Result<Output> done = stopped(
      json{{"node", "alpha"}, {"role", "secondary"}, {"term", 5}, {"pid", 1}, {"peer", {{"name", "beta"}}},
           {"witness", {{"state", "refused"}, {"holder", "beta"}}}});
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error().code, kExitStale) << done.error().what;
  ASSERT_EQ(nbd_kernel().orders.size(), 1u);
  EXPECT_EQ(nbd_kernel().orders[0].command, NBD_CMD_DISCONNECT);
  EXPECT_NE(read_attachment(stem_).value()->ended, "");
}

// What may still be written is given up by nobody but the operator.
TEST_F(StayBesideADevice, WhatItsNodeMayTakeBackStays) {
  const Result<Output> done = stopped(unreachable("nobody answers"));
  ASSERT_FALSE(done.ok());
  EXPECT_NE(done.error().what.find("stays, and nobody looks after it"), std::string::npos) << done.error().what;
  EXPECT_TRUE(nbd_kernel().orders.empty());
  EXPECT_EQ(read_attachment(stem_).value()->ended, "");
}

// Also where nobody has it mounted, or open: whoever wrote to it last has ended, and it holds that.
TEST_F(StayBesideADevice, WhatNobodyUsesAndIsNotWrittenStaysToo) {
  put(host_.proc + "/self/mountinfo", "");
  const Result<Output> done = stopped(unreachable("nobody answers"));
  ASSERT_FALSE(done.ok());
  EXPECT_TRUE(nbd_kernel().orders.empty());
  ASSERT_TRUE(read_attachment(stem_).value().has_value());
  EXPECT_EQ(read_attachment(stem_).value()->ended, "");
}

// A mount that waited for its name may have it by now.
TEST_F(StayBesideADevice, WhatAnAttachWasKilledInIsFinished) {
  begin_half_way(ended_process());
  (void)looked(node_status("primary"), 1);
  EXPECT_NE(said_.find("is attached"), std::string::npos) << said_;
  const Attachment note = *read_attachment(stem_).value();
  EXPECT_TRUE(note.complete);
  EXPECT_EQ(note.nbd_pid, 77);
  EXPECT_EQ(note.link, host_.dev + "/twinblock/r0");
  EXPECT_EQ(nbd_device_backend(host_, note.device), "twinblock/r0");
  EXPECT_EQ(patience(), "2000");
  EXPECT_TRUE(nbd_kernel().orders.empty());
}

// Another promotion may have been made meanwhile, as for any device.
TEST_F(StayBesideADevice, WhatAnAttachWasKilledInIsEndedWhereItsPagesMayBeStale) {
  begin_half_way(ended_process());
  json status = node_status("primary");
  status["term"] = 6;
  const Result<Output> done = looked(status, 5);
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error().code, kExitStale) << done.error().what;
  ASSERT_EQ(nbd_kernel().orders.size(), 1u);
  EXPECT_EQ(nbd_kernel().orders[0].command, NBD_CMD_DISCONNECT);
  EXPECT_EQ(patience(), "30000") << "it is its next user's";
}

TEST_F(StayBesideADevice, WhatTheKernelHasNotOfAnAttachThatWasKilledIsForgotten) {
  for (const char* backend : {"", "twinblock/r1\n"}) {
    begin_half_way(ended_process());
    if (*backend == '\0') std::filesystem::remove(host_.sys + "/block/nbd3/pid");
    else put(host_.sys + "/block/nbd3/pid", "78\n");
    put(host_.sys + "/block/nbd3/backend", backend);
    const Result<Output> done = looked(node_status("secondary"), 1);
    EXPECT_TRUE(done.ok()) << done.error().what;
    EXPECT_FALSE(read_attachment(stem_).value().has_value()) << backend;
    EXPECT_TRUE(nbd_kernel().orders.empty()) << "it is somebody else's";
    EXPECT_EQ(patience(), "30000");
    EXPECT_FALSE(std::filesystem::is_symlink(host_.dev + "/twinblock/r0"));
  }
}

TEST_F(StayBesideADevice, AnAttachThatIsAtWorkIsLeftToWhoeverIsAtIt) {
  begin_half_way(identify_process(getpid()));
  const Result<Output> done = looked(node_status("primary"), 5);
  ASSERT_FALSE(done.ok());
  EXPECT_NE(done.error().what.find("is just attaching it"), std::string::npos) << done.error().what;
  EXPECT_FALSE(read_attachment(stem_).value()->complete);
  EXPECT_FALSE(detach(host_, stem_, *read_attachment(stem_).value(), false).ok());
  EXPECT_TRUE(nbd_kernel().orders.empty());
}

// The guide demotes the node right after the unit's stop.
TEST_F(StayBesideADevice, ItsStopHasEndedWhenTheNodeHasNoticed) {
  ASSERT_TRUE(update_attachment(stem_, attached_nbd3(host_)).ok());
  put(host_.proc + "/self/mountinfo");
  put(host_.dev + "/nbd3");
  nbd_kernel().answer = [this](const NbdOrder&) {
    std::filesystem::remove(host_.sys + "/block/nbd3/pid");
    return 0;
  };
  int asked = 0, asked_after = 0;
  const AskStatus ask = [&]() -> Result<json> {
    if (++asked == 1) raise(SIGTERM);
    if (!nbd_kernel().orders.empty()) ++asked_after;
    json status = node_status("primary");
    status["clients"] = asked_after < 3 ? 2 : 1;
    return status;
  };
  const Result<Output> done = stay_attached(host_, ask, stem_, [](const std::string&) {});
  ASSERT_TRUE(done.ok()) << done.error().what;
  EXPECT_EQ(asked_after, 3);
}

// Else nobody could tell later on whether it is still at work.
TEST_F(StayBesideADevice, WhoMakesADeviceIsOnRecordBeforeAnythingIsDone) {
  if (geteuid() != 0) GTEST_SKIP() << "the kernel's nbd needs root";
  ASSERT_TRUE(remove_attachment(stem_).ok());
  put(host_.dev + "/nbd0");
  json status = node_status("primary");
  status["nbd"] = "nbd+unix:///r0?socket=" + directory_ / "nobody";
  pid_t maker = 0;
  const AskStatus ask = [&]() -> Result<json> {
    const Result<std::optional<Attachment>> note = read_attachment(stem_);
    if (note.ok() && note.value() && note.value()->device.empty()) maker = note.value()->maker.pid;
    return status;
  };
  bool told = false;
  (void)stay_attached(host_, ask, stem_, [&told](const std::string&) {
    if (!std::exchange(told, true)) raise(SIGTERM);
  });
  EXPECT_EQ(maker, getpid());
  EXPECT_TRUE(nbd_kernel().orders.empty());
}

// The kernel says whose it is, so that the order that is told is one that helps.
TEST_F(StayBesideADevice, WhatAnAttachWasKilledInCanBeDetached) {
  put(host_.proc + "/self/mountinfo", "");
  begin_half_way(ended_process());
  const Status gone = detach(host_, stem_, *read_attachment(stem_).value(), false);
  EXPECT_TRUE(gone.ok()) << gone.error().what;
  EXPECT_EQ(nbd_kernel().orders.size(), 1u);
  EXPECT_FALSE(read_attachment(stem_).value().has_value());
}

// A unit that is never ready is ended by its manager, and the device with it.
TEST_F(StayBesideADevice, ItsUnitHasStartedWhenItIsThere) {
  const ServiceManager manager(directory_ / "notify");
  (void)stopped(unreachable("nobody answers"));
  EXPECT_TRUE(manager.heard_ready());
}

// It is to have its node back soon after that is primary again. A pause is never shorter than it should be, and of many
// there is one that is not much longer, however busy the machine is.
TEST_F(StayBesideADevice, OneThatWaitsIsLookedAfterOften) {
  constexpr int kLooks = 20;
  int looks = 0;
  uint64_t last_ns = 0;
  bool soon = false;
  bool told = false;  // to stop; at once it looks once more
  const AskStatus ask = [&]() -> Result<json> {
    const uint64_t now_ns = steady_now_ns();
    if (!told) soon = looks > 0 && now_ns - last_ns < kSecond_ns;
    last_ns = now_ns;
    ++looks;
    if (!told && (soon || looks == kLooks)) {
      told = true;
      raise(SIGTERM);
    }
    return unreachable("nobody answers");
  };
  EXPECT_FALSE(stay_attached(host_, ask, stem_, [](const std::string&) {}).ok());
  EXPECT_TRUE(soon);
}

}  // namespace
}  // namespace twinblock
