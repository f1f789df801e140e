// A node whose own disk stands still: no request comes back, and none fails. An engine on virtual parts, and the fuzzers'
// peer.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fuzz_node.h"
#include "hostile_peer.h"
#include "metadata_image.h"

namespace twinblock::fuzz {
namespace {

constexpr uint64_t kVolumeBytes = 256 * kKiB;
constexpr uint64_t kForEver_ns = 3600 * kSecond_ns;

class StalledDiskTest : public testing::Test {
 protected:
  StalledDiskTest() : config_(make_config(kVolumeBytes, "disk_timeout = \"30s\"\n")) {
    const metadata::NodeRecord record = plain_record("alpha", {kVolumeBytes, 64 * kKiB});
    node_ = plain_node(config_, record);
    peer_ = std::make_unique<HostilePeer>(*node_, "beta", record);
    peer_->hears = [this](const wire::FrameHeader& header) {
      if (header.type != static_cast<uint8_t>(wire::FrameType::kHeartbeat)) return;
      const auto beat = wire::frame_as<wire::HeartbeatFrame>(header);
      told_ns_ = beat.stalled ? beat.disk_still_ns : 0;
    };
    node_->data.tells = node_->metadata.tells = true;
    EXPECT_TRUE(node_->engine->start().ok());
  }
  ~StalledDiskTest() override {
    node_->engine.reset();
    peer_.reset();
  }

  // The peer, which is secondary.
  void meet() {
    peer_->take(HostilePeer::Stance::kSame, 0, 0);
    for (int i = 0; i < 100 && !stands(); ++i) node_->run(100 * kMillisecond_ns);
    ASSERT_TRUE(stands());
  }
  [[nodiscard]] bool stands() const { return node_->engine->inside().session_stands(); }
  void become_primary() {
    meet();
    node_->engine->orders().promote({}, [](Result<std::string> said) { EXPECT_TRUE(said.ok()); });
    node_->run(kSecond_ns);
    ASSERT_TRUE(node_->engine->is_primary() && node_->engine->clients().opened());
  }
  // A client's request, which its disk does not answer for so long.
  void ask(ClientOp op, uint64_t hung_ns) {
    node_->data.hung_until_ns = node_->scheduler.now_ns() + hung_ns;
    request_.op = op;
    request_.length_bytes = op == ClientOp::kFlush ? 0 : 4 * kKiB;
    room_.resize(request_.length_bytes);
    request_.data = room_.data();
    error_.reset();
    request_.done = [this](ClientRequest& request) { error_ = request.error; };
    node_->engine->clients().submit(request_);
  }
  [[nodiscard]] uint64_t stalled_ns() const { return node_->engine->status().stalled_ns; }
  [[nodiscard]] bool was_told(const std::string& name) const {
    const std::vector<Event> all = std::as_const(*node_->engine).events().log().after(0, 1000);
    return std::ranges::any_of(all, [&name](const Event& event) { return event.name == name; });
  }
  std::string promote(bool peer_is_dead) {
    std::optional<Error> why;
    node_->engine->orders().promote(Promotion::Word{peer_is_dead}, [&why](const Result<std::string>& said) {
      if (!said) why = said.error();
    });
    for (int i = 0; i < 100 && !why; ++i) node_->run(100 * kMillisecond_ns);
    return why ? why->what + "; " + why->action : "";
  }

  const Config config_;
  std::unique_ptr<FuzzNode> node_;
  std::unique_ptr<HostilePeer> peer_;
  ClientRequest request_;
  std::vector<std::byte> room_;
  std::optional<int> error_;
  uint64_t told_ns_ = 0;  // by this node's last heartbeat
};

TEST_F(StalledDiskTest, APrimaryTellsOfItUntilItIsOver) {
  become_primary();
  ask(ClientOp::kZero, 60 * kSecond_ns);
  node_->run(28 * kSecond_ns);
  EXPECT_EQ(stalled_ns(), 0u) << "it has its time";
  EXPECT_EQ(told_ns_, 0u);
  node_->run(5 * kSecond_ns);
  EXPECT_GT(stalled_ns(), 30 * kSecond_ns);
  EXPECT_GT(told_ns_, 30 * kSecond_ns) << "the peer knows";
  EXPECT_TRUE(was_told("disk-stalled"));
  EXPECT_FALSE(error_.has_value()) << "its memory is the kernel's";
  EXPECT_TRUE(stands()) << "nobody could promote the peer for having lost it";
  node_->run(30 * kSecond_ns);
  EXPECT_EQ(error_, 0);
  EXPECT_EQ(stalled_ns(), 0u);
  EXPECT_EQ(told_ns_, 0u);
  EXPECT_TRUE(was_told("disk-mended"));
}

TEST_F(StalledDiskTest, ReadsAndFlushesAreWaitedForAsWell) {
  become_primary();
  ask(ClientOp::kFlush, 50 * kSecond_ns);
  node_->run(35 * kSecond_ns);
  EXPECT_GT(stalled_ns(), 0u);
  node_->run(30 * kSecond_ns);
  ASSERT_EQ(error_, 0);
  ask(ClientOp::kRead, 50 * kSecond_ns);
  node_->run(35 * kSecond_ns);
  EXPECT_GT(stalled_ns(), 0u);
}

// Nothing is written to a region that was idle before its intent is on record.
TEST_F(StalledDiskTest, AMetadataDiskIsToldAsWell) {
  become_primary();
  node_->metadata.hung_until_ns = node_->scheduler.now_ns() + 60 * kSecond_ns;
  ask(ClientOp::kZero, 0);
  node_->run(28 * kSecond_ns);
  EXPECT_EQ(stalled_ns(), 0u) << "it has its time";
  node_->run(5 * kSecond_ns);
  EXPECT_GT(stalled_ns(), 30 * kSecond_ns);
  EXPECT_EQ(node_->engine->status().stalled_file, config_.node("alpha").metadata);
  EXPECT_TRUE(was_told("disk-stalled"));
  EXPECT_GT(told_ns_, 30 * kSecond_ns) << "the peer knows";
  EXPECT_FALSE(error_.has_value());
  std::optional<Result<std::string>> grown;
  node_->engine->orders().grow(2 * kVolumeBytes, [&grown](const Result<std::string>& said) { grown = said; });
  ASSERT_TRUE(grown && !grown->ok());
  EXPECT_NE(grown->error().what.find("stands still"), std::string::npos) << grown->error().what;
  node_->run(30 * kSecond_ns);
  EXPECT_EQ(error_, 0);
  EXPECT_EQ(stalled_ns(), 0u);
  EXPECT_TRUE(was_told("disk-mended"));
}

TEST_F(StalledDiskTest, ADeviceThatDoesAnythingHasTenTimesAsLong) {
  node_->data.works = true;
  become_primary();
  ask(ClientOp::kFlush, kForEver_ns);
  node_->run(295 * kSecond_ns);
  EXPECT_EQ(stalled_ns(), 0u) << "it writes what came in half a minute";
  node_->run(10 * kSecond_ns);
  EXPECT_GT(stalled_ns(), 0u);
}

// Its host was suspended, say: the disk had no more time than the node.
TEST_F(StalledDiskTest, TimeInWhichTheNodeStoodStillIsNotTheDisks) {
  become_primary();
  ask(ClientOp::kZero, kForEver_ns);
  node_->run(kSecond_ns);
  node_->stand_still(2 * limits::kDiskPatience * config_.disk_timeout_ns);
  node_->run(kSecond_ns);
  EXPECT_EQ(stalled_ns(), 0u);
  EXPECT_FALSE(was_told("disk-stalled"));
}

// Or the session would come and go.
TEST_F(StalledDiskTest, WhatTheDeviceDoesForOthersThenDoesNotEndIt) {
  become_primary();
  ask(ClientOp::kFlush, kForEver_ns);
  node_->run(40 * kSecond_ns);
  ASSERT_GT(stalled_ns(), 0u);
  node_->data.works = true;
  for (int i = 0; i < 20; ++i) {
    node_->run(kSecond_ns);
    ASSERT_GT(stalled_ns(), 0u) << i;
  }
}

TEST_F(StalledDiskTest, WhereNobodyCanTellItHasFourTimesAsLong) {
  node_->data.tells = false;
  become_primary();
  ask(ClientOp::kFlush, kForEver_ns);
  node_->run(118 * kSecond_ns);
  EXPECT_EQ(stalled_ns(), 0u);
  node_->run(10 * kSecond_ns);
  EXPECT_GT(stalled_ns(), 0u);
}

// What that one does not answer nobody else sees.
TEST_F(StalledDiskTest, ASecondaryKnowsWhatItsPrimaryWaitsFor) {
  meet();
  wire::FrameHeader role = wire::to_header(wire::RoleFrame{true, 1});
  wire::set_order(role, ++*peer_->control());
  peer_->send(0, wire::seal(role, {}));
  node_->run(kSecond_ns);
  EXPECT_NE(promote(false).find("beta is primary; run `twinblock demote"), std::string::npos);
  peer_->stalled_ns = 45 * kSecond_ns;
  node_->run(kSecond_ns);
  EXPECT_EQ(node_->engine->status().peer.stalled_ns, 45 * kSecond_ns);
  for (const bool peer_is_dead : {false, true}) {
    const std::string why = promote(peer_is_dead);
    EXPECT_NE(why.find("its disk has stood still for 45.00 s"), std::string::npos) << why;
    EXPECT_NE(why.find("power beta off or kill twinblockd there"), std::string::npos) << why;
    EXPECT_EQ(why.find("not dead") != std::string::npos, peer_is_dead) << why;
  }
  peer_->stalled_ns = 0;
  node_->run(kSecond_ns);
  EXPECT_EQ(node_->engine->status().peer.stalled_ns, 0u);
}

TEST_F(StalledDiskTest, ANodeThatWaitsForItsDiskIsNotPromoted) {
  meet();
  node_->data.hung_until_ns = node_->scheduler.now_ns() + kForEver_ns;
  peer_->send(0, wire::seal(wire::to_header(wire::FlushFrame{1}), {}));
  node_->run(35 * kSecond_ns);
  ASSERT_GT(stalled_ns(), 0u);
  EXPECT_FALSE(node_->engine->status().promotable);
  EXPECT_NE(promote(true).find("its disk has stood still"), std::string::npos);
}

}  // namespace
}  // namespace twinblock::fuzz
