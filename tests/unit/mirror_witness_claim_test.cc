// What a witness' entry means for a node that wants to go on alone.
#include "mirror/witness_claim.h"

#include <gtest/gtest.h>

namespace twinblock {
namespace {

constexpr uint64_t kShared = 0x10, kOlder = 0x11, kForeign = 0x66, kClaim = 0x77;

metadata::NodeRecord record() {
  metadata::NodeRecord record;
  record.generations.current = record.generations.base = kShared;
  record.generations.history[0] = kOlder;
  return record;
}

WitnessReading names(uint64_t generation, const std::string& holder) {
  return {WitnessEntry{"uuid", generation, holder}, 7};
}

ClaimVerdict judge(const WitnessReading& reading, const metadata::NodeRecord& node) {
  return judge_claim(reading, node);
}

TEST(WitnessClaim, WhoKnowsTheGenerationMayReplaceIt) {
  EXPECT_EQ(judge(names(kShared, ""), record()), ClaimVerdict::kReplace);
  EXPECT_EQ(judge(names(kShared, "beta"), record()), ClaimVerdict::kReplace) << "they have met since";
  EXPECT_EQ(judge(names(kOlder, "beta"), record()), ClaimVerdict::kReplace);
}

TEST(WitnessClaim, WhoDoesNotKnowItWasOvertaken) {
  EXPECT_EQ(judge(names(kForeign, "beta"), record()), ClaimVerdict::kOvertaken);
  EXPECT_EQ(judge(names(kForeign, "alpha"), record()), ClaimVerdict::kOvertaken)
      << "another disk of this node's went on";
  EXPECT_EQ(judge(names(kForeign, ""), record()), ClaimVerdict::kOvertaken);
}

TEST(WitnessClaim, ItsOwnClaimIsKnown) {
  metadata::NodeRecord node = record();
  EXPECT_EQ(judge(names(kClaim, "alpha"), node), ClaimVerdict::kOvertaken) << "of another disk of this node's";
  node.claim = kClaim;
  EXPECT_EQ(judge(names(kClaim, "alpha"), node), ClaimVerdict::kReplace);
  node.claim = 0;
  EXPECT_EQ(judge(names(0, ""), node), ClaimVerdict::kOvertaken) << "no claim is no generation";
}

TEST(WitnessClaim, AnEntryThatIsGoneWasLost) {
  EXPECT_EQ(judge({}, record()), ClaimVerdict::kLost);
  metadata::NodeRecord fresh = record();
  fresh.generations.history = {};
  EXPECT_EQ(judge({}, fresh), ClaimVerdict::kReplace) << "there never was another replica";
}

}  // namespace
}  // namespace twinblock
