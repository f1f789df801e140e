// What a node may tell the witness while its claim is not on record, or is just being recorded: an engine on virtual parts,
// and an entry that is told and replaced by hand.
#include <algorithm>
#include <cerrno>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "volume_consent_support.h"

namespace twinblock::fuzz {
namespace {

constexpr uint64_t kBoot = 7;

class UnrecordedClaimTest : public ConsentTest {
 protected:
  // How often.
  [[nodiscard]] int64_t told(const std::string& event) const {
    const std::vector<Event> all = std::as_const(*node_->engine).events().log().after(0, 1000);
    return std::ranges::count(all, event, &Event::name);
  }
  // A process of a node that was primary when its last one ended, on this boot of its host.
  void begin_again() {
    record_.node = name_;
    record_.primary = true;
    record_.boot = record_.promoted_boot = kBoot;
    record_.term = kTerm;
    node_ = plain_node(config_, record_, &witness_, nullptr, kBoot);
    witness_.scheduler = &node_->scheduler;
    EXPECT_TRUE(node_->engine->start().ok());
  }
  void lose_metadata_disk() {
    node_->metadata.error = EIO;
    node_->metadata.failures = ~uint64_t{0};
  }

  static constexpr uint64_t kTerm = 2;
};

// A later process of this node knows nothing of such a claim, and would be overtaken by its own name.
TEST_F(UnrecordedClaimTest, AClaimThatTheDiskDidNotTakeIsNotPutThereForAnotherReplica) {
  record_.generations.history[0] = kGeneration - 1;  // it has had a partner
  config_.on_peer_loss = OnPeerLoss::kFreeze;        // so that none is made before
  ASSERT_NO_FATAL_FAILURE(become_primary());
  part();
  node_->run(kSecond_ns);
  ASSERT_EQ(on_record().claim, 0u);
  node_->metadata.submitted = [this](const DiskRequest&) {
    if (node_->engine->inside().session_stands()) lose_metadata_disk();
  };
  meet_newcomer();
  node_->run(kLong_ns);
  EXPECT_EQ(witness_.reading.entry->holder, "");
  EXPECT_EQ(node_->engine->status().witness.error, "the claim could not be recorded: Input/output error");
  EXPECT_TRUE(node_->engine->status().witness.copy_waits);
}

// It is blank, and has nowhere to put its consent: the operator hears for what to wait, and does not wait in vain.
TEST_F(UnrecordedClaimTest, WhoIsToBePromotedBesideANewcomerHearsThatItsCopyWaits) {
  record_.generations.history[0] = kGeneration - 1;  // it has had a partner
  witness_.fails = true;
  begin();
  meet_newcomer();
  node_->run(kLong_ns);
  ASSERT_TRUE(node_->engine->status().witness.copy_waits);
  peer_->agrees = false;
  const auto refused = std::make_shared<std::string>();  // it may be told at the end
  node_->engine->orders().promote({}, [refused](const Result<std::string>& said) { *refused = said ? "" : said.error().what; });
  node_->run(10 * kMillisecond_ns);
  EXPECT_NE(refused->find("waits for the witness"), std::string::npos) << *refused;
}

// Both would carry the promotion out: the second under a term that the device that waits is not of.
TEST_F(UnrecordedClaimTest, WhileTheOperatorsWordIsRecordedNobodyAsksTheWitnessToGoOn) {
  begin_again();
  witness_.fails = true;
  node_->run(limits::kLeaseMax_ns + 3 * config_.peer_timeout_ns);
  ASSERT_GT(witness_.reads, 0);
  node_->metadata.hung_until_ns = node_->scheduler.now_ns() + kLong_ns;
  order({true, true});
  ASSERT_FALSE(promoted_.has_value()) << "the metadata disk hangs";
  witness_.fails = false;
  const int reads = witness_.reads;
  node_->run(kLong_ns / 2);
  EXPECT_EQ(witness_.reads, reads);
  node_->run(kLong_ns);
  EXPECT_TRUE(promoted());
  EXPECT_EQ(on_record().term, kTerm) << "it goes on as if its process had stood still";
}

// The second time, perhaps, because the first one takes long. Nor is it told before it is on record.
TEST_F(UnrecordedClaimTest, AWordThatIsGivenTwiceIsRefusedNeitherTime) {
  begin();
  order({true, true});
  ASSERT_TRUE(promoted());
  write();
  meet();
  node_->run(5 * kSecond_ns);
  witness_.fails = true;
  part();
  write();
  node_->metadata.hung_until_ns = node_->scheduler.now_ns() + kSecond_ns;
  int done = 0;
  std::string refused;
  for (int times = 0; times < 2; ++times)
    node_->engine->orders().go_on_alone(true, [&](const Result<std::string>& said) {
      ++done;
      if (!said) refused = said.error().what;
    });
  node_->run(500 * kMillisecond_ns);
  EXPECT_EQ(done, 0);
  EXPECT_EQ(told("went-on-alone"), 0) << "it is not on record";
  node_->run(5 * kSecond_ns);
  EXPECT_EQ(done, 2);
  EXPECT_EQ(refused, "");
  EXPECT_EQ(told("went-on-alone"), 1);
}

// The witness does not answer, and the operator does not wait for it any longer.
TEST_F(UnrecordedClaimTest, AWordInTheSteadOfTheWitnessIsToldOnce) {
  config_.on_peer_loss = OnPeerLoss::kFreeze;
  ASSERT_NO_FATAL_FAILURE(become_primary());
  witness_.fails = true;
  part();
  node_->run(kSecond_ns);
  for (const bool without_witness : {false, true}) {
    EXPECT_EQ(told("went-on-alone"), 0);
    bool said_ok = false;
    node_->engine->orders().go_on_alone(without_witness,
                                        [&said_ok](const Result<std::string>& said) { said_ok = said.ok(); });
    node_->run(kSecond_ns);
    EXPECT_TRUE(said_ok) << without_witness;
  }
  node_->run(5 * kSecond_ns);
  EXPECT_EQ(told("went-on-alone"), 1);
  meet();
  node_->run(5 * kSecond_ns);
  part();
  node_->run(kSecond_ns);
  node_->engine->orders().go_on_alone(true, [](const Result<std::string>&) {});
  node_->run(5 * kSecond_ns);
  EXPECT_EQ(told("went-on-alone"), 2) << "it was together with the peer meanwhile";
}

// The right is void when it comes, and what is written waits again when it is gone.
TEST_F(UnrecordedClaimTest, AWordThatIsGivenAgainAfterThePeerWasThereIsToldAgain) {
  record_.generations.history[0] = kGeneration - 1;  // it has had a partner
  ASSERT_NO_FATAL_FAILURE(become_primary());
  witness_.fails = true;
  part();
  for (const int64_t times : {1, 2}) {
    node_->run(kSecond_ns);
    ASSERT_TRUE(node_->engine->status().frozen);
    for (int i = 0; i < 2; ++i) node_->engine->orders().go_on_alone(true, [](const Result<std::string>&) {});
    node_->run(5 * kSecond_ns);
    EXPECT_EQ(told("went-on-alone"), times);
    meet_newcomer();
    peer_->answers = false;  // it takes no part
    node_->run(5 * kSecond_ns);
    ASSERT_TRUE(node_->engine->inside().session_stands());
    part();
  }
}

// Claimed while the witness could not be reached, and begun when the peer's file had none for a while: whoever goes on
// in it, with the same witness again, is in a generation that the entry does not know.
TEST_F(UnrecordedClaimTest, AClaimThatIsBegunUnaskedIsNotNamedByTheWitness) {
  record_.generations.history[0] = kGeneration - 1;  // it has had a partner
  ASSERT_NO_FATAL_FAILURE(become_primary());
  witness_.fails = true;
  part();
  node_->run(kSecond_ns);
  const uint64_t claim = on_record().claim;
  ASSERT_NE(claim, 0u);
  ASSERT_NO_FATAL_FAILURE(meet([](HostilePeer& peer) { peer.asks_register = false; }));
  part();
  write();
  ASSERT_EQ(written_, 0) << "nobody is asked any more";
  ASSERT_EQ(on_record().generations.current, claim);
  EXPECT_NE(on_record().named, claim);
  ASSERT_NO_FATAL_FAILURE(meet([](HostilePeer& peer) { peer.answers = false; }));  // it is not marked as half-copied yet
  part();
  witness_.reading.entry = entry(kGeneration + 1000, "beta");  // which goes on: it was in what the entry named
  witness_.fails = false;
  written_.reset();
  write();
  node_->run(kLong_ns);
  EXPECT_FALSE(written_.has_value()) << "two would acknowledge";
  EXPECT_EQ(witness_.reading.entry->holder, "beta");
}

}  // namespace
}  // namespace twinblock::fuzz
