// Orders that give up what one of two nodes has written by itself: an engine on virtual parts, and the fuzzers' peer.
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "volume_lost_peer_support.h"
#include "wire/codec.h"

namespace twinblock::fuzz {
namespace {

class ResolveTest : public LostPeerTest {
 protected:
  void keep_what_is_here(std::optional<std::string>& said) {
    node_->engine->orders().resolve(true, false,
                                    [&said](const Result<std::string>& answer) {
                                      EXPECT_TRUE(answer.ok()) << answer.error().what;
                                      said = answer ? answer.value() : "";
                                    });
  }
  void hear_of_state_of_term(uint64_t term) {
    const uint64_t before = node_->engine->status().peer.facts->state_id;
    peer_->take(HostilePeer::Stance::kDiverged, 1, term);
    const auto moved_on = [&] { return node_->engine->status().peer.facts->state_id != before; };
    for (int i = 0; i < 1000 && !moved_on(); ++i) node_->run(100 * kMillisecond_ns);
    ASSERT_TRUE(moved_on());
  }
};

// What is on record is another order, which names what was there before.
TEST_F(ResolveTest, AnOrderThatIsGivenAgainStandsWhenItselfIsOnRecord) {
  begin_in_duplex();
  part();
  write();
  ASSERT_NO_FATAL_FAILURE(be_refused(HostilePeer::Stance::kDiverged, Verdict::kSplitBrain));
  std::optional<std::string> before, first, again;
  keep_what_is_here(before);
  node_->run(kSecond_ns);
  ASSERT_TRUE(before.has_value());
  ASSERT_NO_FATAL_FAILURE(hear_of_state_of_term(3));
  node_->metadata.hung_until_ns = node_->scheduler.now_ns() + kSecond_ns;
  keep_what_is_here(first);
  keep_what_is_here(again);
  node_->run(kSecond_ns / 2);
  EXPECT_EQ(first, std::nullopt);
  EXPECT_EQ(again, std::nullopt) << "it is lost with this process";
  node_->run(kSecond_ns);
  EXPECT_TRUE(first.has_value());
  ASSERT_TRUE(again.has_value());
  EXPECT_TRUE(again->starts_with("this order stands already")) << *again;
}

// What it had recorded of going on alone was about a history that it has given up. The peer has the one that it took
// over, and is to see, when it is back, that something was promised here without it.
TEST_F(ResolveTest, WhoWasBroughtToThePeersStateGoesOnAloneInAGenerationOfItsOwnAgain) {
  go_on_alone();
  demote();
  node_->run(kSecond_ns);
  ASSERT_EQ(demoted_, true);
  constexpr uint8_t kKeep = 128;
  peer_ = std::make_unique<HostilePeer>(*node_, "beta", record_);
  peer_->take(HostilePeer::Stance::kDiverged, kKeep, 1);
  for (int i = 0; i < 100 && !stands(); ++i) node_->run(100 * kMillisecond_ns);
  ASSERT_TRUE(stands());
  metadata::Generations theirs;
  theirs.current = theirs.base = 20;
  for (const uint32_t flag : {wire::kGenerationInconsistent, wire::kGenerationConsistent}) {
    peer_->tell_generation(0, theirs, flag);
    node_->run(kSecond_ns);
  }
  promote();
  write();
  ASSERT_EQ(node_->engine->status().mine.generations.current, theirs.current);
  part();
  ASSERT_EQ(flush(), 0);
  const metadata::NodeRecord on_record = load_plain(node_->metadata.contents, record_).record;
  EXPECT_FALSE(on_record.shares_generation());
}

}  // namespace
}  // namespace twinblock::fuzz
