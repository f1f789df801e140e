// What a node has not read of its peer's, or not sent to it, when a connection or the session goes: an engine on
// virtual parts, and the fuzzers' peer.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "session_hostile_support.h"

namespace twinblock::fuzz {
namespace {

class UnreadTest : public HostilePeerTest {
 protected:
  void SetUp() override {
    peer_->hears = [this](const wire::FrameHeader& header) { ++heard_[static_cast<wire::FrameType>(header.type)]; };
    meet(HostilePeer::Stance::kSame, 0);
  }
  template <typename Fact>
  bool comes_true(Fact&& fact) {
    for (int i = 0; i < 1000 && !fact(); ++i) node_->run(50 * kMillisecond_ns);
    return fact();
  }
  bool hears_another(wire::FrameType type) {
    return comes_true([this, type, before = heard_[type]] { return heard_[type] > before; });
  }
  void ask(size_t times, uint64_t length_bytes) {
    send(times, [&] { return wire::to_header(wire::ReadFrame{peer_->next_sequence(), 0, length_bytes}); });
  }
  // The session is lost, and another one stands.
  void meet_anew() {
    peer_->listens = false;
    while (peer_->up()) peer_->hang_up(0);
    ASSERT_TRUE(comes_true([this] { return !stands(); }));
    peer_->listens = true;
    ASSERT_TRUE(comes_true([this] { return stands(); }));
  }
  // Over a connection of the peer's, which is its youngest then.
  bool join_over_main(uint64_t incarnation) {
    peer_->dial(0);
    if (!hears_another(wire::FrameType::kChallenge)) return false;
    peer_->ask_to_join(0, incarnation);
    return hears_another(wire::FrameType::kJoin);
  }

  std::map<wire::FrameType, int> heard_;  // by the peer
};

// Else no connection would be read any more, for as long as the process runs: each session is lost as the last one
// was.
TEST_F(UnreadTest, WhoWasLostWhileNothingWasReadIsReadInTheNextSession) {
  node_->data.hung_until_ns = node_->scheduler.now_ns() + 5 * kSecond_ns;
  ask(2048, kVolumeBytes);
  ASSERT_TRUE(comes_true([this] { return node_->engine->inside().stopped_reading(); }));
  ASSERT_NO_FATAL_FAILURE(meet_anew());
  EXPECT_FALSE(node_->engine->inside().stopped_reading());
  ask(1, 4 * kKiB);
  EXPECT_TRUE(hears_another(wire::FrameType::kAck));
}

// … and who asks for too much then has to wait again.
TEST_F(UnreadTest, WhoWasLostWhileNothingWasReadIsNotReadWithoutEndInTheNextSession) {
  for (int session = 0; session < 2; ++session) {
    node_->data.hung_until_ns = node_->scheduler.now_ns() + 5 * kSecond_ns;
    ask(2048, kVolumeBytes);
    ASSERT_TRUE(comes_true([this] { return node_->engine->inside().stopped_reading(); })) << session;
    ASSERT_NO_FATAL_FAILURE(meet_anew());
  }
}

// What comes over it waits in its socket: a loop that is told of it would be told without end.
TEST_F(UnreadTest, ALinkThatJoinsWhileNothingIsReadIsNotReadEither) {
  peer_->listens = false;
  peer_->hang_up(0);  // of "backup", which it accepted last
  ASSERT_TRUE(comes_true([this] { return node_->engine->status().links.at(1).state != LinkState::kUp; }));
  node_->data.hung_until_ns = node_->scheduler.now_ns() + 5 * kSecond_ns;
  ask(2048, kVolumeBytes);
  ASSERT_TRUE(comes_true([this] { return node_->engine->inside().stopped_reading(); }));
  peer_->dial(1);
  ASSERT_TRUE(hears_another(wire::FrameType::kJoin));
  constexpr uint64_t kMoments = 1000;  // events in a second: both nodes beat over two links
  const uint64_t before = node_->scheduler.events_total();
  node_->run(kSecond_ns);
  ASSERT_TRUE(node_->engine->inside().stopped_reading());
  ASSERT_EQ(node_->engine->status().links.at(1).state, LinkState::kUp);
  EXPECT_LT(node_->scheduler.events_total() - before, kMoments);
  EXPECT_TRUE(comes_true([this] { return !node_->engine->inside().stopped_reading(); }));
  EXPECT_TRUE(stands());
}

// The other link carries the session on, for days perhaps, and one that comes and goes loses some answers each time.
TEST_F(UnreadTest, WhatWasNotSentOverALostConnectionIsNotKept) {
  constexpr uint64_t kTurns = 50;
  constexpr uint64_t kReads = 8;
  peer_->listens = peer_->shakes_hands = false;
  peer_->hang_up(1);  // of "main", which it accepted first
  sim::LinkFaults slow;
  slow.window_max_bytes = 4 * kKiB;
  slow.bytes_per_s = 64 * kKiB;
  node_->network.set_faults("main", slow);
  const size_t before = allocated_bytes();
  for (uint64_t turn = 0; turn < kTurns; ++turn) {
    ASSERT_TRUE(join_over_main(3 + 2 * turn)) << turn;
    ask(kReads, kVolumeBytes);
    node_->run(50 * kMillisecond_ns);
    peer_->hang_up(0);
    ASSERT_TRUE(comes_true([this] { return node_->engine->status().links.at(0).state != LinkState::kUp; })) << turn;
    ASSERT_TRUE(stands()) << turn;
  }
  static_assert(kTurns * kReads * kVolumeBytes >= 100 * kMiB);
  EXPECT_LT(allocated_bytes() - std::min(before, allocated_bytes()), 30 * kMiB);
}

}  // namespace
}  // namespace twinblock::fuzz
