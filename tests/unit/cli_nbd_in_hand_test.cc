// Several may look after a device, `attach --stay` and who gives a command: one at a time has its connection in hand.
#include <gtest/gtest.h>
#include <netlink/errno.h>
#include <unistd.h>

#include <atomic>
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
  const AskStatus ask = [&] {
    attachment_.server = identify_process(getpid());
    attachment_.hung_up_by = {};
    EXPECT_TRUE(update_attachment(stem_, attachment_).ok());
    return Result<json>(status);
  };
  const Result<std::optional<FateVerdict>> done = revive(host_, ask, stem_, existing);
  ASSERT_TRUE(done.ok()) << done.error().what;
  EXPECT_EQ(done.value()->fate, Fate::kKeep);
  EXPECT_TRUE(process_runs(existing->server));
  EXPECT_TRUE(nbd_kernel().orders.empty());
}

// `grow` and the device's unit see the same larger size. The connection that one of them has ended must not be on record
// because the other one found none to end: nobody would make the next one.
TEST_F(NbdInHand, OfTwoWhoMakeADeviceLargerOneEndsItsConnection) {
  attachment_.server = identify_process(getpid());
  ASSERT_TRUE(create_attachment(stem_, attachment_).ok());
  const json status = node_status("primary", 5, getpid());
  const auto note_of_the_other = while_another_holds_the_note(
      [&](Attachment& attachment) {
        return grow_nbd_device(host_, [&] { return Result<json>(status); }, control_, stem_, attachment);
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

}  // namespace
}  // namespace twinblock
