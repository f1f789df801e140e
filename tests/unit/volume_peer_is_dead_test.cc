// A promotion by the operator's word that the peer is dead, while the session with it stands: an engine on virtual parts, and
// the fuzzers' peer.
#include <gtest/gtest.h>

#include <cerrno>
#include <optional>
#include <string>

#include "control/requests.h"
#include "volume_lost_peer_support.h"
#include "wire/codec.h"

namespace twinblock::fuzz {
namespace {

class PeerIsDeadTest : public LostPeerTest {
 protected:
  void meet_primary_that_falls_silent() {
    begin(OnPeerLoss::kContinue);
    meet(true);
    wire::FrameHeader role = wire::to_header(wire::RoleFrame{true, 1});
    wire::set_order(role, ++*peer_->control());
    peer_->send(0, wire::seal(role, {}));
    node_->run(kSecond_ns);
    ASSERT_EQ(node_->engine->status().peer.role, PeerRole::kPrimary);
    peer_->answers = peer_->beats = peer_->confirms = false;
  }
  // 0, an errno value, or nothing yet.
  // `gone`: whether who gave it has; null: he stays.
  void promote_by_word(std::optional<int>& error, const bool* gone = nullptr) {
    Promotion::Word word;
    word.peer_is_dead = true;
    if (gone != nullptr) word.gone = [gone] { return *gone; };
    node_->engine->orders().promote(
        word, [&error](const Result<std::string>& said) { error = said ? 0 : said.error().code; });
  }
};

// Who orders it again, out of impatience, costs the node nothing.
TEST_F(PeerIsDeadTest, ASecondOrderIsRefusedWhileTheFirstWaitsForTheLoss) {
  ASSERT_NO_FATAL_FAILURE(meet_primary_that_falls_silent());
  std::optional<int> first, second;
  promote_by_word(first);
  promote_by_word(second);
  EXPECT_EQ(first, std::nullopt);
  EXPECT_EQ(second, EBUSY);
  part();
  node_->run(kSecond_ns);
  EXPECT_EQ(first, 0);
  EXPECT_TRUE(node_->engine->is_primary());
}

// It would be promoted afterwards, though it was just said to be secondary.
TEST_F(PeerIsDeadTest, ADemotionTakesBackWhatWaitsForTheLoss) {
  ASSERT_NO_FATAL_FAILURE(meet_primary_that_falls_silent());
  std::optional<int> promoted, demoted;
  promote_by_word(promoted);
  ASSERT_EQ(promoted, std::nullopt);
  node_->engine->orders().demote(
      [&demoted](const Result<std::string>& said) { demoted = said ? 0 : said.error().code; });
  EXPECT_EQ(demoted, 0);
  EXPECT_EQ(promoted, EBUSY);
  part();
  node_->run(kLong_ns);
  EXPECT_FALSE(node_->engine->is_primary());
  promote_by_word(promoted);
  node_->run(kSecond_ns);
  EXPECT_EQ(promoted, 0) << "another order";
}

// He was told that it waits, and ended it: he believes his order withdrawn.
TEST_F(PeerIsDeadTest, WhatWaitsForTheLossIsNotCarriedOutWhenWhoGaveItHasGone) {
  for (const bool goes : {true, false}) {
    ASSERT_NO_FATAL_FAILURE(meet_primary_that_falls_silent());
    bool gone = false;
    std::string answer;
    handle_control_request(*node_->engine, {}, R"({"verb":"promote","args":{"peer_is_dead":true}})",
                           [&answer](const std::string& line) { answer = line; }, [&gone] { return gone; });
    node_->run(100 * kMillisecond_ns);
    ASSERT_EQ(answer, "");
    gone = goes;
    node_->run(100 * kMillisecond_ns);
    EXPECT_EQ(answer.empty(), !goes) << "nobody waits for the loss any more";
    part();
    node_->run(kLong_ns);
    EXPECT_EQ(node_->engine->is_primary(), !goes);
    EXPECT_EQ(answer.find("gone") != std::string::npos, goes) << answer;
    std::optional<int> again;
    promote_by_word(again);
    node_->run(kSecond_ns);
    EXPECT_EQ(again, 0) << "another order";
    node_->engine.reset();
  }
}

// What the lost session had brought takes long to end, and he ends his command meanwhile.
TEST_F(PeerIsDeadTest, WhatWaitsForTheLastWritesIsNotCarriedOutWhenWhoGaveItHasGone) {
  for (const bool goes : {true, false}) {
    ASSERT_NO_FATAL_FAILURE(meet_primary_that_falls_silent());
    node_->data.hung_until_ns = node_->scheduler.now_ns() + kSecond_ns;
    wire::DataFrame zeroes{};
    zeroes.request = 1;
    zeroes.length_bytes = 4 * kKiB;
    zeroes.zero = true;
    peer_->send(0, wire::seal(wire::to_header(zeroes), {}));
    node_->run(10 * kMillisecond_ns);
    part();
    bool gone = false;
    std::optional<int> error;
    promote_by_word(error, &gone);
    node_->run(100 * kMillisecond_ns);
    ASSERT_EQ(error, std::nullopt) << "the disk hangs";
    const uint64_t term = load_plain(node_->metadata.contents, record_).record.term;
    gone = goes;
    node_->run(kLong_ns);
    EXPECT_EQ(error, goes ? ECANCELED : 0);
    EXPECT_EQ(node_->engine->is_primary(), !goes);
    EXPECT_EQ(load_plain(node_->metadata.contents, record_).record.term == term, goes) << "on record, or not, as he stays or goes";
    promote_by_word(error);
    node_->run(kSecond_ns);
    EXPECT_EQ(error, 0) << "another order";
    node_->engine.reset();
  }
}

// What waits for its loss would promote this node beside one that has just been promoted.
TEST_F(PeerIsDeadTest, APeerThatBecomesPrimaryMeanwhileIsNotDead) {
  ASSERT_NO_FATAL_FAILURE(meet_primary_that_falls_silent());
  std::optional<int> error;
  promote_by_word(error);
  ASSERT_EQ(error, std::nullopt);
  wire::FrameHeader role = wire::to_header(wire::RoleFrame{true, 2});
  wire::set_order(role, ++*peer_->control());
  peer_->send(0, wire::seal(role, {}));
  node_->run(100 * kMillisecond_ns);
  EXPECT_EQ(error, EBUSY);
}

// It is asked, since it was secondary, and the loss of the session is its answer.
TEST_F(PeerIsDeadTest, TheDeathOfASecondaryThatIsAskedIsWhatTheWordSays) {
  begin(OnPeerLoss::kContinue);
  meet(true);
  peer_->agrees = false;
  std::optional<int> error;
  promote_by_word(error);
  node_->run(100 * kMillisecond_ns);
  ASSERT_EQ(error, std::nullopt);
  part();
  node_->run(kSecond_ns);
  EXPECT_EQ(error, 0);
  EXPECT_TRUE(node_->engine->is_primary());
}

}  // namespace
}  // namespace twinblock::fuzz
