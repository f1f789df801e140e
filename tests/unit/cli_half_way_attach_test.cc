// An attach that was killed before its note was complete is finished by who finds it; others may find it at the
// same time, and the device's requests may wait for its node.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <thread>

#include "base/units.h"
#include "io/posix/descriptor.h"
#include "io_posix_support.h"
#include "nbd3_support.h"
#include "nbd_kernel.h"
#include "nbd_server.h"
#include "temporary_directory.h"
#include "twinblock/attach.h"
#include "twinblock/attach_nbd.h"
#include "twinblock/exit_status.h"
#include "twinblock/process.h"

namespace twinblock {
namespace {

using nlohmann::json;

// A host with /dev/nbd3, whose node was restarted since: its successor is this process.
class HalfWayAttach : public testing::Test {
 protected:
  HalfWayAttach() {
    nbd_kernel() = {};
    put(host_.sys + "/block/nbd3/pid", "77\n");
    put(host_.sys + "/block/nbd3/backend", "twinblock/r0\n");
    put(host_.sys + "/block/nbd3/uevent");
    put(patience_, "30000\n");
    attachment_ = attached_nbd3(host_);
    attachment_.maker = attachment_.server;
    attachment_.maker.start_ticks += 1;  // that process has ended
    attachment_.server = attachment_.maker;
    attachment_.nbd_pid = 0;
    attachment_.complete = false;
    EXPECT_TRUE(create_attachment(stem_, attachment_).ok());
    nbd_kernel().answer = [this](const NbdOrder& order) {
      EXPECT_EQ(order.sockets.size(), 1u);
      EXPECT_EQ(patience(), "30000") << "who sets it may have to wait for the requests that wait for this connection";
      taken_ = Descriptor(::fcntl(order.sockets.at(0), F_DUPFD_CLOEXEC, 0));
      return 0;
    };
  }
  ~HalfWayAttach() override { nbd_kernel() = {}; }

  [[nodiscard]] json node_status() const {
    const std::string nbd = "nbd+unix:///r0?socket=" + path_;
    return {{"node", "alpha"}, {"role", "primary"}, {"term", 5}, {"pid", getpid()}, {"nbd", nbd}};
  }
  [[nodiscard]] Attachment note() const {
    const Result<std::optional<Attachment>> now = read_attachment(stem_);
    EXPECT_TRUE(now.ok() && now.value().has_value());
    return now.ok() ? now.value().value_or(Attachment{}) : Attachment{};
  }
  Result<std::optional<FateVerdict>> look(const Result<json>& status) {
    return revive(host_, [&status] { return status; }, stem_, existing_);
  }
  [[nodiscard]] std::string patience() const {
    std::ifstream file(patience_);
    std::string interval_ms;
    file >> interval_ms;
    return interval_ms;
  }
  // Nobody gets to an end with it, as with a queue that is frozen.
  void freeze(const std::string& attribute) {
    std::filesystem::create_directories(std::filesystem::path(attribute).parent_path());
    std::filesystem::remove(attribute);
    ASSERT_EQ(mkfifo(attribute.c_str(), 0600), 0);
  }

  static constexpr uint64_t kNever_ns = static_cast<uint64_t>(kNever.count()) * kSecond_ns;
  const TemporaryDirectory directory_;
  const HostPaths host_{directory_ / "sys", directory_ / "dev", "/proc"};
  const std::string stem_ = directory_ / "r0";
  const std::string path_ = directory_ / "r0.nbd";
  const std::string patience_ = host_.sys + "/block/nbd3/queue/io_timeout";
  Attachment attachment_;
  std::optional<Attachment> existing_;
  NbdServer server_{path_};
  Descriptor taken_;  // below the server, whose thread ends when it is closed
};

TEST_F(HalfWayAttach, IsOnRecordThenConnectedThenLookedAfter) {
  existing_ = attachment_;
  const AskStatus ask = [this] {
    EXPECT_TRUE(note().complete);
    return Result<json>(node_status());
  };
  const Result<std::optional<FateVerdict>> done = revive(host_, ask, stem_, existing_);
  ASSERT_TRUE(done.ok()) << done.error().what;
  EXPECT_EQ(done.value()->why, "reconnected: alpha is primary again, by the same promotion");
  EXPECT_EQ(nbd_kernel().orders.size(), 1u);
  EXPECT_TRUE(note().complete);
  EXPECT_EQ(note().link, host_.dev + "/twinblock/r0");
  EXPECT_TRUE(process_runs(note().server));
  EXPECT_EQ(patience(), "2000");
}

// Else what is under way at each later restart would be sent again after up to 30 s.
TEST_F(HalfWayAttach, OneThatIsFinishedWhileItsNodeIsAwayIsLookedAfterOnceThatIsBack) {
  existing_ = attachment_;
  EXPECT_EQ(look(unreachable("nobody answers")).value()->fate, Fate::kWait);
  EXPECT_TRUE(note().complete);
  EXPECT_EQ(patience(), "30000");
  EXPECT_EQ(look(node_status()).value()->fate, Fate::kKeep);
  EXPECT_EQ(nbd_kernel().orders.size(), 1u);
  EXPECT_EQ(patience(), "2000");
}

// It may have too many who ask.
TEST_F(HalfWayAttach, IsLookedAfterThoughItsNodeRefusesToSayHowItIs) {
  attachment_.server = identify_process(getpid());
  ASSERT_TRUE(update_attachment(stem_, attachment_).ok());
  existing_ = attachment_;
  EXPECT_FALSE(look(refused("too many control connections")).ok());
  EXPECT_TRUE(note().complete);
  EXPECT_EQ(patience(), "2000");
}

// A note of the server before would make a device that works one that waits, and that the kernel gives no connection.
TEST_F(HalfWayAttach, WhoFindsItLateLeavesTheNoteOfWhoWasFaster) {
  existing_ = attachment_;
  std::optional<HeldNote> faster(std::in_place, stem_);
  std::atomic<bool> ended = false;
  Result<std::optional<FateVerdict>> late = std::optional<FateVerdict>{};
  std::thread thread([&] {
    late = look(node_status());
    ended = true;
  });
  EXPECT_TRUE(soon([&] { return ended || note_is_waited_for(stem_); }));
  EXPECT_FALSE(ended);
  attachment_.complete = true;
  attachment_.nbd_pid = 77;
  attachment_.server = identify_process(getpid());
  EXPECT_TRUE(update_attachment(stem_, attachment_).ok());
  faster.reset();
  thread.join();
  ASSERT_TRUE(late.ok()) << late.error().what;
  ASSERT_TRUE(late.value().has_value());
  EXPECT_EQ(late.value()->fate, Fate::kKeep);
  EXPECT_TRUE(process_runs(note().server));
  EXPECT_TRUE(process_runs(existing_->server));
  EXPECT_TRUE(nbd_kernel().orders.empty());
}

// A change puts another file in its place, which the next one may hold at once.
TEST_F(HalfWayAttach, ItsNoteIsHeldByOneAfterTheOther) {
  std::optional<HeldNote> first(std::in_place, stem_);
  std::atomic<bool> is_held = false;
  std::thread thread([&] {
    const HeldNote held(stem_);
    is_held = true;
  });
  EXPECT_TRUE(soon([&] { return is_held || note_is_waited_for(stem_); }));
  EXPECT_FALSE(is_held);
  EXPECT_TRUE(update_attachment(stem_, attachment_).ok());
  std::optional<HeldNote> second(std::in_place, stem_);
  first.reset();
  EXPECT_TRUE(soon([&] { return is_held || note_is_waited_for(stem_); }));
  EXPECT_FALSE(is_held);
  second.reset();
  thread.join();
  EXPECT_TRUE(is_held);
}

// Its node runs, and answers none of them: it waits for its witness, say.
TEST_F(HalfWayAttach, IsFinishedThoughItsRequestsAreHeld) {
  attachment_.server = identify_process(getpid());
  ASSERT_TRUE(update_attachment(stem_, attachment_).ok());
  existing_ = attachment_;
  freeze(patience_);
  const json status = node_status();
  EXPECT_EQ(apart([&] { return look(status).ok() ? 0 : 1; }, kNever_ns), 0);
  EXPECT_TRUE(note().complete);
}

// udev reads what is new.
TEST_F(HalfWayAttach, ANewDeviceIsThereThoughItsRequestsAreHeld) {
  freeze(host_.sys + "/block/nbd0/queue/io_timeout");
  nbd_kernel().answer = nullptr;
  const json status = node_status();
  attachment_.device.clear();
  EXPECT_EQ(apart(
                [&] {
                  const Result<std::string> made =
                      make_nbd_device(host_, [&] { return Result<json>(status); }, stem_, attachment_);
                  return made.ok() && made.value() == host_.dev + "/nbd0" && nbd_kernel().orders.size() == 1 ? 0 : 1;
                },
                kNever_ns),
            0);
}

}  // namespace
}  // namespace twinblock
