// A node that goes on alone by right, and takes in another replica: the right is not spent on what has nothing yet. An engine
// on virtual parts, and a witness that is told by hand.
#include <string>

#include "volume_consent_support.h"

namespace twinblock::fuzz {
namespace {

enum class By { kConsent, kWord, kCommand };

class NewcomerRightTest : public ConsentTest, public testing::WithParamInterface<By> {
 protected:
  NewcomerRightTest() {
    record_.generations.history[0] = kGeneration - 1;  // it has had a partner
    if (GetParam() != By::kCommand) return;
    config_.witness.kind = WitnessKind::kCommand;
    fence_.says = kPeerFenced;
  }
  void go_on_alone() {
    ASSERT_NO_FATAL_FAILURE(become_primary());
    if (GetParam() == By::kWord) witness_.fails = true;
    part();
    write();
    if (GetParam() == By::kWord) {
      node_->run(kSecond_ns);
      node_->engine->orders().go_on_alone(true, [](const Result<std::string>& said) { EXPECT_TRUE(said.ok()); });
    }
    node_->run(kLong_ns);
    ASSERT_EQ(written_, 0);
    nobody_consents();
  }
  // … to anything from now on.
  void nobody_consents() {
    witness_.fails = true;
    fence_.says = AnsweringFence{}.says;  // it still runs
  }
  // One more is answered, without the witness.
  void goes_on(const std::string& when) {
    written_.reset();
    write();
    node_->run(kSecond_ns);
    EXPECT_EQ(written_, 0) << when;
  }
};

TEST_P(NewcomerRightTest, WhoWasAloneGoesOnBesideOneAndWithoutItAgain) {
  ASSERT_NO_FATAL_FAILURE(go_on_alone());
  const metadata::Generations before = node_->engine->status().mine.generations;
  meet_newcomer();
  peer_->answers = false;  // it takes long before it answers that it is marked
  node_->run(5 * kSecond_ns);
  ASSERT_TRUE(node_->engine->inside().session_stands());
  ASSERT_NE(node_->engine->status().mine.generations.base, before.base) << "another one is to be the partner";
  goes_on("it is being marked");
  part();
  goes_on("it is gone");
}

// As in the former partner's generation: that one may have been promoted meanwhile.
TEST_P(NewcomerRightTest, WhoHadNoRightGetsNoneByIt) {
  if (GetParam() == By::kWord) return;  // the word is the right
  begin();
  meet();
  order();
  ASSERT_TRUE(promoted());
  node_->run(5 * kSecond_ns);
  nobody_consents();
  part();
  meet_newcomer();
  peer_->answers = false;
  node_->run(5 * kSecond_ns);
  part();
  write();
  node_->run(5 * kSecond_ns);
  EXPECT_FALSE(written_.has_value());
}

INSTANTIATE_TEST_SUITE_P(AloneBy, NewcomerRightTest, testing::Values(By::kConsent, By::kWord, By::kCommand),
                         [](const auto& param) {
                           return param.param == By::kConsent ? "Consent" : param.param == By::kWord ? "Word" : "Command";
                         });

// A primary that is alone and has written nothing since: what it would lose with its power the former peer's memory may hold.
class NewcomerFlushTest : public ConsentTest {
 protected:
  NewcomerFlushTest() {
    record_.generations.history[0] = kGeneration - 1;  // it has had a partner
  }
  void be_left_in_duplex() {
    ASSERT_NO_FATAL_FAILURE(become_primary());
    write();
    ASSERT_EQ(written_, 0);
    part();
  }
  void expect_that_the_newcomer_is_not_on_record() const {
    EXPECT_EQ(on_record().generations.current, kGeneration);
    EXPECT_EQ(on_record().begun_for, 0u);
  }
};

TEST_F(NewcomerFlushTest, WhoLosesItsPowerInTheFlushBeforeANewcomerIsTakenInAsksForTheWord) {
  ASSERT_NO_FATAL_FAILURE(be_left_in_duplex());
  node_->data.hung_until_ns = node_->scheduler.now_ns() + 3 * kSecond_ns;
  meet_newcomer();
  node_->run(2 * kSecond_ns);
  ASSERT_TRUE(node_->engine->inside().session_stands());
  ASSERT_EQ(witness_.reading.entry->holder, "alpha") << "it consents";
  expect_that_the_newcomer_is_not_on_record();
  const metadata::NodeRecord left = on_record();
  node_->run(kLong_ns);
  EXPECT_NE(on_record().generations.current, kGeneration) << "the disk has answered";
  peer_.reset();
  node_->engine.reset();
  record_ = left;  // its power was lost before
  begin();
  EXPECT_TRUE(node_->engine->status().promotion.forgot);
  order();
  EXPECT_FALSE(promoted());
}

TEST_F(NewcomerFlushTest, AFlushThatFailsPutsNoNewcomerOnRecord) {
  ASSERT_NO_FATAL_FAILURE(be_left_in_duplex());
  node_->data.fail_flushes();
  meet_newcomer();
  node_->run(kLong_ns);
  ASSERT_EQ(witness_.reading.entry->holder, "alpha") << "it consents";
  ASSERT_TRUE(on_record().flush_failed);
  expect_that_the_newcomer_is_not_on_record();
}

}  // namespace
}  // namespace twinblock::fuzz
