// Several may look after a device, `attach --stay` and who gives a command: one at a time has its connection in hand.
#include <gtest/gtest.h>
#include <netlink/errno.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <thread>

#include "io_posix_support.h"
#include "nbd3_support.h"
#include "nbd_kernel.h"
#include "nbd_reconnect_support.h"
#include "scripted_node.h"
#include "twinblock/attach.h"
#include "twinblock/attach_nbd.h"
#include "twinblock/exit_status.h"

namespace twinblock {
namespace {

class NbdInHand : public NbdReconnect {
 protected:
  // The note after `work`, which began while another one held it, who then made of it what `change` says.
  Attachment while_another_holds_the_note(const std::function<Result<FateVerdict>(Attachment&)>& work,
                                          const std::function<void(Attachment&)>& change) {
    node_.emplace(control_, [this](const std::string&, const json&) -> std::optional<std::string> {
      ++hang_ups_;
      return ScriptedNode::good({{"connections", 0}});
    });
    std::optional<HeldNote> other(std::in_place, stem_);
    std::atomic<bool> ended = false;
    std::thread thread([&, attachment = attachment_]() mutable {
      (void)work(attachment);
      ended = true;
    });
    EXPECT_TRUE(soon([&] { return ended || note_is_waited_for(stem_); }));
    EXPECT_FALSE(ended) << "it goes by what the note said before";
    Attachment note = attachment_;
    change(note);
    EXPECT_TRUE(update_attachment(stem_, note).ok());
    other.reset();
    thread.join();
    const Result<std::optional<Attachment>> now = read_attachment(stem_);
    EXPECT_TRUE(now.ok() && now.value());
    return now.ok() ? now.value().value_or(Attachment{}) : Attachment{};
  }
};

// What it has connected is used.
TEST_F(NbdInHand, WhoIsStillAtAConnectionIsWaitedFor) {
  attachment_.server = {};
  attachment_.hung_up_by = identify_process(1);
  ASSERT_TRUE(create_attachment(stem_, attachment_).ok());
  std::optional<Attachment> existing = attachment_;
  const json status = node_status("primary", 5, getpid());
  std::thread other([this, connected = attachment_]() mutable {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    connected.server = identify_process(getpid());
    connected.hung_up_by = {};
    EXPECT_TRUE(update_attachment(stem_, connected).ok());
  });
  const AskStatus ask = [&] { return Result<json>(status); };
  const Result<std::optional<FateVerdict>> done = revive(host_, ask, stem_, existing);
  other.join();
  ASSERT_TRUE(done.ok()) << done.error().what;
  EXPECT_EQ(done.value()->fate, Fate::kKeep);
  EXPECT_TRUE(process_runs(existing->server));
  EXPECT_TRUE(nbd_kernel().orders.empty());
}

// `grow` and the device's unit see the same larger size. The connection that one of them has ended must not be on
// record because the other one found none to end: nobody would make the next one.
TEST_F(NbdInHand, OfTwoWhoMakeADeviceLargerOneEndsItsConnection) {
  attachment_.server = identify_process(getpid());
  ASSERT_TRUE(create_attachment(stem_, attachment_).ok());
  const json status = node_status("primary", 5, getpid());
  const auto note_of_the_other = while_another_holds_the_note(
      [&](Attachment& attachment) {
        Result<FateVerdict> done =
            grow_nbd_device(host_, [&] { return Result<json>(status); }, control_, stem_, attachment);
        EXPECT_EQ(attachment.server.pid, 0) << "its connection has ended, or is about to";
        return done;
      },
      [](Attachment& note) {
        note.server = {};
        note.hung_up_by = identify_process(1);
      });
  EXPECT_EQ(hang_ups_, 0);
  EXPECT_EQ(note_of_the_other.server.pid, 0);
  EXPECT_EQ(note_of_the_other.hung_up_by.pid, 1);
}

TEST_F(NbdInHand, WhatAnotherOneHasInHandIsNotWrittenOver) {
  attachment_.server = identify_process(getpid());
  ASSERT_TRUE(create_attachment(stem_, attachment_).ok());
  const ScriptedNode node(control_, [this](const std::string&, const json&) -> std::optional<std::string> {
    Attachment note = attachment_;
    note.server = {};
    note.hung_up_by = identify_process(1);
    EXPECT_TRUE(update_attachment(stem_, note).ok());
    return ScriptedNode::good({{"connections", 0}});
  });
  const json status = node_status("primary", 5, getpid());
  Attachment attachment = attachment_;
  const Result<FateVerdict> done =
      grow_nbd_device(host_, [&status] { return Result<json>(status); }, control_, stem_, attachment);
  ASSERT_TRUE(done.ok()) << done.error().what;
  EXPECT_EQ(done.value().fate, Fate::kReconnect) << "once the other one has gone";
  EXPECT_TRUE(nbd_kernel().orders.empty());
  EXPECT_EQ(read_attachment(stem_).value()->server.pid, 0);
  EXPECT_EQ(read_attachment(stem_).value()->hung_up_by.pid, 1);
}

// The node may end the connection yet, as it goes on with what it was told in its last moment, or too late.
TEST_F(NbdInHand, WhatTheNodeDoesNotAnswerMayHaveBeenDone) {
  attachment_.server = identify_process(getpid());
  ASSERT_TRUE(create_attachment(stem_, attachment_).ok());
  const json status = node_status("primary", 5, getpid());
  Attachment attachment = attachment_;
  const Result<FateVerdict> done =
      grow_nbd_device(host_, [&status] { return Result<json>(status); }, control_, stem_, attachment);
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error().code, kExitUnreachable);
  EXPECT_EQ(read_attachment(stem_).value()->server.pid, 0);
  EXPECT_EQ(read_attachment(stem_).value()->hung_up_by.pid, getpid()) << "whoever looks next ends it";
  // One that says no has not.
  ASSERT_TRUE(update_attachment(stem_, attachment_).ok());
  const ScriptedNode node(control_, [](const std::string&, const json&) -> std::optional<std::string> {
    return ScriptedNode::refusal("no such verb", "");
  });
  attachment = attachment_;
  EXPECT_FALSE(grow_nbd_device(host_, [&status] { return Result<json>(status); }, control_, stem_, attachment).ok());
  EXPECT_EQ(read_attachment(stem_).value()->server.pid, getpid());
}

// Where both had one process' connections ended, and that was one of the two, its next one might be among them.
TEST_F(NbdInHand, OfTwoWhoFindAGrowthThatWasCutOffOneEndsTheConnection) {
  attachment_.server = {};
  attachment_.hung_up_by = {1 << 30, 1};
  ASSERT_TRUE(create_attachment(stem_, attachment_).ok());
  const auto note_of_the_other = while_another_holds_the_note(
      [&](Attachment&) {
        const Result<pid_t> at_it = finish_hang_up(control_, stem_);
        EXPECT_TRUE(at_it.ok() && at_it.value() == 0);
        return Result<FateVerdict>(FateVerdict{});
      },
      [](Attachment& note) {
        note.server = identify_process(getpid());
        note.hung_up_by = {};
      });
  EXPECT_EQ(hang_ups_, 0);
  EXPECT_TRUE(process_runs(note_of_the_other.server));
}

// Whoever finds that this process has ended then knows whose connection the kernel may have, and has it ended.
TEST_F(NbdInHand, WhatTheKernelIsAboutToTakeIsOnRecord) {
  nbd_kernel().answer = [this](const NbdOrder& order) {
    const Result<std::optional<Attachment>> note = read_attachment(stem_);
    EXPECT_TRUE(note.ok() && note.value());
    EXPECT_EQ(note.value()->server.pid, 0);
    EXPECT_EQ(note.value()->hung_up_by.pid, getpid());
    EXPECT_TRUE(process_runs(note.value()->hung_up_by));
    take_the_socket(order);
    return 0;
  };
  ASSERT_TRUE(reconnect([this] { return Result<json>(node_status("primary", 5, getpid())); }).ok());
  EXPECT_EQ(read_attachment(stem_).value()->server.pid, getpid());
  EXPECT_EQ(read_attachment(stem_).value()->hung_up_by.pid, 0) << "over";
}

// Else nobody could connect it as long as this process, which may be the device's unit, lives. What it had in hand
// before stays there: that connection has ended.
TEST_F(NbdInHand, WhatTheKernelRefusesIsInNobodysHand) {
  nbd_kernel().answer = [](const NbdOrder&) { return -NLE_PERM; };
  const json status = node_status("primary", 5, getpid());
  const auto expect_the_note_of_before = [&] {
    EXPECT_FALSE(reconnect([&] { return Result<json>(status); }).ok());
    EXPECT_EQ(to_json(*read_attachment(stem_).value()), to_json(attachment_));
    EXPECT_EQ(notes(), 1);
  };
  expect_the_note_of_before();
  ASSERT_TRUE(remove_attachment(stem_).ok());
  attachment_.server = {};
  attachment_.hung_up_by = identify_process(getpid());
  expect_the_note_of_before();
  EXPECT_EQ(nbd_kernel().orders.size(), 2u);
}

// Its answer was lost, say.
TEST_F(NbdInHand, WhatTheKernelHasTakenIsOnRecordWhateverItSays) {
  nbd_kernel().answer = [this](const NbdOrder& order) {
    take_the_socket(order);
    return -NLE_NOMEM;
  };
  const Result<FateVerdict> verdict = reconnect([this] { return Result<json>(node_status("primary", 5, getpid())); });
  ASSERT_TRUE(verdict.ok()) << verdict.error().what;
  EXPECT_EQ(read_attachment(stem_).value()->server.pid, getpid());
}

// While this one negotiated with the node. `is`: how the note is then.
TEST_F(NbdInHand, ADeviceIsLeftToWhoWasFaster) {
  Attachment begun = attachment_;
  begun.server = {};
  begun.hung_up_by = identify_process(1);
  Attachment connected = attachment_;
  connected.server = identify_process(getpid());
  const json status = node_status("primary", 5, getpid());
  for (const Attachment& is : {begun, connected}) {
    ASSERT_TRUE(remove_attachment(stem_).ok());
    asked_ = 0;
    const Result<FateVerdict> verdict = reconnect([&]() -> Result<json> {
      if (++asked_ == 2) {
        EXPECT_TRUE(update_attachment(stem_, is).ok());
      }
      return status;
    });
    ASSERT_TRUE(verdict.ok()) << verdict.error().what;
    EXPECT_EQ(verdict.value().fate, is.server.pid == 0 ? Fate::kReconnect : Fate::kKeep);
    EXPECT_TRUE(nbd_kernel().orders.empty());
    EXPECT_EQ(to_json(*read_attachment(stem_).value()), to_json(is));
  }
}

// It would be on record again, and be in the way of the next attach.
TEST_F(NbdInHand, ADeviceThatWasDetachedMeanwhileIsNotConnected) {
  const Result<FateVerdict> verdict = reconnect([this]() -> Result<json> {
    if (++asked_ == 2) {
      EXPECT_TRUE(remove_attachment(stem_).ok());
    }
    return node_status("primary", 5, getpid());
  });
  EXPECT_FALSE(verdict.ok());
  EXPECT_TRUE(nbd_kernel().orders.empty());
  EXPECT_EQ(notes(), 0);
}

}  // namespace
}  // namespace twinblock
