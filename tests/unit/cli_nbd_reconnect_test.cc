// Between the question how a node is and the connection that the kernel is given, the node may become another one.
#include <gtest/gtest.h>
#include <linux/nbd-netlink.h>
#include <netlink/errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "nbd3_support.h"
#include "nbd_kernel.h"
#include "nbd_reconnect_support.h"
#include "nbd_server.h"
#include "scripted_node.h"
#include "twinblock/attach.h"
#include "twinblock/attach_nbd.h"
#include "twinblock/detach.h"
#include "twinblock/exit_status.h"
#include "twinblock/nbd_device.h"

namespace twinblock {
namespace {

TEST_F(NbdReconnect, ADeviceGetsTheNodesProcessOfNow) {
  const json status = node_status("primary", 5, getpid());
  nbd_kernel().answer = [this](const NbdOrder& order) {
    take_the_socket(order);
    return 0;
  };
  const Result<FateVerdict> verdict = reconnect([&status] { return Result<json>(status); });
  ASSERT_TRUE(verdict.ok()) << verdict.error().what;
  EXPECT_EQ(verdict.value().fate, Fate::kKeep);
  ASSERT_EQ(nbd_kernel().orders.size(), 1u);
  const NbdOrder& order = nbd_kernel().orders[0];
  EXPECT_EQ(order.command, NBD_CMD_RECONFIGURE);
  EXPECT_EQ(order.attributes.at(NBD_ATTR_INDEX), as_u32(3));
  EXPECT_EQ(order.attributes.at(NBD_ATTR_BACKEND_IDENTIFIER), as_text("twinblock/r0"));
  const Result<std::optional<Attachment>> note = read_attachment(stem_);
  ASSERT_TRUE(note.ok() && note.value());
  EXPECT_TRUE(process_runs(note.value()->server));
  EXPECT_EQ(note.value()->client_pid, getpid());
}

// It is the very socket that the patience for connect() was set on: whoever takes nothing for longer than that would end
// the device's connection for good.
TEST_F(NbdReconnect, TheKernelsSocketHasNoPatienceOfOurs) {
  nbd_kernel().answer = [this](const NbdOrder& order) {
    take_the_socket(order);
    return 0;
  };
  ASSERT_TRUE(reconnect([this] { return Result<json>(node_status("primary", 5, getpid())); }).ok());
  timeval limit{1, 1};
  socklen_t length = sizeof limit;
  ASSERT_EQ(getsockopt(taken_->get(), SOL_SOCKET, SO_SNDTIMEO, &limit, &length), 0);
  EXPECT_EQ(limit.tv_sec, 0);
  EXPECT_EQ(limit.tv_usec, 0);
}

// Its connection is one that knows nothing of what is new: it is ended, and the device's users see no more than a wait.
TEST_F(NbdReconnect, ADeviceWhoseVolumeWasMadeLargerGetsAConnectionThatKnowsIt) {
  make_volume_larger();
  const json status = node_status("primary", 5, getpid());
  const Result<FateVerdict> done =
      grow_nbd_device(host_, [&status] { return Result<json>(status); }, control_, stem_, attachment_);
  ASSERT_TRUE(done.ok()) << done.error().what;
  EXPECT_EQ(done.value().fate, Fate::kKeep);
  expect_that_it_has_grown();
}

// By `grow`, by an `attach` that is given again, or by the device's unit.
TEST_F(NbdReconnect, ADeviceOfAVolumeThatIsLargerGrowsWhenItIsLookedAt) {
  make_volume_larger();
  json status = node_status("primary", 5, getpid());
  status["control"] = control_;
  status["size_bytes"] = kSizeBytes;
  std::optional<Attachment> existing = attachment_;
  const Result<std::optional<FateVerdict>> done =
      revive(host_, [&status] { return Result<json>(status); }, stem_, existing);
  ASSERT_TRUE(done.ok()) << done.error().what;
  ASSERT_TRUE(done.value().has_value());
  EXPECT_EQ(done.value()->fate, Fate::kKeep);
  expect_that_it_has_grown();
}

// Its connection lives: a device that counts as one that waits would be given to the next process, and its requests twice.
TEST_F(NbdReconnect, AConnectionThatTheNodeDoesNotFindStaysOnRecord) {
  attachment_.server = identify_process(getpid());
  ASSERT_TRUE(create_attachment(stem_, attachment_).ok());
  const ScriptedNode node(control_, [&](const std::string& verb, const json& args) -> std::optional<std::string> {
    EXPECT_EQ(verb, "hang-up");
    EXPECT_EQ(args["pid"], attachment_.nbd_pid);
    return ScriptedNode::good({{"connections", 0}});
  });
  const json status = node_status("primary", 5, getpid());
  const Result<FateVerdict> done =
      grow_nbd_device(host_, [&status] { return Result<json>(status); }, control_, stem_, attachment_);
  ASSERT_FALSE(done.ok());
  EXPECT_NE(done.error().action.find("detach it and attach it again"), std::string::npos) << done.error().action;
  EXPECT_TRUE(nbd_kernel().orders.empty());
  const Result<std::optional<Attachment>> note = read_attachment(stem_);
  ASSERT_TRUE(note.ok() && note.value());
  EXPECT_EQ(note.value()->server.pid, getpid());
}

// A `grow` that was ended before it had told the node: the kernel works with the connection of before, and takes no
// other one.
TEST_F(NbdReconnect, AConnectionThatWasToBeEndedIsEndedByWhoFindsThat) {
  const Result<std::optional<FateVerdict>> done = look_after_a_growth_of({}, false);
  ASSERT_TRUE(done.ok()) << done.error().what;
  EXPECT_EQ(done.value()->fate, Fate::kKeep);
  EXPECT_EQ(done.value()->why, "reconnected: alpha is primary again, by the same promotion");
  EXPECT_EQ(hang_ups_, 1);
  EXPECT_TRUE(process_runs(read_attachment(stem_).value()->server));
}

// … or after that: what there is to do is the same.
TEST_F(NbdReconnect, AConnectionThatHasEndedAlreadyIsReplacedAllTheSame) {
  const Result<std::optional<FateVerdict>> done = look_after_a_growth_of({}, true);
  ASSERT_TRUE(done.ok()) << done.error().what;
  EXPECT_EQ(done.value()->fate, Fate::kKeep);
  EXPECT_TRUE(process_runs(read_attachment(stem_).value()->server));
}

// … or when the kernel had the other connection, and before that was on record.
TEST_F(NbdReconnect, AConnectionThatIsNotOnRecordIsEndedToo) {
  const Result<std::optional<FateVerdict>> done = look_after_a_growth_of({1 << 30, 1}, false);
  ASSERT_TRUE(done.ok()) << done.error().what;
  EXPECT_EQ(done.value()->fate, Fate::kKeep);
  EXPECT_EQ(hang_ups_, 2);
}

// It may have ended the connection, or be about to: a second order would find none, or the one that follows. And who is
// given a connection beside it may have that one ended.
TEST_F(NbdReconnect, WhoIsStillAtAConnectionIsLeftAlone) {
  const Result<std::optional<FateVerdict>> done = look_after_a_growth_of(identify_process(1), true);
  ASSERT_TRUE(done.ok()) << done.error().what;
  EXPECT_EQ(done.value()->fate, Fate::kWait);
  EXPECT_NE(done.value()->why.find("process 1 "), std::string::npos) << done.value()->why;
  EXPECT_EQ(hang_ups_, 0);
  EXPECT_TRUE(nbd_kernel().orders.empty());
  EXPECT_EQ(read_attachment(stem_).value()->hung_up_by.pid, 1);
}

// The kernel has taken the connection, and the note of that takes no room: else the device, which works, would count as
// one that waits, and each look would try to connect it again, in vain.
TEST_F(NbdReconnect, WhatTheKernelHasTakenIsOnRecordThoughTheDiskIsFull) {
  const json status = node_status("primary", 5, getpid());
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto full = [&before](bool now) {
    const rlimit room{now ? 0 : before.rlim_cur, before.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &room), 0);
  };
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  nbd_kernel().answer = [&](const NbdOrder& order) {
    take_the_socket(order);
    full(true);
    return 0;
  };
  const Result<FateVerdict> verdict = reconnect([&status] { return Result<json>(status); });
  full(false);
  ASSERT_TRUE(verdict.ok()) << verdict.error().what;
  EXPECT_TRUE(process_runs(read_attachment(stem_).value()->server));
  // And full before: the kernel is not asked, and nothing is left behind.
  taken_.reset();
  ASSERT_TRUE(remove_attachment(stem_).ok());
  attachment_.server.start_ticks += 1;
  EXPECT_TRUE(create_attachment(stem_, attachment_).ok());
  nbd_kernel().orders.clear();
  full(true);
  const Result<FateVerdict> refused =
      reconnect_nbd_device(host_, [&status] { return Result<json>(status); }, stem_, attachment_);
  full(false);
  EXPECT_FALSE(refused.ok());
  EXPECT_TRUE(nbd_kernel().orders.empty());
  EXPECT_EQ(notes(), 1);
  (void)signal(SIGXFSZ, handler);
}

// Its pages, and what waits to be written, are of the promotion before.
TEST_F(NbdReconnect, APromotionBeforeItIsConnectedEndsTheDevice) {
  const Result<FateVerdict> verdict =
      reconnect(changes(1, node_status("primary", 5, getpid()), node_status("primary", 6, getpid())));
  ASSERT_TRUE(verdict.ok()) << verdict.error().what;
  EXPECT_EQ(verdict.value().fate, Fate::kEnd);
  EXPECT_TRUE(nbd_kernel().orders.empty());
}

// So that the node knows it for a client that is back, and no other promotion can take it.
TEST_F(NbdReconnect, ADeviceAsksForThePromotionThatItIsOf) {
  nbd_kernel().answer = [this](const NbdOrder& order) {
    take_the_socket(order);
    return 0;
  };
  ASSERT_TRUE(reconnect([this] { return Result<json>(node_status("primary", 5, getpid())); }).ok());
  EXPECT_EQ(server_.asked(), std::vector<std::string>{"r0@5"});
}

// What the node is asked before the connection is of the promotion before.
TEST_F(NbdReconnect, ARefusalByAnotherPromotionEndsTheDevice) {
  server_.serve_only("r0@6");
  const Result<FateVerdict> verdict =
      reconnect(changes(1, node_status("primary", 5, getpid()), node_status("primary", 6, getpid())));
  ASSERT_TRUE(verdict.ok()) << verdict.error().what;
  EXPECT_EQ(verdict.value().fate, Fate::kEnd);
  EXPECT_NE(verdict.value().why.find("promoted anew"), std::string::npos) << verdict.value().why;
  EXPECT_TRUE(nbd_kernel().orders.empty());
}

TEST_F(NbdReconnect, ARefusalByThePromotionThatItIsOfIsAnError) {
  server_.serve_only("none");
  const Result<FateVerdict> verdict = reconnect([this] { return Result<json>(node_status("primary", 5, getpid())); });
  ASSERT_FALSE(verdict.ok());
  EXPECT_EQ(verdict.error().code, kExitRefused);
  EXPECT_TRUE(nbd_kernel().orders.empty());
}

// The kernel drops a socket while it has not noticed the death of the one before.
TEST_F(NbdReconnect, APromotionBetweenTwoAttemptsEndsTheDevice) {
  const Result<FateVerdict> verdict =
      reconnect(changes(2, node_status("primary", 5, getpid()), node_status("primary", 6, getpid())));
  ASSERT_TRUE(verdict.ok()) << verdict.error().what;
  EXPECT_EQ(verdict.value().fate, Fate::kEnd);
  EXPECT_EQ(nbd_kernel().orders.size(), 1u);
  EXPECT_EQ(notes(), 1) << "that of a connection that came to nothing is gone";
  EXPECT_EQ(to_json(*read_attachment(stem_).value()), to_json(attachment_));
}

// Who answered need not be who has the connection.
TEST_F(NbdReconnect, AProcessThatIsNotTheConnectionsIsNotTaken) {
  expect_that_another_one_is_not_taken(node_status("primary", 5, 1));
}

TEST_F(NbdReconnect, AProcessThatIsNoLongerPrimaryIsNotTaken) {
  expect_that_another_one_is_not_taken(node_status("secondary", 5, getpid()));
}

TEST_F(NbdReconnect, ANewDeviceIsOfThePromotionThatItsConnectionHas) {
  for (const char* device : {"nbd0", "nbd1"}) put(host_.sys + "/block/" + device + "/queue/io_timeout", "30000\n");
  attachment_.term = 0;
  attachment_.device.clear();
  ASSERT_TRUE(create_attachment(stem_, attachment_).ok());
  // Somebody else was faster with the first one.
  nbd_kernel().answer = [this](const NbdOrder& order) {
    const bool first = order.attributes.at(NBD_ATTR_INDEX) == as_u32(0);
    const Result<std::optional<Attachment>> note = read_attachment(stem_);
    EXPECT_TRUE(note.ok() && note.value() && note.value()->device == host_.dev + (first ? "/nbd0" : "/nbd1"))
        << "on record before the kernel has it";
    return first ? -NLE_BUSY : 0;
  };
  const Result<std::string> made =
      make_nbd_device(host_, changes(1, node_status("primary", 5, getpid()), node_status("primary", 6, getpid())),
                      stem_, attachment_);
  ASSERT_TRUE(made.ok()) << made.error().what;
  EXPECT_EQ(made.value(), host_.dev + "/nbd1");
  EXPECT_EQ(attachment_.term, 6u);
  EXPECT_EQ(server_.asked(), std::vector<std::string>{"r0@5"}) << "the one that it knew of";
  ASSERT_EQ(nbd_kernel().orders.size(), 2u);
  const NbdOrder& order = nbd_kernel().orders[1];
  EXPECT_EQ(order.command, NBD_CMD_CONNECT);
  EXPECT_EQ(order.attributes.at(NBD_ATTR_SERVER_FLAGS), as_u64(NbdServer::kFlags));
  EXPECT_EQ(order.attributes.at(NBD_ATTR_SIZE_BYTES), as_u64(kSizeBytes));
  EXPECT_EQ(order.attributes.at(NBD_ATTR_BLOCK_SIZE_BYTES), as_u64(512)) << "as on another kind of device";
  // As long as it may take until a node is there again; and who waited for it goes on soon then.
  EXPECT_EQ(order.attributes.at(NBD_ATTR_DEAD_CONN_TIMEOUT), as_u64(uint64_t{30} * 24 * 3600));
  EXPECT_EQ(word_of(host_.sys + "/block/nbd1/queue/io_timeout"), "2000");
}

// Whoever uses it would wait for a node that is not to come back.
TEST_F(NbdReconnect, ADeviceThatTheKernelDoesNotLetGoHasNotEnded) {
  ASSERT_TRUE(create_attachment(stem_, attachment_).ok());
  nbd_kernel().answer = [](const NbdOrder&) { return -NLE_PERM; };
  EXPECT_FALSE(end_nbd_device(host_, stem_, attachment_, "its pages may be stale").ok());
  EXPECT_EQ(nbd_kernel().orders.size(), 1u);
  EXPECT_EQ(read_attachment(stem_).value()->ended, "");
}

// Whoever connects the device next would be taken for the volume.
TEST_F(NbdReconnect, ADeviceThatIsDisconnectedLosesItsNameAndItsPatience) {
  put(host_.dev + "/nbd3");
  put(host_.sys + "/block/nbd3/uevent");
  put(host_.sys + "/block/nbd3/queue/io_timeout", "2000\n");
  attachment_.link = give_stable_name(host_, "r0", attachment_.device);
  ASSERT_TRUE(std::filesystem::is_symlink(attachment_.link));
  put(host_.sys + "/block/nbd3/uevent");
  ASSERT_TRUE(disconnect_nbd_device(host_, attachment_).ok());
  EXPECT_FALSE(std::filesystem::is_symlink(attachment_.link));
  const auto text_of = [](const std::string& path) {
    std::ifstream file(path);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  EXPECT_EQ(text_of(host_.sys + "/block/nbd3/uevent"), "change\n") << "udev is to look again";
  EXPECT_EQ(text_of(host_.sys + "/block/nbd3/queue/io_timeout"), "30000\n") << "Linux' own";
}

// Linux 6.11 to 6.18 has whoever sets that wait for all requests under way, and these wait for the disconnection.
TEST_F(NbdReconnect, NothingIsSetOfADeviceWhoseRequestsWait) {
  const std::string patience = host_.sys + "/block/nbd3/queue/io_timeout";
  put(patience, "2000\n");
  std::string before;
  nbd_kernel().answer = [&](const NbdOrder&) {
    before = word_of(patience);
    return 0;
  };
  ASSERT_TRUE(disconnect_nbd_device(host_, attachment_).ok());
  EXPECT_EQ(before, "2000");
  EXPECT_EQ(word_of(patience), "30000");
}

TEST_F(NbdReconnect, NothingIsSetOfADeviceThatSomebodyElseHasAtOnce) {
  const std::string patience = host_.sys + "/block/nbd3/queue/io_timeout";
  put(patience, "2000\n");
  nbd_kernel().answer = [&](const NbdOrder&) {
    put(host_.sys + "/block/nbd3/pid", "78\n");
    put(host_.sys + "/block/nbd3/backend", "twinblock/r1\n");
    return 0;
  };
  ASSERT_TRUE(disconnect_nbd_device(host_, attachment_).ok());
  EXPECT_EQ(word_of(patience), "2000");
}

// It is mounted, and the node ends next.
TEST_F(NbdReconnect, WhatIsInUseWhenTheHostGoesDownIsStoredFirst) {
  const HostPaths host{host_.sys, host_.dev, directory_ / "proc"};
  put(host.sys + "/block/nbd3/dev", "43:3\n");
  put(host.proc + "/self/mountinfo", "30 22 43:3 / /mnt rw - ext4 /dev/nbd3 rw\n");
  put(directory_ / "sync", "#!/bin/sh\n: >'" + directory_ / "synced" + "'\n");
  std::filesystem::permissions(directory_ / "sync", std::filesystem::perms::owner_all);
  attachment_.server = identify_process(getpid());
  ASSERT_TRUE(create_attachment(stem_, attachment_).ok());
  const char* path = getenv("PATH");
  const std::string before = path == nullptr ? "" : path;
  setenv("PATH", directory_.path().c_str(), 1);
  const Result<std::string> done = detach_with_host(host, stem_, attachment_);
  setenv("PATH", before.c_str(), 1);
  ASSERT_TRUE(done.ok()) << done.error().what;
  EXPECT_NE(done.value().find("written until now is stored"), std::string::npos) << done.value();
  EXPECT_TRUE(std::filesystem::exists(directory_ / "synced"));
  ASSERT_EQ(nbd_kernel().orders.size(), 1u);
  EXPECT_EQ(nbd_kernel().orders[0].command, NBD_CMD_DISCONNECT);
}

// Who unmounts it would wait for the node, too: what is advised has to be what works.
TEST_F(NbdReconnect, WhatIsAdvisedOfADeviceThatWaitsWorks) {
  const HostPaths host{host_.sys, host_.dev, directory_ / "proc"};
  put(host.sys + "/block/nbd3/dev", "43:3\n");
  put(host.proc + "/self/mountinfo", "30 22 43:3 / /mnt rw - ext4 /dev/nbd3 rw\n");
  ASSERT_TRUE(create_attachment(stem_, attachment_).ok());
  for (const bool force : {false, true}) {
    const Status refusal = detach(host, stem_, attachment_, force);
    ASSERT_FALSE(refusal.ok());
    const std::string& action = refusal.error().action;
    EXPECT_NE(action.find("twinblock detach r0 --force --in-use"), std::string::npos) << action;
    EXPECT_NE(action.find("I/O errors"), std::string::npos) << action;
    EXPECT_TRUE(action.starts_with("attach again")) << action;
  }
  EXPECT_NE(give_up_words(host, attachment_).find("--force --in-use"), std::string::npos);
  EXPECT_TRUE(nbd_kernel().orders.empty());
  EXPECT_TRUE(detach_in_use(host, stem_, attachment_).ok());
  ASSERT_EQ(nbd_kernel().orders.size(), 1u);
  // Ended, it can be unmounted. One that is not used goes without more.
  const Status ended = detach(host, stem_, *read_attachment(stem_).value(), true);
  ASSERT_FALSE(ended.ok());
  EXPECT_TRUE(ended.error().action.starts_with("unmount it")) << ended.error().action;
  put(host.proc + "/self/mountinfo", "");
  EXPECT_TRUE(give_up_words(host, attachment_).ends_with("twinblock detach r0 --force")) << give_up_words(host, attachment_);
  EXPECT_TRUE(detach(host, stem_, attachment_, true).ok());
  EXPECT_EQ(nbd_kernel().orders.size(), 2u);
}

}  // namespace
}  // namespace twinblock
