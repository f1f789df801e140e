#include "mirror/phase.h"

#include <gtest/gtest.h>

#include <string>

namespace twinblock {
namespace {

Phase nth(size_t at) { return static_cast<Phase>(at); }

TEST(Phase, EachHasItsRulesAndItsName) {
  for (size_t at = 0; at < kPhases; ++at) {
    EXPECT_EQ(rules_of(nth(at)).phase, nth(at));
    EXPECT_NE(std::string(phase_name(nth(at))), "");
  }
}

TEST(Phase, TheLossOfTheSessionEndsEach) {
  for (size_t at = 0; at < kPhases; ++at) EXPECT_TRUE(may_follow(nth(at), Phase::kApart));
}

// Only with a record that says so in between, and never both at once.
TEST(Phase, NobodyIsWholeWithoutARecordOfIt) {
  EXPECT_FALSE(may_follow(Phase::kBehind, Phase::kEqual));
  EXPECT_FALSE(may_follow(Phase::kBehind, Phase::kDuplex));
  EXPECT_FALSE(may_follow(Phase::kMarking, Phase::kDuplex));
  EXPECT_FALSE(may_follow(Phase::kIdle, Phase::kDuplex));
  EXPECT_FALSE(may_follow(Phase::kApart, Phase::kDuplex));
}

// Who gave its disk up is brought up to date before it counts again; who stands in hears of that in
// another session.
TEST(Phase, ALostDiskIsLostForTheSession) {
  for (size_t at = 0; at < kPhases; ++at) {
    const Phase to = nth(at);
    const bool leaves = to == Phase::kApart || to == Phase::kIdle;
    EXPECT_EQ(may_follow(Phase::kDiskless, to), leaves);
    EXPECT_EQ(may_follow(Phase::kSoleCopy, to), to == Phase::kApart);
  }
}

TEST(Phase, StepsAreRemembered) {
  PhaseSteps steps;
  steps.took(Phase::kApart, Phase::kEqual);
  steps.took(Phase::kApart, Phase::kBehind);
  EXPECT_EQ(steps.after(Phase::kApart), any_of(Phase::kEqual, Phase::kBehind));
  EXPECT_EQ(steps.after(Phase::kEqual), 0);
}

}  // namespace
}  // namespace twinblock
