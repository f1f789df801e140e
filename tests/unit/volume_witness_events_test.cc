// Which events tell of a witness, and of an operator who need not wait for the peer: an engine on virtual parts, and an entry
// that is told and replaced by hand.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "volume_consent_support.h"

namespace twinblock::fuzz {
namespace {

class WitnessEvents : public ConsentTest {
 protected:
  // A field of each event of that name, "" where it has none.
  [[nodiscard]] std::vector<std::string> told(const std::string& name, const std::string& field) const {
    std::vector<std::string> values;
    for (const Event& event : std::as_const(*node_->engine).events().log().after(0, 1000)) {
      if (name != event.name) continue;
      const auto at = std::ranges::find_if(event.details, [&field](const auto& each) { return each.first == field; });
      values.push_back(at == event.details.end() ? "" : std::get<std::string>(at->second));
    }
    return values;
  }
  // A primary that waits, with writes that its peer may lack.
  void be_refused_with_differences() {
    ASSERT_NO_FATAL_FAILURE(become_primary());
    peer_->answers = false;
    write();
    witness_.reading = {entry(kClaim, "beta"), witness_.reading.revision + 1};
    part();
    node_->run(kSecond_ns);
    ASSERT_EQ(node_->engine->status().witness.standing, WitnessStanding::kRefused);
  }
  // The peer is back, and takes part until the first of these comes.
  void meet_for_a_long_resync() {
    peer_.reset();
    peer_ = std::make_unique<HostilePeer>(*node_, "beta", record_);
    peer_->asks_register = true;
    peer_->settings = make_settings(config_);
    peer_->hears = [this](const wire::FrameHeader& header) {
      const auto type = static_cast<wire::FrameType>(header.type);
      if (type == wire::FrameType::kDigest || type == wire::FrameType::kData) peer_->answers = false;
    };
    peer_->take(HostilePeer::Stance::kSame, 0, 0);
    for (int i = 0; i < 100 && peer_->answers; ++i) node_->run(100 * kMillisecond_ns);
    node_->run(kSecond_ns);
    ASSERT_EQ(node_->engine->status().state, VolumeState::kResync);
    ASSERT_FALSE(node_->engine->status().frozen);
  }
};

// With on_peer_loss = "freeze" the witness is asked when an operator says that nobody waits for the peer.
TEST_F(WitnessEvents, AnOperatorWhoLetsAFrozenPrimaryGoOnIsTold) {
  config_.on_peer_loss = OnPeerLoss::kFreeze;
  ASSERT_NO_FATAL_FAILURE(become_primary());
  part();
  node_->run(kSecond_ns);
  ASSERT_EQ(node_->engine->status().state, VolumeState::kFrozen);
  ASSERT_TRUE(told("went-on-alone", "node").empty());
  bool said_ok = false;
  node_->engine->orders().go_on_alone(false, [&said_ok](const Result<std::string>& said) { said_ok = said.ok(); });
  node_->run(kSecond_ns);
  EXPECT_TRUE(said_ok);
  EXPECT_EQ(told("went-on-alone", "node"), std::vector<std::string>{"alpha"});
  EXPECT_EQ(node_->engine->status().state, VolumeState::kSimplex);
}

// The peer's file had no witness, and has one now: that it has not been asked yet is no answer of it.
TEST_F(WitnessEvents, WhatWasNotAskedIsNoAnswer) {
  begin();
  for (const bool asks : {false, true}) {
    meet([asks](HostilePeer& peer) { peer.asks_register = asks; });
    node_->run(kSecond_ns);
    part();
  }
  const std::vector<std::string> states = told("witness", "state");
  EXPECT_FALSE(states.empty());
  for (const std::string& state : states) EXPECT_NE(state, "unknown");
}

// An entry says no more: the right may have been given, and not been used.
TEST_F(WitnessEvents, WhoWasLetGoOnIsNotSaidToHaveGoneOn) {
  ASSERT_NO_FATAL_FAILURE(become_primary());
  witness_.reading = {entry(kClaim, "beta"), witness_.reading.revision + 1};
  part();
  node_->run(kSecond_ns);
  ASSERT_EQ(node_->engine->status().witness.standing, WitnessStanding::kRefused);
  EXPECT_EQ(told("witness", "reason").back(), "the witness says that beta may have gone on alone, in generation " +
                                                  metadata::format_generation(kClaim) +
                                                  ", which this node does not know");
}

// It serves its clients again, and the peer, which had not gone on, is brought up to date: for a whole resync the
// witness is not asked anew.
TEST_F(WitnessEvents, WhoGoesOnWithThePeerIsRefusedNoMore) {
  ASSERT_NO_FATAL_FAILURE(be_refused_with_differences());
  ASSERT_NO_FATAL_FAILURE(meet_for_a_long_resync());
  EXPECT_EQ(node_->engine->status().witness.standing, WitnessStanding::kUnasked);
  EXPECT_EQ(node_->engine->status().witness.error, "");
}

// … nor by an answer that was under way.
TEST_F(WitnessEvents, WhoGoesOnWithThePeerIsNotRefusedBelatedly) {
  ASSERT_NO_FATAL_FAILURE(be_refused_with_differences());
  witness_.answers_after_ns = 500 * kMillisecond_ns;
  ASSERT_NO_FATAL_FAILURE(meet_for_a_long_resync());
  EXPECT_NE(node_->engine->status().witness.standing, WitnessStanding::kRefused);
  EXPECT_EQ(std::ranges::count(told("witness", "state"), "refused"), 1);
}

// A copy to another replica than before waits for it, whatever it said of the time before: it is asked at once.
TEST_F(WitnessEvents, WhoTakesInAnotherReplicaIsRefusedAnew) {
  record_.generations.history[0] = kGeneration - 1;  // it has had a partner
  ASSERT_NO_FATAL_FAILURE(become_primary());
  witness_.reading = {entry(kClaim, "beta"), witness_.reading.revision + 1};
  part();
  node_->run(kSecond_ns);
  ASSERT_EQ(node_->engine->status().witness.standing, WitnessStanding::kRefused);
  const int reads = witness_.reads;
  peer_.reset();
  peer_ = std::make_unique<HostilePeer>(*node_, "beta", record_);
  peer_->asks_register = true;
  peer_->settings = make_settings(config_);
  peer_->take(HostilePeer::Stance::kBlank, 0, 0);
  for (int i = 0; i < 1000 && !node_->engine->inside().session_stands(); ++i) node_->run(10 * kMillisecond_ns);
  ASSERT_TRUE(node_->engine->inside().session_stands());
  EXPECT_NE(node_->engine->status().witness.standing, WitnessStanding::kUnasked) << "it is being asked";
  node_->run(100 * kMillisecond_ns);
  EXPECT_GT(witness_.reads, reads);
  EXPECT_TRUE(node_->engine->status().witness.copy_waits);
  EXPECT_EQ(node_->engine->status().witness.standing, WitnessStanding::kRefused);
}

}  // namespace
}  // namespace twinblock::fuzz
