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

}  // namespace
}  // namespace twinblock::fuzz
