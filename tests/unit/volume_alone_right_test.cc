// Whether a node may promise anything on its own replica alone, where a witness has a say in it.
#include "volume/alone_right.h"

#include <gtest/gtest.h>

namespace twinblock {
namespace {

metadata::NodeRecord in_generation(uint64_t current, uint64_t base, uint64_t named) {
  metadata::NodeRecord record;
  record.generations.current = current;
  record.generations.base = base;
  record.named = named;
  return record;
}
metadata::NodeRecord shared() {
  metadata::NodeRecord record = in_generation(5, 5, 5);
  record.generations.history[0] = 4;
  return record;
}
const metadata::NodeRecord kShared = shared();
const metadata::NodeRecord kOwnAndNamed = in_generation(6, 5, 6);
const metadata::NodeRecord kOwn = in_generation(6, 5, 5);

TEST(AloneRight, WithoutAWitnessNobodyIsAsked) {
  const AloneRight right(WitnessKind::kNone);
  EXPECT_FALSE(right.asks(kShared));
  EXPECT_TRUE(right.alone(kShared));
  EXPECT_TRUE(right.take_in_another(kShared));
}

// The other node would go on without asking: consent means nothing, and an operator decides, as without it.
TEST(AloneRight, AWitnessThatOnlyOneNodeAsksIsNone) {
  metadata::NodeRecord record = kShared;
  record.unwitnessed = true;
  for (const WitnessKind kind : {WitnessKind::kEtcd, WitnessKind::kCommand}) {
    const AloneRight right(kind);
    EXPECT_TRUE(right.asks(kShared));
    EXPECT_FALSE(right.asks(record));
    EXPECT_TRUE(right.alone(record));
    EXPECT_TRUE(right.take_in_another(record));
  }
}

TEST(AloneRight, AGenerationThatThePeerMayHaveTakesConsent) {
  AloneRight right(WitnessKind::kEtcd);
  EXPECT_FALSE(right.alone(kShared));
  right.grant();
  EXPECT_TRUE(right.alone(kShared));
  right.withdraw();
  EXPECT_FALSE(right.alone(kShared));
  metadata::NodeRecord told = kOwnAndNamed;
  told.shared = true;
  EXPECT_FALSE(right.alone(told)) << "the peer may have recorded it";
}

TEST(AloneRight, ItsOwnGenerationIsEnoughWhereTheWitnessNamesIt) {
  const AloneRight right(WitnessKind::kEtcd);
  EXPECT_TRUE(right.alone(kOwnAndNamed));
  EXPECT_FALSE(right.alone(kOwn)) << "the witness may consent to who knows what it names";
  EXPECT_TRUE(AloneRight(WitnessKind::kCommand).alone(kOwn)) << "a command knows no generations";
}

TEST(AloneRight, AnotherReplicaJoinsWhenTheFormerPartnerCanNotOvertake) {
  AloneRight right(WitnessKind::kEtcd);
  EXPECT_FALSE(right.take_in_another(kShared)) << "the partner of until now has it";
  EXPECT_TRUE(right.take_in_another(kOwnAndNamed));
  EXPECT_TRUE(right.take_in_another(in_generation(5, 5, 0))) << "a new volume has had no partner";
  right.grant();
  EXPECT_TRUE(right.take_in_another(kShared));
  EXPECT_TRUE(AloneRight(WitnessKind::kCommand).take_in_another(kShared));
}

// What begins then is no right of who had none.
TEST(AloneRight, CoversWhatBeginsForAnotherReplica) {
  AloneRight right(WitnessKind::kEtcd);
  EXPECT_TRUE(right.covers_next(kOwnAndNamed));
  EXPECT_FALSE(right.covers_next(kOwn));
  EXPECT_FALSE(right.covers_next(kShared));
  right.grant();
  EXPECT_TRUE(right.covers_next(kShared));
  EXPECT_FALSE(AloneRight(WitnessKind::kNone).covers_next(kShared)) << "the former partner may have it";
  EXPECT_TRUE(AloneRight(WitnessKind::kNone).covers_next(kOwn));
  EXPECT_FALSE(AloneRight(WitnessKind::kCommand).covers_next(kShared));
  EXPECT_TRUE(AloneRight(WitnessKind::kCommand).covers_next(kOwn));
}

// The witness was not told yet: this process goes on, and knows that it is to be told. Not of what the peer may have.
TEST(AloneRight, TheOperatorsWordCountsUntilTheWitnessWasTold) {
  AloneRight right(WitnessKind::kEtcd);
  right.grant_by_word();
  EXPECT_TRUE(right.alone(kShared) && right.by_word());
  EXPECT_TRUE(right.word_is_to_be_told(kShared)) << "of the claim";
  right.withdraw();  // it is spent
  EXPECT_TRUE(right.alone(kOwn));
  EXPECT_TRUE(right.word_is_to_be_told(kOwn));
  EXPECT_FALSE(right.alone(kShared));
  EXPECT_FALSE(right.word_is_to_be_told(kShared));
  right.word_is_settled();
  EXPECT_FALSE(right.alone(kOwn));
  EXPECT_FALSE(right.by_word());
  AloneRight of_a_command(WitnessKind::kCommand);
  of_a_command.grant_by_word();
  EXPECT_FALSE(of_a_command.by_word()) << "which is told nothing";
}

}  // namespace
}  // namespace twinblock
