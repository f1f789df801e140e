// What a peer that has the key, and has gone mad, can make a node keep: an engine on virtual parts, and the fuzzers'
// hostile peer.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "session/hello.h"
#include "session_hostile_support.h"
#include "wire/compression.h"

namespace twinblock::fuzz {
namespace {

// Each of these is answered by one that is kept until the peer has confirmed it.
TEST_F(HostilePeerTest, WhoConfirmsNothingIsNotToldWithoutEnd) {
  peer_->answers = peer_->confirms = false;
  ASSERT_NO_FATAL_FAILURE(meet(HostilePeer::Stance::kSame, 0));
  constexpr size_t kBatch = 5000;
  constexpr size_t kFramesMax = 2 * limits::kControlBytesKeptMax / sizeof(wire::FrameHeader);
  uint64_t incarnation = 1000;
  size_t sent = 0;
  for (; stands() && sent < kFramesMax; sent += kBatch) {
    send(kBatch, [&] {
      wire::FrameHeader header = wire::to_header(wire::RetiredFrame{.incarnation = ++incarnation});
      wire::set_order(header, ++*peer_->control());
      return header;
    });
    node_->run(50 * kMillisecond_ns);
  }
  EXPECT_FALSE(stands()) << "after " << sent << " frames it still keeps an answer to each";
  EXPECT_NE(node_->engine->status().session_error.find("asks on and on"), std::string::npos)
      << node_->engine->status().session_error;
  EXPECT_GT(sent * sizeof(wire::FrameHeader), limits::kControlBytesMax)
      << "one that only stands still for a moment is not parted from";
}

// Of each that is replaced the peer is told until it has confirmed that.
TEST_F(HostilePeerTest, WhoJoinsWithoutEndAndConfirmsNothingIsPartedFrom) {
  peer_->confirms = peer_->retires = false;
  peer_->renews = true;
  ASSERT_NO_FATAL_FAILURE(meet(HostilePeer::Stance::kSame, 0));
  peer_->listens = peer_->shakes_hands = false;
  constexpr uint64_t kMoment_ns = 20 * kMillisecond_ns;
  constexpr uint64_t kJoinsMax = 1000;
  uint64_t joins = 0;
  for (; stands() && joins < kJoinsMax; ++joins) {
    peer_->dial(0);
    node_->run(kMoment_ns);
    peer_->ask_to_join(0, 3 + 2 * joins);
    node_->run(kMoment_ns);
    peer_->hang_up(joins == 0 ? 2 : 1);  // the one that was replaced; the backup link's is the eldest
  }
  EXPECT_FALSE(stands()) << "after " << joins << " joins";
  EXPECT_GT(joins, 100u) << "one that only is slow to confirm is not parted from";
}

class RetiringPeerTest : public HostilePeerTest {
 protected:
  // For how long a write waits that wanders from link to link, each time as if it had just been asked: after so long.
  void hold_a_write(uint64_t turn_ns);
  uint64_t held_ns_ = 0;
};

void RetiringPeerTest::hold_a_write(uint64_t turn_ns) {
  ASSERT_NO_FATAL_FAILURE(meet(HostilePeer::Stance::kSame, 0));
  node_->engine->orders().promote({}, [](const Result<std::string>& said) { EXPECT_TRUE(said.ok()); });
  node_->run(kSecond_ns);
  ASSERT_TRUE(node_->engine->is_primary());
  peer_->answers = peer_->listens = peer_->shakes_hands = false;
  std::optional<int> error;
  ClientRequest request;
  request.op = ClientOp::kZero;
  request.length_bytes = 4 * kKiB;
  request.done = [&error](ClientRequest& done) { error = done.error; };
  node_->engine->clients().submit(request);
  constexpr uint64_t kMoment_ns = 100 * kMillisecond_ns;
  const uint64_t began_ns = node_->scheduler.now_ns();
  const auto passed_ns = [&] { return node_->scheduler.now_ns() - began_ns; };
  uint64_t turns = 0;
  for (; !error && passed_ns() < 10 * limits::kDiskPatience * config_.disk_timeout_ns; ++turns) {
    node_->run(turn_ns);
    peer_->retire(1, true);
    node_->run(kMoment_ns);
    peer_->hang_up(1);
    peer_->dial(turns % 2);
    node_->run(kMoment_ns);
    peer_->ask_to_join(0, 3 + 2 * turns);
    node_->run(kMoment_ns);
  }
  EXPECT_EQ(error, 0) << "after " << turns << " turns";
  held_ns_ = passed_ns();
}

TEST_F(RetiringPeerTest, WhoRetiresEachConnectionThatAWriteIsOnDoesNotHoldItForEver) {
  ASSERT_NO_FATAL_FAILURE(hold_a_write(config_.disk_timeout_ns / 2));
  EXPECT_GT(held_ns_, limits::kDiskPatience * config_.disk_timeout_ns) << "a slow disk is given its time";
}

// What it has already is not begun anew: such a disk hangs, however often the links part.
TEST_F(RetiringPeerTest, WhoseDiskHangsGetsNoMoreTimeByRetiring) {
  peer_->disk_still_ns = 2 * config_.disk_timeout_ns;
  ASSERT_NO_FATAL_FAILURE(hold_a_write(config_.disk_timeout_ns / 5));
  EXPECT_LT(held_ns_, config_.disk_timeout_ns * 3 / 2);
}

// Heartbeats without a time: only the first one of a connection counts as the first.
TEST_F(HostilePeerTest, BeatsWithoutATimeAreNotEachAnsweredAtOnce) {
  size_t heard = 0;
  peer_->hears = [&heard](const wire::FrameHeader& header) {
    heard += static_cast<size_t>(header.type == static_cast<uint8_t>(wire::FrameType::kHeartbeat));
  };
  ASSERT_NO_FATAL_FAILURE(meet(HostilePeer::Stance::kSame, 0));
  peer_->beats = false;
  heard = 0;
  send(1000, [] { return wire::to_header(wire::HeartbeatFrame{}); });
  node_->run(2 * limits::kHeartbeatInterval_ns);
  ASSERT_TRUE(stands());
  EXPECT_GE(heard, 1u) << "a tick, over this connection";
  EXPECT_LE(heard, 20u);
}

// What it tells, true or not, is said again and again only as a count.
TEST_F(HostilePeerTest, WhatItTellsWithoutEndDoesNotFillTheLog) {
  ASSERT_NO_FATAL_FAILURE(meet(HostilePeer::Stance::kSame, 0));
  std::vector<std::string> lines;
  node_->logs = [&lines](const std::string& line) { lines.push_back(line); };
  constexpr size_t kFrames = 2000;
  bool primary = false;
  send(kFrames, [&] {
    wire::FrameHeader header =
        wire::to_header(wire::RoleFrame{.primary = primary = !primary, .term = peer_->next_sequence()});
    wire::set_order(header, ++*peer_->control());
    return header;
  });
  node_->run(kSecond_ns);
  ASSERT_TRUE(stands());
  EXPECT_EQ(lines, (std::vector<std::string>{"beta is primary now", "beta is secondary now"}));
  lines.clear();
  for (uint64_t number = 1; number <= kFrames; ++number) {
    wire::LinkChangePayload payload{};
    payload.change = static_cast<uint32_t>(wire::LinkChange::kDisable);
    payload.number = number % 2 == 0 ? number : ~number;
    wire::set_name(payload.name, "link" + std::to_string(number % 30));
    wire::FrameHeader header = wire::to_header(wire::LinkChangeFrame{});
    wire::set_request(header, peer_->next_sequence());
    wire::set_order(header, ++*peer_->control());
    peer_->send(0, wire::seal(header, wire::bytes_of(payload)));
    peer_->send(0, wire::bytes_of(payload));
  }
  node_->run(kSecond_ns);
  ASSERT_TRUE(stands());
  EXPECT_FALSE(lines.empty());
  EXPECT_LE(lines.size(), limits::kStrangerReasonsMax + 1);
}

// What the control stream sends again, as a link died, or somebody has recorded, is obeyed once.
TEST_F(HostilePeerTest, WhatComesOnceMoreIsHeardOnce) {
  ASSERT_NO_FATAL_FAILURE(meet(HostilePeer::Stance::kSame, 0));
  const auto tell = [this](bool primary, uint64_t number) {
    wire::FrameHeader role = wire::to_header(wire::RoleFrame{primary, 2});
    wire::set_order(role, number);
    peer_->send(0, wire::seal(role));
    node_->run(10 * kMillisecond_ns);
  };
  const uint64_t first = ++*peer_->control();
  tell(true, first);
  EXPECT_EQ(node_->engine->status().peer.role, PeerRole::kPrimary);
  tell(false, ++*peer_->control());
  EXPECT_EQ(node_->engine->status().peer.role, PeerRole::kSecondary);
  tell(true, first);
  EXPECT_EQ(node_->engine->status().peer.role, PeerRole::kSecondary);
  EXPECT_TRUE(stands());
}

// Strangers in plain mode that take every place and say nothing: the peer gets in beside them.
TEST_F(HostilePeerTest, WhoSaysNothingKeepsNobodyOut) {
  peer_->listens = peer_->shakes_hands = false;
  peer_->take(HostilePeer::Stance::kSame, 0, 2);
  ASSERT_TRUE(node_->engine->start().ok());
  for (size_t i = 0; i < limits::kPendingConnectionsMax + 1; ++i) {
    peer_->dial(0);
    node_->run(kMillisecond_ns);
  }
  ASSERT_FALSE(stands());
  peer_->shakes_hands = true;
  peer_->dial(0);
  for (int i = 0; i < 1000 && !stands(); ++i) node_->run(kMillisecond_ns);
  EXPECT_TRUE(stands());
}

// Joins of a session that is about to stand, one after the other, take no places of others'.
TEST_F(HostilePeerTest, WhoWaitsToJoinKeepsNobodyOut) {
  peer_->listens = peer_->beats = false;
  size_t challenges = 0;
  bool is_answered = false;
  peer_->hears = [&](const wire::FrameHeader& header) {
    challenges += static_cast<size_t>(header.type == static_cast<uint8_t>(wire::FrameType::kChallenge));
    if (header.type != static_cast<uint8_t>(wire::FrameType::kVerdict)) return;
    is_answered = true;
    peer_->shakes_hands = false;  // it does not say its own
  };
  peer_->take(HostilePeer::Stance::kSame, 0, 2);
  ASSERT_TRUE(node_->engine->start().ok());
  peer_->dial(0);
  for (int i = 0; i < 1000 && !is_answered; ++i) node_->run(kMillisecond_ns);
  ASSERT_TRUE(is_answered);
  peer_->shakes_hands = true;
  const size_t before = challenges;
  constexpr size_t kJoins = limits::kPendingConnectionsMax + 8;
  for (size_t i = 0; i < kJoins; ++i) {
    peer_->dial(1);
    node_->run(10 * kMillisecond_ns);
  }
  ASSERT_FALSE(stands());
  EXPECT_EQ(challenges, before + kJoins) << "one was closed unheard";
}

// A disk without work does not stand still: the first request after an hour has its time.
TEST_F(HostilePeerTest, ADiskStandsStillOnlyWithARequest) {
  std::optional<uint64_t> still_ns;  // as the last heartbeat says
  peer_->hears = [&still_ns](const wire::FrameHeader& header) {
    if (header.type == static_cast<uint8_t>(wire::FrameType::kHeartbeat))
      still_ns = wire::frame_as<wire::HeartbeatFrame>(header).disk_still_ns;
  };
  ASSERT_NO_FATAL_FAILURE(meet(HostilePeer::Stance::kSame, 0));
  node_->run(20 * kSecond_ns);
  ASSERT_TRUE(stands());
  EXPECT_EQ(still_ns, 0u);
  node_->data.hung_until_ns = node_->scheduler.now_ns() + 5 * kSecond_ns;
  send(1, [this] { return wire::to_header(wire::ReadFrame{peer_->next_sequence(), 0, 4 * kKiB}); });
  node_->run(3 * kSecond_ns);
  ASSERT_TRUE(stands());
  EXPECT_GT(still_ns, 2 * kSecond_ns);
  EXPECT_LT(still_ns, 4 * kSecond_ns);
  node_->run(10 * kSecond_ns);
  ASSERT_TRUE(stands());
  EXPECT_EQ(still_ns, 0u);
}

// What came before any data tells the length of the way, and the next tick would only come behind them. Later beats
// wait for the tick: two nodes would answer each other without end.
TEST_F(HostilePeerTest, TheFirstHeartbeatOfAConnectionIsAnsweredAtOnce) {
  peer_->beats = false;
  std::vector<uint64_t> echoes;
  peer_->hears = [&echoes](const wire::FrameHeader& header) {
    if (header.type == static_cast<uint8_t>(wire::FrameType::kHeartbeat))
      echoes.push_back(wire::frame_as<wire::HeartbeatFrame>(header).echo_ns);
  };
  peer_->take(HostilePeer::Stance::kSame, 0, 2);
  ASSERT_TRUE(node_->engine->start().ok());
  const auto heard_within = [&](uint64_t most_ns) {
    const size_t before = echoes.size();
    for (uint64_t ns = 0; ns < most_ns && echoes.size() == before; ns += kMillisecond_ns) node_->run(kMillisecond_ns);
    return echoes.size() > before;
  };
  const auto beat = [&] {
    const uint64_t now = node_->scheduler.now_ns();
    send(1, [now] { return wire::to_header(wire::HeartbeatFrame{.sent_ns = now}); });
    return now;
  };
  for (int i = 0; i < 1000 && !stands(); ++i) node_->run(kMillisecond_ns);
  ASSERT_TRUE(stands());
  ASSERT_TRUE(heard_within(2 * limits::kHeartbeatInterval_ns)) << "a tick";
  const uint64_t first = beat();
  ASSERT_TRUE(heard_within(limits::kHeartbeatInterval_ns / 2));
  EXPECT_EQ(echoes.back(), first);
  ASSERT_TRUE(heard_within(2 * limits::kHeartbeatInterval_ns)) << "a tick";
  beat();
  EXPECT_FALSE(heard_within(limits::kHeartbeatInterval_ns / 2));
}

// It does not hear this node at the moment, and confirms nothing; but who is heard all the time has not begun anew.
TEST_F(HostilePeerTest, AHelloEndsNoSessionWhosePeerIsHeard) {
  size_t challenges = 0;
  peer_->hears = [&challenges](const wire::FrameHeader& header) {
    challenges += static_cast<size_t>(header.type == static_cast<uint8_t>(wire::FrameType::kChallenge));
  };
  ASSERT_NO_FATAL_FAILURE(meet(HostilePeer::Stance::kSame, 0));
  bool is_lost = false, is_refused = false;
  node_->logs = [&](const std::string& line) {
    is_lost = is_lost || line.find("session with beta is lost") != std::string::npos;
    is_refused = is_refused || line.find("with which a session stands that answers") != std::string::npos;
  };
  peer_->beats = false;
  const size_t before = challenges;
  peer_->dial(0);
  for (int i = 0; i < 8; ++i) {
    peer_->send(1, wire::seal(wire::to_header(wire::HeartbeatFrame{.sent_ns = node_->scheduler.now_ns()})));
    node_->run(limits::kHeartbeatInterval_ns);
  }
  EXPECT_EQ(challenges, before + 1) << "it has said its hello";
  EXPECT_FALSE(is_lost || is_refused) << "nobody knows yet";
  peer_->beats = true;
  node_->run(kSecond_ns);
  EXPECT_TRUE(is_refused);
  EXPECT_FALSE(is_lost);
}

// As after a split brain.
TEST_F(HostilePeerTest, WhoIsRefusedAgainAndAgainLeavesNothing) {
  peer_->take(HostilePeer::Stance::kUnrelated, 0, 2);
  ASSERT_TRUE(node_->engine->start().ok());
  const auto be_refused_for = [&](int seconds) {
    for (; seconds > 0; --seconds) {
      node_->run(kSecond_ns);
      for (int i = 0; i < 4; ++i) peer_->hang_up(0);  // the peer's ends keep slabs, too
    }
  };
  be_refused_for(20);
  const size_t before = allocated_bytes();
  be_refused_for(120);
  EXPECT_FALSE(stands());
  EXPECT_LT(allocated_bytes() - std::min(before, allocated_bytes()), 20 * kMiB);
}

TEST_F(HostilePeerTest, WhoAsksForMoreThanTheDiskGivesIsNotReadOn) {
  ASSERT_NO_FATAL_FAILURE(meet(HostilePeer::Stance::kSame, 0));
  node_->data.hung_until_ns = node_->scheduler.now_ns() + 5 * kSecond_ns;
  const size_t before = allocated_bytes();
  send(2048, [this] { return wire::to_header(wire::ReadFrame{peer_->next_sequence(), 0, kVolumeBytes}); });
  node_->run(kSecond_ns);
  EXPECT_LT(allocated_bytes() - std::min(before, allocated_bytes()), 2 * limits::kReceiveBytesMax);
}

TEST_F(HostilePeerTest, ARefusalAfterASessionIsToldAgain) {
  const auto refusals = [this] {
    const std::vector<Event> all = std::as_const(*node_->engine).events().log().after(0, 1000);
    return std::ranges::count_if(all, [](const Event& event) { return std::string("refused") == event.name; });
  };
  peer_->take(HostilePeer::Stance::kUnrelated, 0, 2);
  ASSERT_TRUE(node_->engine->start().ok());
  node_->run(20 * kSecond_ns);
  ASSERT_EQ(refusals(), 1) << "not at each attempt";
  peer_->take(HostilePeer::Stance::kSame, 0, 2);
  node_->run(10 * kSecond_ns);
  ASSERT_TRUE(stands());
  peer_->vanish();
  node_->run(10 * kSecond_ns);
  ASSERT_FALSE(stands());
  peer_.reset();
  peer_ = std::make_unique<HostilePeer>(*node_, "beta", record_);
  peer_->take(HostilePeer::Stance::kUnrelated, 0, 2);
  node_->run(60 * kSecond_ns);
  EXPECT_EQ(refusals(), 2);
}

TEST_F(HostilePeerTest, AFlushHasMoreTimeWhereNobodyCanTellWhetherTheDiskGetsOn) {
  uint64_t still_ns = 0;
  peer_->hears = [&still_ns](const wire::FrameHeader& header) {
    if (header.type == static_cast<uint8_t>(wire::FrameType::kHeartbeat))
      still_ns = wire::frame_as<wire::HeartbeatFrame>(header).disk_still_ns;
  };
  ASSERT_NO_FATAL_FAILURE(meet(HostilePeer::Stance::kSame, 0));
  node_->data.hung_until_ns = node_->scheduler.now_ns() + 200 * kSecond_ns;
  send(1, [this] { return wire::to_header(wire::FlushFrame{peer_->next_sequence()}); });
  node_->run(80 * kSecond_ns);
  ASSERT_TRUE(stands());
  EXPECT_LT(still_ns, 5 * kSecond_ns);
  node_->run(60 * kSecond_ns);
  EXPECT_GT(still_ns, config_.disk_timeout_ns) << "but not for ever";
}

TEST_F(HostilePeerTest, WhatIsPackedWeighsWhatItIsUnpacked) {
  ASSERT_NO_FATAL_FAILURE(meet(HostilePeer::Stance::kSame, 0));
  const std::vector<std::byte> raw(64 * kKiB);
  std::vector<std::byte> packed(wire::compressed_bytes_max(raw.size()));
  packed.resize(wire::compress(raw, 1, packed));
  ASSERT_FALSE(packed.empty());
  node_->data.hung_until_ns = node_->scheduler.now_ns() + 5 * kSecond_ns;
  std::vector<std::byte> bytes;
  for (size_t i = 0; i < 4096; ++i) {
    const wire::HeaderBytes sealed = wire::seal(wire::to_header(wire::DataFrame{.request = peer_->next_sequence(),
                                                                                .offset_bytes = 0,
                                                                                .length_bytes = raw.size(),
                                                                                .compressed = true}),
                                                packed);
    bytes.insert(bytes.end(), sealed.begin(), sealed.end());
    bytes.insert(bytes.end(), packed.begin(), packed.end());
  }
  const size_t before = allocated_bytes();
  peer_->send(0, bytes);
  node_->run(kSecond_ns);
  EXPECT_LT(allocated_bytes() - std::min(before, allocated_bytes()), 2 * limits::kReceiveBytesMax);
}

TEST_F(HostilePeerTest, ARequestThatWasAnsweredLeavesNothing) {
  ASSERT_NO_FATAL_FAILURE(meet(HostilePeer::Stance::kSame, 0));
  const auto ask = [this](int times) {
    for (; times > 0; --times) {
      send(10, [this] { return wire::to_header(wire::ReadFrame{peer_->next_sequence(), 0, 4 * kKiB}); });
      node_->run(5 * kMillisecond_ns);
    }
  };
  ask(200);
  const size_t before = allocated_bytes();
  ask(1000);
  ASSERT_TRUE(stands());
  EXPECT_LT(allocated_bytes() - std::min(before, allocated_bytes()), kMiB);
}

TEST_F(HostilePeerTest, WhoEchoesWhatIsStillToBeSaidHasNotHeardIt) {
  ASSERT_NO_FATAL_FAILURE(meet(HostilePeer::Stance::kSame, 0));
  peer_->beats = peer_->listens = peer_->shakes_hands = false;
  const auto beat = [this](uint64_t echo_ns) {
    send(1, [&] {
      return wire::to_header(wire::HeartbeatFrame{.sent_ns = node_->scheduler.now_ns(), .echo_ns = echo_ns});
    });
    node_->run(limits::kHeartbeatInterval_ns);
  };
  beat(~uint64_t{0});
  for (uint64_t ns = 0; stands() && ns < 3 * config_.peer_timeout_ns; ns += limits::kHeartbeatInterval_ns) beat(0);
  EXPECT_FALSE(stands()) << "it is heard, and has not heard this node";
}

// What it has heard of this node comes behind what it has sent before.
TEST_F(HostilePeerTest, WhoseBeatsLieBehindOtherFramesHasItsTime) {
  ASSERT_NO_FATAL_FAILURE(meet(HostilePeer::Stance::kSame, 0));
  peer_->beats = peer_->listens = peer_->shakes_hands = false;
  const auto goes_on = [this](uint64_t ns) {
    for (; stands() && ns > limits::kHeartbeatInterval_ns; ns -= limits::kHeartbeatInterval_ns) {
      send(1, [this] { return wire::to_header(wire::ReadFrame{peer_->next_sequence(), 0, 4 * kKiB}); });
      node_->run(limits::kHeartbeatInterval_ns);
    }
  };
  goes_on(2 * config_.peer_timeout_ns);
  EXPECT_TRUE(stands());
  goes_on(2 * config_.peer_timeout_ns);
  EXPECT_FALSE(stands()) << "none comes at all";
}

// Its word that it does not hear this node, and its silence then, are one time.
TEST_F(HostilePeerTest, WhoDoesNotHearAndIsSilentThenHasNoSecondTime) {
  ASSERT_NO_FATAL_FAILURE(meet(HostilePeer::Stance::kSame, 0));
  peer_->beats = peer_->listens = peer_->shakes_hands = false;
  const uint64_t begun_ns = node_->scheduler.now_ns();
  while (stands() && node_->scheduler.now_ns() < begun_ns + config_.peer_timeout_ns * 4 / 5) {
    send(1, [this] { return wire::to_header(wire::HeartbeatFrame{.sent_ns = node_->scheduler.now_ns()}); });
    node_->run(limits::kHeartbeatInterval_ns);
  }
  EXPECT_TRUE(stands());
  node_->run(begun_ns + config_.peer_timeout_ns + 3 * limits::kHeartbeatInterval_ns - node_->scheduler.now_ns());
  EXPECT_FALSE(stands());
}

}  // namespace
}  // namespace twinblock::fuzz
