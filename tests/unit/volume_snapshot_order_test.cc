// Which name an operator's order may give a snapshot, and what of one that fails is dropped: an engine on virtual parts, the
// fuzzers' peer, and copies of which only is known that they were asked for. The command line tool looks at the name, too;
// the control socket, and with it whoever may use that, does not.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fuzz_node.h"
#include "hostile_peer.h"
#include "io/copies.h"
#include "metadata_image.h"
#include "wire/codec.h"

namespace twinblock::fuzz {
namespace {

constexpr uint64_t kVolumeBytes = 256 * kKiB;

class NamedCopies final : public Copies {
 public:
  [[nodiscard]] bool can(CopyStep) const override { return true; }
  void begin(CopyStep step, const std::string& name, std::function<void(Status)> done) override {
    names.push_back(name);
    steps.push_back(step);
    if (names.size() == hangs) return;
    scheduler->after(kMillisecond_ns, nullptr, [done = std::move(done)] { done(ok_status()); });
  }
  [[nodiscard]] std::string place(CopyStep, const std::string& name) const override { return "/alpha.img." + name; }

  [[nodiscard]] auto count(CopyStep step) const { return std::ranges::count(steps, step); }

  std::vector<std::string> names;
  std::vector<CopyStep> steps;
  size_t hangs = 0;  // the so-many-th of them
  sim::Scheduler* scheduler = nullptr;
};

class SnapshotOrderTest : public testing::Test {
 protected:
  SnapshotOrderTest() : config_(make_config(kVolumeBytes)) {
    node_ = plain_node(config_, record_, nullptr, &copies_);
    copies_.scheduler = &node_->scheduler;
    peer_ = std::make_unique<HostilePeer>(*node_, "beta", record_);
    peer_->hears = [this](const wire::FrameHeader& header) {
      if (header.type != static_cast<uint8_t>(wire::FrameType::kAck)) return;
      const auto ack = wire::frame_as<wire::AckFrame>(header);
      answers_[ack.request] = ack.error;
    };
    peer_->take(HostilePeer::Stance::kSame, 0, 0);
    EXPECT_TRUE(node_->engine->start().ok());
  }
  ~SnapshotOrderTest() override {
    node_->engine.reset();
    peer_.reset();
  }
  // What is said to that order; empty: it was taken.
  std::string why_not(const std::string& name) {
    std::optional<std::string> said;
    node_->engine->orders().snapshot(name, [&said](const auto& taken) { said = taken.ok() ? "" : taken.error().what; });
    for (int i = 0; i < 100 && !said; ++i) node_->run(100 * kMillisecond_ns);
    return said.value_or("nothing");
  }
  // It is answered later.
  void order(const std::string& name) {
    node_->engine->orders().snapshot(name, [this](const auto& taken) { said_ = taken.ok() ? "" : in_words(taken.error()); });
  }
  void meet() {
    node_->run(3 * kSecond_ns);
    ASSERT_TRUE(node_->engine->inside().session_stands());
  }
  // The peer's, which is given there; what it is answered at once, an errno value.
  uint32_t hear(wire::SnapshotStep step, uint64_t number) {
    const uint64_t request = peer_->next_sequence();
    const std::string name = "monday";
    wire::FrameHeader header = wire::to_header(wire::SnapshotFrame{.request = request, .step = step, .number = number});
    wire::set_order(header, ++*peer_->control());
    peer_->send(0, wire::seal(header, wire::text_bytes(name)));
    peer_->send(0, wire::text_bytes(name));
    node_->run(50 * kMillisecond_ns);
    return answers_.contains(request) ? answers_[request] : ETIMEDOUT;
  }
  void become_primary() {
    node_->run(3 * kSecond_ns);
    node_->engine->orders().promote({}, [](const Result<std::string>& said) { EXPECT_TRUE(said.ok()); });
    node_->run(kSecond_ns);
    ASSERT_TRUE(node_->engine->is_primary());
  }
  // Its writes are held, and the copy hangs.
  void be_in_the_midst_of_one() {
    config_.copies.timeout_ns = 600 * kSecond_ns;
    copies_.hangs = 2;  // the one before was made beside writes
    ASSERT_NO_FATAL_FAILURE(become_primary());
    node_->engine->orders().snapshot("x", [](const auto&) {});
    node_->run(5 * kSecond_ns);
  }
  // In the midst of one.
  void write_what_is_held() {
    request_.op = ClientOp::kZero;
    request_.length_bytes = limits::kBlockBytes;
    request_.done = [this](ClientRequest& done) { written_ = done.error; };
    node_->engine->clients().submit(request_);
    node_->run(kSecond_ns);
    ASSERT_FALSE(written_.has_value()) << "the copies are of one moment";
  }

  ClientRequest request_;
  std::optional<int> written_;      // 0 or an errno value, when it was answered
  std::optional<std::string> said_;  // to the order, likewise; empty: it was taken
  const metadata::NodeRecord record_ = plain_record("alpha", {kVolumeBytes, 64 * kKiB});
  std::map<uint64_t, uint32_t> answers_;  // to the peer, by request: errno
  Config config_;
  NamedCopies copies_;
  std::unique_ptr<FuzzNode> node_;
  std::unique_ptr<HostilePeer> peer_;
};

TEST_F(SnapshotOrderTest, OfAGoodNameIsCarriedOut) {
  node_->run(3 * kSecond_ns);
  ASSERT_TRUE(node_->engine->inside().session_stands());
  EXPECT_EQ(why_not("before-upgrade_2.5"), "");
  ASSERT_FALSE(copies_.names.empty());
  for (const std::string& name : copies_.names) EXPECT_EQ(name, "before-upgrade_2.5");
}

// A step that the peer asks about again, as after an answer that was lost, is told once.
TEST_F(SnapshotOrderTest, OfThePeersIsToldOnce) {
  node_->run(3 * kSecond_ns);
  ASSERT_TRUE(node_->engine->inside().session_stands());
  std::vector<std::string> lines;
  node_->logs = [&lines](const std::string& line) {
    if (line.find("snapshot") != std::string::npos) lines.push_back(line);
  };
  (void)hear(wire::SnapshotStep::kFlush, 1);
  (void)hear(wire::SnapshotStep::kTake, 2);
  for (int i = 0; i < 100; ++i) (void)hear(wire::SnapshotStep::kKeep, 3);
  ASSERT_TRUE(node_->engine->inside().session_stands());
  EXPECT_EQ(lines.size(), 1u) << (lines.empty() ? "" : lines.back());
}

// That comes before whatever else is in the way, such as that there is no session yet: it will not help to try again.
TEST_F(SnapshotOrderTest, OfAnyOtherNameIsRefusedForGood) {
  for (const char* name : {"", "../x", "a/b", "/x", "..", ".x", "-x", "x.part", "a b", "a\n"})
    EXPECT_NE(why_not(name).find("can't be the name of a snapshot"), std::string::npos) << name;
  EXPECT_NE(why_not("x").find("not connected"), std::string::npos);
}

TEST_F(SnapshotOrderTest, HoldsWritesForHalfAMinuteAtTheMost) {
  ASSERT_NO_FATAL_FAILURE(be_in_the_midst_of_one());
  ASSERT_NO_FATAL_FAILURE(write_what_is_held());
  node_->run(limits::kSnapshotHoldMax_ns);
  EXPECT_EQ(written_, 0);
}

// The process is asked to stop, and its clients can only go when they are answered.
TEST_F(SnapshotOrderTest, HoldsNoWritesWhenTheProcessIsToStop) {
  ASSERT_NO_FATAL_FAILURE(be_in_the_midst_of_one());
  ASSERT_NO_FATAL_FAILURE(write_what_is_held());
  node_->engine->clients().let_go();
  node_->run(kSecond_ns);
  EXPECT_EQ(written_, 0);
}

TEST_F(SnapshotOrderTest, OfThisNodesFollowsThePeersWhenThatIsOver) {
  node_->run(3 * kSecond_ns);
  uint64_t number = 0;
  for (const auto step : {wire::SnapshotStep::kFlush, wire::SnapshotStep::kTake, wire::SnapshotStep::kKeep})
    (void)hear(step, ++number);
  EXPECT_NE(why_not("tuesday"), "") << "it may still be dropped";
  node_->run(config_.copies.timeout_ns + 10 * kSecond_ns);
  EXPECT_EQ(why_not("tuesday"), "");
}

TEST_F(SnapshotOrderTest, DoesNotWaitForAFlushThatHangs) {
  node_->run(3 * kSecond_ns);
  ASSERT_TRUE(node_->engine->inside().session_stands());
  node_->data.hung_until_ns = node_->scheduler.now_ns() + 3 * limits::kSnapshotFlushMax_ns;
  std::optional<std::string> said;
  node_->engine->orders().snapshot("x", [&said](const auto& taken) { said = taken.ok() ? "" : taken.error().what; });
  node_->run(limits::kSnapshotFlushMax_ns - kSecond_ns);
  EXPECT_FALSE(said.has_value()) << "it has its time";
  node_->run(2 * kSecond_ns);
  EXPECT_NE(said.value_or("nothing").find("with the flush before it"), std::string::npos);
}

// A repair writes at the peer only, and the two copies would differ.
TEST_F(SnapshotOrderTest, NothingIsRepairedWhileItIsTaken) {
  ASSERT_NO_FATAL_FAILURE(be_in_the_midst_of_one());
  std::optional<Result<std::string>> said;
  node_->engine->orders().verify(VerifyOrder::kRepair, [&said](const Result<std::string>& result) { said = result; });
  ASSERT_TRUE(said.has_value());
  ASSERT_FALSE(said->ok());
  EXPECT_NE(said->error().what.find("a snapshot is just being taken"), std::string::npos) << said->error().what;
}

TEST_F(SnapshotOrderTest, IsNotTakenBesideARepair) {
  ASSERT_NO_FATAL_FAILURE(become_primary());
  peer_->answers = false;  // the repair goes on
  node_->engine->orders().verify(VerifyOrder::kRepair, [](const Result<std::string>& said) { EXPECT_TRUE(said.ok()); });
  node_->run(100 * kMillisecond_ns);
  ASSERT_TRUE(node_->engine->status().verify.active);
  EXPECT_NE(why_not("x").find("a verification that repairs is under way"), std::string::npos);
  node_->engine->orders().verify(VerifyOrder::kStop, [](const Result<std::string>& said) { EXPECT_TRUE(said.ok()); });
  ASSERT_FALSE(node_->engine->status().verify.active);
  EXPECT_NE(why_not("x").find("a verification that repairs is under way"), std::string::npos)
      << "the peer may still write what it was sent";
}

// The peer keeps its own for as long, and fails.
TEST_F(SnapshotOrderTest, OfThePeersThatIsKeptIsDroppedWhenThePeersIsNot) {
  ASSERT_NO_FATAL_FAILURE(meet());
  EXPECT_EQ(hear(wire::SnapshotStep::kFlush, 1), 0u);
  EXPECT_EQ(hear(wire::SnapshotStep::kTake, 2), 0u);
  EXPECT_EQ(hear(wire::SnapshotStep::kKeep, 3), 0u);
  node_->run(config_.copies.timeout_ns + kSecond_ns);
  EXPECT_EQ(hear(wire::SnapshotStep::kDrop, 4), 0u);
  EXPECT_EQ(copies_.count(CopyStep::kDropSnapshot), 1);
}

// The operator was told of it.
TEST_F(SnapshotOrderTest, OfThePeersThatIsKeptOutlivesTheSession) {
  ASSERT_NO_FATAL_FAILURE(meet());
  EXPECT_EQ(hear(wire::SnapshotStep::kFlush, 1), 0u);
  EXPECT_EQ(hear(wire::SnapshotStep::kTake, 2), 0u);
  EXPECT_EQ(hear(wire::SnapshotStep::kKeep, 3), 0u);
  peer_->vanish();
  node_->run(60 * kSecond_ns);
  EXPECT_EQ(copies_.count(CopyStep::kKeepSnapshot), 1);
  EXPECT_EQ(copies_.count(CopyStep::kDropSnapshot), 0);
}

// A command would remove an older one of that name.
TEST_F(SnapshotOrderTest, OfThePeersThatWasNotTakenIsNotDropped) {
  config_.copies.snapshot.reflink = false;
  ASSERT_NO_FATAL_FAILURE(meet());
  EXPECT_EQ(hear(wire::SnapshotStep::kFlush, 1), 0u);
  peer_->vanish();
  node_->run(60 * kSecond_ns);
  EXPECT_EQ(copies_.steps.size(), 0u);
}

TEST_F(SnapshotOrderTest, ThatThePeersFlushFailsIsNotDroppedHere) {
  config_.copies.snapshot.reflink = false;
  ASSERT_NO_FATAL_FAILURE(meet());
  peer_->answers = false;
  order("x");
  node_->run(100 * kMillisecond_ns);
  ASSERT_EQ(said_, std::nullopt);
  peer_->answers = true;
  for (size_t link = 0; link < config_.links.size(); ++link) peer_->answer(link, 0, EIO, 0);
  node_->run(5 * kSecond_ns);
  ASSERT_TRUE(said_.has_value());
  EXPECT_NE(*said_, "");
  EXPECT_EQ(copies_.steps.size(), 0u);
}

// Both flush for as long as they take; who is ready first is asked nothing until the other one is.
TEST_F(SnapshotOrderTest, OfThePeersWaitsForThePeersFlush) {
  ASSERT_NO_FATAL_FAILURE(meet());
  EXPECT_EQ(hear(wire::SnapshotStep::kFlush, 1), 0u);
  node_->run(limits::kSnapshotFlushMax_ns);
  EXPECT_EQ(hear(wire::SnapshotStep::kTake, 2), 0u);
  node_->run(2 * config_.copies.timeout_ns);
  EXPECT_EQ(copies_.count(CopyStep::kDropSnapshot), 1) << "nothing more was heard of it";
}

TEST_F(SnapshotOrderTest, OfThePeersWaitsForItsFlushNoLongerThanThatMayTake) {
  ASSERT_NO_FATAL_FAILURE(meet());
  EXPECT_EQ(hear(wire::SnapshotStep::kFlush, 1), 0u);
  node_->run(limits::kSnapshotFlushMax_ns + limits::kSnapshotHoldMax_ns + kSecond_ns);
  EXPECT_EQ(copies_.count(CopyStep::kDropSnapshot), 1);
  EXPECT_EQ(hear(wire::SnapshotStep::kTake, 2), static_cast<uint32_t>(EBUSY));
}

// The same name would be refused there.
TEST_F(SnapshotOrderTest, WhatThePeerHasKeptIsToldWhenTheSessionIsLost) {
  ASSERT_NO_FATAL_FAILURE(meet());
  copies_.hangs = 3;  // what is kept here; the peer has answered that it has
  order("x");
  node_->run(kSecond_ns);
  ASSERT_EQ(copies_.count(CopyStep::kKeepSnapshot), 1);
  ASSERT_EQ(said_, std::nullopt);
  peer_->vanish();
  node_->run(60 * kSecond_ns);
  ASSERT_TRUE(said_.has_value());
  EXPECT_NE(said_->find("may have kept its copy"), std::string::npos) << *said_;
}

// This node's copy would be the old one, though the peer's has what was acknowledged.
TEST_F(SnapshotOrderTest, IsNotTakenOfADiskThatFailsInTheLastWrite) {
  ASSERT_NO_FATAL_FAILURE(become_primary());
  node_->data.hung_until_ns = node_->scheduler.now_ns() + 5 * kSecond_ns;
  request_.op = ClientOp::kZero;
  request_.length_bytes = limits::kBlockBytes;
  request_.done = [this](ClientRequest& done) { written_ = done.error; };
  node_->engine->clients().submit(request_);
  node_->run(100 * kMillisecond_ns);
  node_->data.hung_until_ns = 0;  // for others
  order("x");
  node_->run(kSecond_ns);
  ASSERT_EQ(said_, std::nullopt) << "it waits for that write";
  const auto taken = copies_.count(CopyStep::kTakeSnapshot);
  node_->data.error = EIO;
  node_->data.failures = 1;
  node_->run(10 * kSecond_ns);
  EXPECT_EQ(written_, 0) << "the peer stands in";
  EXPECT_NE(said_.value_or("nothing").find("a disk failed meanwhile"), std::string::npos) << said_.value_or("nothing");
  EXPECT_EQ(copies_.count(CopyStep::kTakeSnapshot), taken);
}

// The peer is to be promoted then, and asks this node, whose volume must not be in the midst of a snapshot.
TEST_F(SnapshotOrderTest, IsOverWhenItsDiskIsLeft) {
  ASSERT_NO_FATAL_FAILURE(become_primary());
  bool hangs = false;
  node_->data.submitted = [&, this](const DiskRequest& request) {
    if (request.op != DiskOp::kFlush || std::exchange(hangs, true)) return;
    node_->data.hung_until_ns = node_->scheduler.now_ns() + 3600 * kSecond_ns;
  };
  order("x");
  node_->run(100 * kMillisecond_ns);
  ASSERT_TRUE(hangs);
  node_->data.submitted = nullptr;
  node_->data.hung_until_ns = 0;  // for others
  node_->data.error = EIO;
  node_->data.failures = 1;
  request_.op = ClientOp::kZero;
  request_.length_bytes = limits::kBlockBytes;
  request_.done = [this](ClientRequest& done) { written_ = done.error; };
  node_->engine->clients().submit(request_);
  node_->run(kSecond_ns);
  EXPECT_EQ(written_, 0) << "the peer stands in";
  EXPECT_NE(said_.value_or("nothing").find("a disk failed meanwhile"), std::string::npos) << said_.value_or("nothing");
}

// Whoever waits for a request for as long as a copy may take would take its peer for dead.
TEST_F(SnapshotOrderTest, OfThePeersThatTakesLongIsAnsweredMeanwhile) {
  ASSERT_NO_FATAL_FAILURE(meet());
  copies_.hangs = 1;
  EXPECT_EQ(hear(wire::SnapshotStep::kFlush, 1), static_cast<uint32_t>(ETIMEDOUT)) << "it has a moment";
  node_->run(2 * limits::kSnapshotAnswer_ns);
  ASSERT_EQ(answers_.size(), 1u);
  EXPECT_EQ(answers_.begin()->second, static_cast<uint32_t>(EINPROGRESS));
}

// Each flush leaves the next one as much to write.
TEST_F(SnapshotOrderTest, IsTakenWhereNoFlushIsShort) {
  ASSERT_NO_FATAL_FAILURE(meet());
  int flushes = 0;
  node_->data.submitted = [&, this](const DiskRequest& request) {
    if (request.op != DiskOp::kFlush) return;
    ++flushes;
    node_->data.hung_until_ns = node_->scheduler.now_ns() + 50 * kMillisecond_ns;
  };
  EXPECT_EQ(why_not("x"), "");
  EXPECT_GT(flushes, 1) << "it has tried";
  EXPECT_LE(flushes, 6);
}

// It may have covered what others wait for, too.
TEST_F(SnapshotOrderTest, AFlushThatFailsForOneIsOnRecord) {
  ASSERT_NO_FATAL_FAILURE(meet());
  node_->data.fail_flushes();
  EXPECT_NE(why_not("x"), "");
  node_->run(kSecond_ns);
  EXPECT_TRUE(load_plain(node_->metadata.contents, record_).record.flush_failed);
  EXPECT_NE(node_->engine->status().disk_error, "");
}

// Of the peer's order only that one step fails; but what the disk has lost is more than that.
TEST_F(SnapshotOrderTest, AFlushThatFailsForThePeersEndsTheSessionOnceThatIsAnswered) {
  ASSERT_NO_FATAL_FAILURE(meet());
  node_->data.error = EIO;
  node_->data.failures = 1;
  EXPECT_EQ(hear(wire::SnapshotStep::kFlush, 1), static_cast<uint32_t>(EIO));
  node_->run(kSecond_ns);
  EXPECT_FALSE(node_->engine->inside().session_stands());
}

}  // namespace
}  // namespace twinblock::fuzz
