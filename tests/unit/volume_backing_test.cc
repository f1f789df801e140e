// What follows from whether data were found in the backing.
#include <gtest/gtest.h>

#include "mirror/generation.h"
#include "volume/backing_words.h"
#include "volume/join_order.h"

namespace twinblock {
namespace {

TEST(JoinOrder, StandsByItselfOnlyWhereThereIsProvenToBeNothing) {
  EXPECT_TRUE(JoinOrder(DataFound::kNone).stands());
  EXPECT_FALSE(JoinOrder(DataFound::kSome).stands());
  JoinOrder waits(DataFound::kUnknown);
  EXPECT_FALSE(waits.stands()) << "there may be data where nobody has looked";
  waits.give({});
  EXPECT_TRUE(waits.stands());
}

TEST(BackingWords, SayWhatIsKnown) {
  EXPECT_EQ(lost_words(DataFound::kNone, "/d"), "/d holds nothing but zeroes although it held data");
  EXPECT_NE(lost_words(DataFound::kUnknown, "/d").find("as far as it was read in 10"), std::string::npos);
  EXPECT_NE(unseen_words("/d").find("not all of it was read"), std::string::npos);
}

TEST(BackingWords, AReplicaWhoseDataAreGoneIsNotThrownAwayFirst) {
  SyncFacts lost, other;
  lost.backing_lost = true;
  for (const bool here : {true, false}) {
    const SyncFacts &mine = here ? lost : other, &theirs = here ? other : lost;
    const std::string said = explain(Verdict::kNoGoodCopy, mine, theirs, "beta");
    const std::string advice = advise(Verdict::kNoGoodCopy, mine, theirs, "r0", "beta");
    EXPECT_NE(said.find(here ? "this node's backing holds" : "beta's backing holds"), std::string::npos) << said;
    EXPECT_LT(advice.find("right disk"), advice.find("metadata")) << advice;
    EXPECT_LT(advice.find("--peer-is-dead"), advice.find("metadata")) << advice;
    EXPECT_EQ(said.find('%'), std::string::npos);
    EXPECT_EQ(advice.find('%'), std::string::npos);
  }
  SyncFacts half_copied = lost;
  half_copied.inconsistent = true;
  EXPECT_EQ(explain(Verdict::kNoGoodCopy, half_copied, other, "beta"), explain(Verdict::kNoGoodCopy, "beta"));
  EXPECT_EQ(explain(Verdict::kUnrelated, lost, other, "beta"), explain(Verdict::kUnrelated, "beta"));
}

}  // namespace
}  // namespace twinblock
