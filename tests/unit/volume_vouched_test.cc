// What becomes of what waits for the witness, or for the operator's word in its place, when the peer is back: an engine on
// virtual parts, and an entry that is told and replaced by hand.
#include <algorithm>
#include <string>
#include <vector>

#include "volume_consent_support.h"

namespace twinblock::fuzz {
namespace {

class VouchedTest : public ConsentTest {};

// It was about a peer that was away.
TEST_F(VouchedTest, AWordCountsForNothingWhenThePeerIsBackBeforeItIsOnRecord) {
  begin();
  std::vector<std::string> lines;
  node_->logs = [&lines](const std::string& line) { lines.push_back(line); };
  node_->metadata.hung_until_ns = node_->scheduler.now_ns() + kLong_ns;
  order({true, true});
  node_->run(kSecond_ns);
  ASSERT_FALSE(promoted_.has_value()) << "the metadata disk hangs";
  meet();
  node_->run(2 * kLong_ns);
  EXPECT_FALSE(promoted());
  EXPECT_TRUE(std::ranges::none_of(lines, [](const std::string& line) {
    return line.find("by the operator's word") != std::string::npos;
  }));
}

// It asks no witness any more: then this node asks none either, and nobody has to be waited for.
TEST_F(VouchedTest, WhatWaitsForTheWitnessGoesOnWhenThePeerAsksNone) {
  ASSERT_NO_FATAL_FAILURE(become_primary());
  witness_.answers_after_ns = 100 * kLong_ns;
  part();
  write();
  node_->run(kLong_ns);
  ASSERT_EQ(written_, std::nullopt);
  ASSERT_TRUE(node_->engine->status().witness.waits);
  meet([](HostilePeer& peer) { peer.asks_register = false; });
  node_->run(kSecond_ns);
  EXPECT_FALSE(node_->engine->status().witness.waits);
  EXPECT_EQ(written_, 0);
}

}  // namespace
}  // namespace twinblock::fuzz
