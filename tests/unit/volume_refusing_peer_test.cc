// What a node remembers of a peer that no session comes up with, and how often it asks.
#include <algorithm>
#include <cstdlib>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "volume_lost_peer_support.h"
#include "wire/codec.h"

namespace twinblock::fuzz {
namespace {

class RefusingPeerTest : public LostPeerTest {
 protected:
  // The next one, which the peer does not answer by itself.
  void await_hello() {
    peer_->shakes_hands = false;
    hello_nonce_ = 0;
    peer_->hears_payload = [this](const wire::FrameHeader& header, std::span<const std::byte> payload) {
      if (header.type == static_cast<uint8_t>(wire::FrameType::kHello))
        hello_nonce_ = wire::payload_as<wire::HelloPayload>(payload).nonce;
    };
    for (int i = 0; i < 1000 && hello_nonce_ == 0; ++i) node_->run(10 * kMillisecond_ns);
    peer_->hears_payload = nullptr;
    ASSERT_NE(hello_nonce_, 0U);
  }
  // … and what the peer's verdict is, which does not mirror this node's.
  void disagree(Verdict theirs) {
    peer_->send_verdict(0, static_cast<uint64_t>(theirs));
    node_->run(20 * kMillisecond_ns);
    EXPECT_FALSE(stands()) << static_cast<uint32_t>(theirs);
    const std::string refusal = node_->engine->status().refusal;
    EXPECT_NE(refusal.find("disagree on who is newer"), std::string::npos) << refusal;
  }
  // What the peer says to the next hello, or to another one that is repeated.
  void refuse_the_next_hello(const std::string& why, bool recorded = true) {
    ASSERT_NO_FATAL_FAILURE(await_hello());
    const uint64_t nonce = recorded ? 1 : hello_nonce_;
    const auto text = wire::text_bytes(why);
    for (size_t line = 0; line < 4; ++line) {  // the youngest is the one, unless both links are dialled at once
      peer_->send(line, wire::seal(wire::to_header(wire::RefuseFrame{.nonce = nonce}), text));
      peer_->send(line, text);
    }
    node_->run(100 * kMillisecond_ns);
  }
  [[nodiscard]] bool is_told(const std::string& words) const {
    return std::ranges::any_of(node_->engine->status().links, [&words](const auto& link) {
      return link.last_error.find(words) != std::string::npos;
    });
  }
  // What is advised about an order that needs both replicas whole.
  std::string advice_to_grow() {
    std::optional<Error> said;
    node_->engine->orders().grow(2 * kVolumeBytes,
                                 [&said](const auto& grown) { said = grown.ok() ? Error{} : grown.error(); });
    return said.value_or(Error{}).action;
  }

  uint64_t hello_nonce_ = 0;  // of the last one that was awaited
};

// The smaller of two that grow, say, does so by itself, and refuses the other one meanwhile.
TEST_F(RefusingPeerTest, WaitingIsInVainOnlyBesideAVerdict) {
  begin(OnPeerLoss::kContinue);
  ASSERT_NO_FATAL_FAILURE(be_refused(HostilePeer::Stance::kUnrelated, Verdict::kUnrelated));
  EXPECT_TRUE(advice_to_grow().starts_with("waiting does not help: beta holds another volume")) << advice_to_grow();
  ASSERT_NO_FATAL_FAILURE(refuse_the_next_hello("the volume is just growing", false));
  ASSERT_FALSE(node_->engine->status().verdict);
  EXPECT_EQ(advice_to_grow(), "beta refuses: the volume is just growing; see twinblock status r0");
}

// It may be a recording of what was said to another hello. Else a node would be promoted over a peer that has gone on.
TEST_F(RefusingPeerTest, ARefusalOfAnotherHelloMakesNobodyForgetASplitBrain) {
  begin_in_duplex();
  part();
  write();
  demote();
  node_->run(kSecond_ns);
  ASSERT_EQ(demoted_, true);
  ASSERT_NO_FATAL_FAILURE(be_refused(HostilePeer::Stance::kDiverged, Verdict::kSplitBrain));
  ASSERT_NO_FATAL_FAILURE(refuse_the_next_hello("no"));
  EXPECT_TRUE(is_told("beta refuses: no")) << "it is written down";
  EXPECT_EQ(node_->engine->status().verdict, Verdict::kSplitBrain);
  std::optional<bool> promoted;
  node_->engine->orders().promote({}, [&promoted](const Result<std::string>& said) { promoted = said.ok(); });
  for (int i = 0; i < 100 && !promoted; ++i) node_->run(100 * kMillisecond_ns);
  EXPECT_EQ(promoted, false);
}

// It is shown to whoever looks at the status, or at the log. (In a process of its own: the harness ends with a line of
// the log that is none.)
TEST_F(RefusingPeerTest, WhatARefusalSaysMovesNoCursor) {
  begin(OnPeerLoss::kContinue);
  ASSERT_NO_FATAL_FAILURE(be_refused(HostilePeer::Stance::kUnrelated, Verdict::kUnrelated));
  const auto hear = [this] {
    refuse_the_next_hello("no\x1b[2J\r");
    EXPECT_TRUE(is_told("beta refuses: no"));
    EXPECT_FALSE(is_told("\x1b") || is_told("\r"));
    std::exit(HasFailure() ? 1 : 0);
  };
  EXPECT_EXIT(hear(), testing::ExitedWithCode(0), "");
}

// A process that stands still has its connections taken by the kernel; one that waits for TLS is as silent.
TEST_F(RefusingPeerTest, OfAPeerThatSaysNothingIsToldFirstThatItMayHang) {
  begin(OnPeerLoss::kContinue);
  peer_ = std::make_unique<HostilePeer>(*node_, "beta", record_);
  peer_->listens = false;
  node_->run(10 * kSecond_ns);
  EXPECT_TRUE(is_told(" says nothing: twinblockd may hang there, or be stopped (look there); or its links are encrypted, and "
                      "this node has no key: copy the other node's key file here"));
}

// Both hosts were started a moment ago: a clock that has just begun has no moments before. The peer's host loses its
// power before its process has read that no session comes up, so that nothing closes that connection but this node.
TEST_F(RefusingPeerTest, WhoIsGoneWithoutAWordIsDialledAgainSoonAfterAStart) {
  begin(OnPeerLoss::kContinue);
  peer_ = std::make_unique<HostilePeer>(*node_, "beta", record_);
  peer_->beats = false;  // a connection on which it says more is closed for that
  peer_->take(HostilePeer::Stance::kUnrelated, 0, 2);
  for (int i = 0; i < 1000 && node_->engine->status().verdict != Verdict::kUnrelated; ++i) node_->run(kMillisecond_ns);
  ASSERT_EQ(node_->engine->status().verdict, Verdict::kUnrelated);
  node_->network.set_power(1, false);
  peer_.reset();
  node_->network.set_power(1, true);
  ASSERT_NO_FATAL_FAILURE(meet(true));
}

TEST_F(RefusingPeerTest, WhoIsGoneRefusesNothingAnyMore) {
  begin(OnPeerLoss::kContinue);
  ASSERT_NO_FATAL_FAILURE(be_refused(HostilePeer::Stance::kUnrelated, Verdict::kUnrelated));
  node_->run(kSecond_ns);
  ASSERT_EQ(node_->engine->volume_state(), VolumeState::kRefused);
  ASSERT_NE(node_->engine->status().refusal, "");
  peer_->vanish();
  peer_.reset();
  node_->run(10 * kSecond_ns);
  EXPECT_EQ(node_->engine->status().refusal, "");
  EXPECT_NE(node_->engine->volume_state(), VolumeState::kRefused);
}

// The dead one is dialled in turn, and `status` would say each time that the peer is to be started.
TEST_F(RefusingPeerTest, WhoRefusesOverOneLinkDoesSoWhileAnotherIsDead) {
  begin(OnPeerLoss::kContinue);
  ASSERT_NO_FATAL_FAILURE(be_refused(HostilePeer::Stance::kUnrelated, Verdict::kUnrelated));
  sim::LinkFaults faults;
  faults.cut = {true, false};
  node_->network.set_faults("backup", faults);
  node_->run(kSecond_ns);
  ASSERT_EQ(node_->engine->volume_state(), VolumeState::kRefused);
  int hellos = 0;
  peer_->hears = [&hellos](const wire::FrameHeader& header) {
    hellos += header.type == static_cast<uint8_t>(wire::FrameType::kHello) ? 1 : 0;
  };
  bool backup_fails = false;
  for (int i = 0; i < 4000; ++i) {
    node_->run(5 * kMillisecond_ns);
    ASSERT_NE(node_->engine->status().refusal, "") << i;
    ASSERT_EQ(node_->engine->volume_state(), VolumeState::kRefused) << i;
    backup_fails = backup_fails || is_told("unreachable");
  }
  EXPECT_GT(hellos, 2) << "it goes on asking";
  EXPECT_TRUE(backup_fails);
}

// Its replica was made anew there, and larger by mistake; what grows can never be made smaller.
TEST_F(RefusingPeerTest, ALargerVolumeOfTheSameNameIsNotFollowed) {
  begin(OnPeerLoss::kContinue);
  int follows = 0;  // or tries to, where its disk has no room
  node_->logs = [&follows](const std::string& line) {
    const bool says_so = line.find("did not grow to") != line.npos || line.find("from now on") != line.npos;
    follows += says_so ? 1 : 0;
  };
  config_.size_bytes = 2 * kVolumeBytes;  // what the peer says; this node goes by its record
  peer_ = std::make_unique<HostilePeer>(*node_, "beta", record_);
  peer_->take(HostilePeer::Stance::kUnrelated, 0, 0);
  node_->run(30 * kSecond_ns);
  EXPECT_TRUE(is_told("the volume's size differs")) << node_->engine->status().links.at(0).last_error;
  EXPECT_EQ(follows, 0);
  EXPECT_EQ(node_->engine->status().size_bytes, kVolumeBytes);
}

// Of two that take different sides, both would count as whole, or each would overwrite the other.
TEST_F(RefusingPeerTest, NoSessionStandsWithWhoComesToAnotherVerdict) {
  begin(OnPeerLoss::kContinue);
  peer_ = std::make_unique<HostilePeer>(*node_, "beta", record_);
  for (const Verdict theirs : {Verdict::kInSync, Verdict::kTargetOfAll, Verdict::kTargetOfMap}) {
    peer_->take(HostilePeer::Stance::kNewer, 0, 0);
    ASSERT_NO_FATAL_FAILURE(await_hello());
    peer_->send_hello(0);
    node_->run(20 * kMillisecond_ns);
    disagree(theirs);
  }
  peer_->shakes_hands = true;
  for (int i = 0; i < 100 && !stands(); ++i) node_->run(100 * kMillisecond_ns);
  EXPECT_TRUE(stands()) << "with the verdict that is right";
}

// … and with whom that dials, neither.
TEST_F(RefusingPeerTest, NoSessionStandsWithWhoDialsAndComesToAnotherVerdict) {
  begin(OnPeerLoss::kContinue);
  node_->network.block_dials_of(0);
  peer_ = std::make_unique<HostilePeer>(*node_, "beta", record_);
  peer_->shakes_hands = false;
  peer_->take(HostilePeer::Stance::kNewer, 0, 0);
  int verdicts = 0;
  peer_->hears = [&verdicts](const wire::FrameHeader& header) {
    verdicts += header.type == static_cast<uint8_t>(wire::FrameType::kVerdict) ? 1 : 0;
  };
  peer_->dial(0);
  node_->run(20 * kMillisecond_ns);
  peer_->send_hello(0);
  node_->run(20 * kMillisecond_ns);
  ASSERT_EQ(verdicts, 1);
  disagree(Verdict::kInSync);
}

// What was said holds no more, and nothing is wrong with the peer, which does not dial: a firewall lets one direction
// through.
TEST_F(RefusingPeerTest, WhoIsPromotedDuringAHandshakeBeginsAnotherOne) {
  begin(OnPeerLoss::kContinue);
  peer_ = std::make_unique<HostilePeer>(*node_, "beta", record_);
  peer_->shakes_hands = false;
  peer_->take(HostilePeer::Stance::kSame, 0, 0);
  int hellos = 0;
  peer_->hears = [&hellos](const wire::FrameHeader& header) {
    hellos += header.type == static_cast<uint8_t>(wire::FrameType::kHello) ? 1 : 0;
  };
  for (int i = 0; i < 1000 && hellos == 0; ++i) node_->run(kMillisecond_ns);
  ASSERT_EQ(hellos, 1);
  peer_->send_hello(0);
  node_->run(20 * kMillisecond_ns);
  promote(true);  // by a word
  peer_->send_verdict(0, static_cast<uint64_t>(Verdict::kInSync));
  node_->run(20 * kMillisecond_ns);
  ASSERT_FALSE(stands());
  peer_->shakes_hands = true;
  for (int i = 0; i < 100 && !stands(); ++i) node_->run(100 * kMillisecond_ns);
  EXPECT_TRUE(stands());
}

// Each time costs both hosts a connection.
TEST_F(RefusingPeerTest, WhoNeverGetsOnIsDialledLessOften) {
  begin(OnPeerLoss::kContinue);
  peer_ = std::make_unique<HostilePeer>(*node_, "beta", record_);
  peer_->take(HostilePeer::Stance::kSame, 0, 0);
  uint64_t hellos = 0;
  peer_->hears = [&](const wire::FrameHeader& header) {
    if (header.type != static_cast<uint8_t>(wire::FrameType::kHello)) return;
    ++hellos;
    peer_->shakes_hands = false;
  };
  const auto hellos_within = [&](uint64_t ns) {
    const uint64_t before = hellos;
    for (const uint64_t end_ns = node_->scheduler.now_ns() + ns; node_->scheduler.now_ns() < end_ns;) {
      node_->run(kMillisecond_ns);
      if (!peer_->shakes_hands) peer_->hang_up(0);
      peer_->shakes_hands = true;
    }
    return hellos - before;
  };
  EXPECT_GT(hellos_within(kSecond_ns), 4u);
  (void)hellos_within(10 * kSecond_ns);
  const uint64_t rounds = 10;
  const uint64_t later = hellos_within(rounds * limits::kReconnectDelayMax_ns);
  EXPECT_GE(later, rounds) << "it goes on";
  EXPECT_LE(later, (rounds + 1) * config_.links.size());
  EXPECT_FALSE(stands());
}

}  // namespace
}  // namespace twinblock::fuzz
