// A promotion that waits for a witness, or for a fence command, and is taken back by a demotion, or as who gave
// its word has gone: an engine on virtual parts, and who is asked answers late.
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "volume_consent_support.h"

namespace twinblock::fuzz {
namespace {

// It runs until it is told what it says.
class RunningFence final : public FenceCommand {
 public:
  void fence(const FenceCall&, std::function<void(Result<int>)> done) override {
    ++calls;
    done_ = std::move(done);
  }
  [[nodiscard]] std::string name() const override { return "a fence command that takes long"; }
  void ends(FuzzNode& node, int status) {
    node.scheduler.after(0, nullptr, [done = std::exchange(done_, nullptr), status] { done(status); });
    node.run(kSecond_ns);
  }

  int calls = 0;

 private:
  std::function<void(Result<int>)> done_;
};

class TakenBackTest : public ConsentTest {
 protected:
  // Whether it was said to be secondary at once.
  bool demote() {
    std::optional<bool> demoted;
    node_->engine->orders().demote([&demoted](const Result<std::string>& said) { demoted = said.ok(); });
    return demoted.value_or(false);
  }
  void expect_that_it_stays_secondary() {
    EXPECT_FALSE(node_->engine->is_primary());
    EXPECT_FALSE(on_record().primary);
  }
};

TEST_F(TakenBackTest, WhatTheWitnessSaysLateMakesNobodyPrimary) {
  begin();
  witness_.answers_after_ns = kLong_ns;
  order();
  node_->run(kSecond_ns);
  ASSERT_EQ(witness_.reads, 1);
  ASSERT_FALSE(promoted_.has_value()) << "it waits for the witness";
  EXPECT_TRUE(demote());
  EXPECT_EQ(promoted_, false);
  node_->run(2 * kLong_ns);
  expect_that_it_stays_secondary();
  EXPECT_TRUE(witness_.replacements.empty());
  EXPECT_EQ(witness_.reading.entry, entry(kGeneration, ""));
}

// It names this node, which knows what it names; the peer does again when the two have met.
TEST_F(TakenBackTest, WhatWasPutThereMeanwhileIsInTheWayOfNobodyWhoHasMetThePeer) {
  begin();
  witness_.asked_to_replace = [this] { witness_.answers_after_ns = kLong_ns; };
  order();
  node_->run(kSecond_ns);
  ASSERT_EQ(witness_.replacements.size(), 1u);
  ASSERT_FALSE(promoted_.has_value());
  EXPECT_TRUE(demote());
  EXPECT_EQ(promoted_, false);
  witness_.asked_to_replace = nullptr;
  node_->run(2 * kLong_ns);
  ASSERT_EQ(witness_.reading.entry->holder, "alpha");
  expect_that_it_stays_secondary();
  witness_.answers_after_ns = kMillisecond_ns;
  meet();
  node_->run(5 * kSecond_ns);
  EXPECT_EQ(witness_.reading.entry, entry(kGeneration, ""));
  part();
  promoted_.reset();
  order();
  EXPECT_TRUE(promoted()) << "another order";
}

TEST_F(TakenBackTest, AWordThatIsRecordedLateCountsForNothing) {
  begin();
  node_->metadata.hung_until_ns = node_->scheduler.now_ns() + kLong_ns;
  order({true, true});
  node_->run(kSecond_ns);
  ASSERT_FALSE(promoted_.has_value()) << "the metadata disk hangs";
  EXPECT_TRUE(demote());
  EXPECT_EQ(promoted_, false);
  node_->run(2 * kLong_ns);
  expect_that_it_stays_secondary();
  witness_.answers_after_ns = 100 * kLong_ns;
  promoted_.reset();
  order({true});
  node_->run(2 * kLong_ns);
  EXPECT_FALSE(promoted_.value_or(false)) << "the witness has not answered";
  expect_that_it_stays_secondary();
}

// He vouched for the peer's death in the witness' place, and ended his command while the peer was asked.
TEST_F(TakenBackTest, AWordWhoseGiverHasGoneMakesNobodyPrimary) {
  for (const bool goes : {true, false}) {
    promoted_.reset();
    witness_.fails = true;
    begin();
    meet();
    peer_->agrees = false;
    const auto gone = std::make_shared<bool>(false);
    order({true, true, [gone] { return *gone; }});
    node_->run(100 * kMillisecond_ns);
    ASSERT_FALSE(promoted_.has_value()) << "the peer is asked";
    *gone = goes;
    part();
    node_->run(kLong_ns);
    EXPECT_EQ(promoted_, !goes);
    EXPECT_EQ(node_->engine->is_primary(), !goes);
    const uint64_t claim = on_record().claim;
    EXPECT_TRUE(!goes || claim == record_.claim) << "nor is anything claimed for him";
    peer_.reset();
    node_->engine.reset();
  }
}

// … or the witness was, or his word was being recorded, which counts for no later order either.
TEST_F(TakenBackTest, AWordWhoseGiverHasGoneMeanwhileMakesNobodyPrimary) {
  for (const bool without_witness : {true, false}) {
    promoted_.reset();
    begin();
    witness_.answers_after_ns = kSecond_ns;
    if (without_witness) node_->metadata.hung_until_ns = node_->scheduler.now_ns() + kSecond_ns;
    const auto gone = std::make_shared<bool>(false);
    order({true, without_witness, [gone] { return *gone; }});
    node_->run(100 * kMillisecond_ns);
    ASSERT_FALSE(promoted_.has_value());
    *gone = true;
    node_->run(kLong_ns);
    EXPECT_EQ(promoted_, false);
    expect_that_it_stays_secondary();
    EXPECT_EQ(on_record().term, record_.term) << "nothing was put on record";
    witness_.fails = true;
    promoted_.reset();
    order();
    EXPECT_FALSE(promoted()) << "the witness has to be asked again";
    witness_.fails = false;
    node_->run(kLong_ns);
    promoted_.reset();
    order();
    EXPECT_TRUE(promoted()) << "another order";
    node_->engine.reset();
    witness_.reading = {entry(kGeneration, ""), 5};
    witness_.answers_after_ns = kMillisecond_ns;
  }
}

TEST_F(TakenBackTest, AFenceCommandThatEndsLateMakesNobodyPrimary) {
  config_.witness.kind = WitnessKind::kCommand;
  record_.node = name_;
  std::vector<std::byte> file = plain_file(record_);
  metadata::Loaded loaded = load_plain(file, record_);
  RunningFence fence;
  node_ = std::make_unique<FuzzNode>(config_, name_, std::move(file), std::move(loaded), DataFound::kSome, nullptr,
                                     nullptr, 0, &fence);
  ASSERT_TRUE(node_->engine->start().ok());
  order();
  for (int i = 0; i < 100 && fence.calls == 0; ++i) node_->run(kSecond_ns);
  ASSERT_EQ(fence.calls, 1);
  ASSERT_FALSE(promoted_.has_value());
  EXPECT_TRUE(demote());
  EXPECT_EQ(promoted_, false);
  // The next order is for a question of its own.
  promoted_.reset();
  order();
  node_->run(kSecond_ns);
  EXPECT_TRUE(demote());
  fence.ends(*node_, 7);
  expect_that_it_stays_secondary();
  EXPECT_EQ(fence.calls, 1) << "nobody asks it any more";
  promoted_.reset();
  order();
  for (int i = 0; i < 100 && fence.calls == 1; ++i) node_->run(kSecond_ns);
  ASSERT_EQ(fence.calls, 2);
  EXPECT_FALSE(promoted_.has_value());
  fence.ends(*node_, 7);
  EXPECT_TRUE(promoted());
  node_->engine.reset();  // before who it asks
}

}  // namespace
}  // namespace twinblock::fuzz
