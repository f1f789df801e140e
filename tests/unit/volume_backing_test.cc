// What follows from whether data were found in the backing.
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace twinblock
