// A primary that its peer went on without, as it hears from that: which waits, and is demoted; and one that the operator
// promotes again after it.
#include <cerrno>
#include <optional>
#include <string>

#include "control/status_words.h"
#include "volume_lost_peer_support.h"

namespace twinblock::fuzz {
namespace {

class OvertakenTest : public LostPeerTest {
 protected:
  // The peer goes on, is heard to have done so, and is lost for good then.
  void be_promoted_after_it_was_overtaken() {
    meet(true);
    promote();
    part();
    be_refused(HostilePeer::Stance::kNewer, Verdict::kOutdated);
    peer_->vanish();
    node_->run(kLong_ns);
    peer_.reset();
    demote();
    node_->run(kSecond_ns);
    ASSERT_EQ(demoted_, true);
    demoted_.reset();
    promote(by_word());
  }
};

// As `status` advises then: what it has goes, and to part from the peer for that would call for `resolve`.
TEST_F(OvertakenTest, WhoIsOvertakenIsDemotedAsItWas) {
  begin_in_duplex();
  part();
  be_refused(HostilePeer::Stance::kNewer, Verdict::kOutdated);
  follow();
}

// A peer that lost power between does not have all that both acknowledged: what it lacks is not given up without a word.
TEST_F(OvertakenTest, WhoIsOvertakenByOneThatForgotPartsFromIt) {
  begin_in_duplex();
  part();
  be_refused(HostilePeer::Stance::kNewer, Verdict::kOutdated, {8});
  const uint64_t generation = node_->engine->status().mine.generations.current;
  demote();
  node_->run(kSecond_ns);
  EXPECT_EQ(demoted_, true);
  EXPECT_NE(node_->engine->status().mine.generations.current, generation);
}

// Its replica is on record as no good, and the peer's, which it worked on, has gone on: no flush is left to wait for.
TEST_F(OvertakenTest, WhoIsOvertakenWithoutADiskIsDemoted) {
  begin(OnPeerLoss::kContinue);
  ASSERT_NO_FATAL_FAILURE(lose_the_disk());
  part();
  be_refused(HostilePeer::Stance::kNewer, Verdict::kOutdated);
  demote();
  node_->run(kSecond_ns);
  EXPECT_EQ(demoted_, true);
}

// It would be a split brain, and what waits was promised to nobody.
TEST_F(OvertakenTest, WhoIsOvertakenDoesNotGoOnAlone) {
  begin(OnPeerLoss::kFreeze);
  meet(true);
  promote();
  part();
  ClientRequest request;
  std::optional<int> error;
  begin_zeroes(request, error);
  be_refused(HostilePeer::Stance::kNewer, Verdict::kOutdated);
  node_->engine->orders().go_on_alone(false, [](const Result<std::string>& said) {
    ASSERT_FALSE(said.ok());
    EXPECT_NE(said.error().action.find("twinblock detach r0 --force --in-use"), std::string::npos) << said.error().action;
  });
  node_->run(kSecond_ns);
  EXPECT_FALSE(error.has_value()) << "nothing is acknowledged beside what the peer holds";
  const StatusWords words = status_words(node_->engine->status());
  EXPECT_EQ(words.status.find("twinblock continue"), std::string::npos) << words.status;
  EXPECT_NE(words.status.find("--force --in-use"), std::string::npos) << words.status;
}

// Its own writes are the first of a history of their own from then on: the operator has said so.
TEST_F(OvertakenTest, WhoIsPromotedAnewIsOvertakenNoMore) {
  begin(OnPeerLoss::kFreeze);
  ASSERT_NO_FATAL_FAILURE(be_promoted_after_it_was_overtaken());
  ClientRequest request;
  std::optional<int> error;
  begin_zeroes(request, error);
  node_->run(kSecond_ns);
  ASSERT_FALSE(error.has_value()) << "it waits for the peer, or for the operator";
  const StatusWords words = status_words(node_->engine->status());
  EXPECT_NE(words.action.find("twinblock continue r0"), std::string::npos) << words.status << " " << words.action;
  EXPECT_EQ(words.status.find("overtook"), std::string::npos) << words.status;
  std::string refused;
  node_->engine->orders().go_on_alone(false, [&refused](const Result<std::string>& said) {
    if (!said.ok()) refused = said.error().what;
  });
  node_->run(kSecond_ns);
  EXPECT_EQ(refused, "");
  EXPECT_EQ(error, 0);
}

// The peer was not dead: two histories would be made, which a promotion alone has not.
TEST_F(OvertakenTest, WhoIsPromotedAnewHearsAgainThatItIsOvertaken) {
  begin(OnPeerLoss::kFreeze);
  ASSERT_NO_FATAL_FAILURE(be_promoted_after_it_was_overtaken());
  be_refused(HostilePeer::Stance::kNewer, Verdict::kOutdated);
  EXPECT_FALSE(node_->engine->status().refusal.empty());
  bool refused = false;
  node_->engine->orders().go_on_alone(false, [&refused](const Result<std::string>& said) { refused = !said.ok(); });
  EXPECT_TRUE(refused) << "it has written nothing yet";
}

}  // namespace
}  // namespace twinblock::fuzz
