// What a node's record says of its role, and what its process knows beside that.
#include "volume/recorded_role.h"

#include <gtest/gtest.h>

namespace twinblock {
namespace {

struct StillClock final : Clock {
  [[nodiscard]] uint64_t now_ns() const override { return 1; }
  [[nodiscard]] uint64_t wall_ns() const override { return 1; }
  [[nodiscard]] std::unique_ptr<Timer> make_timer(std::function<void()>) override { return nullptr; }
  [[nodiscard]] bool on_loop() const override { return true; }
};

class RecordedRoleTest : public testing::Test {
 protected:
  metadata::NodeRecord record_;
  StillClock clock_;
  const ReplicaHistory::Random random_ = [] { return 7; };
  ReplicaHistory history_{record_, clock_, random_};
  RecordedRole role_{record_, history_};
};

// Whoever was primary last may have acknowledged what only one of the two disks has, and reads may have shown it.
TEST_F(RecordedRoleTest, APromotionAloneTakesOverFromWhoeverWasPrimary) {
  for (const bool peer : {true, false}) {
    record_.peer_primary = peer;
    record_.primary = !peer;  // this node's last process
    RecordedRole role(record_, history_);
    role.become_primary(true);
    EXPECT_TRUE(role.took_over()) << (peer ? "from the peer" : "from this node's last process");
    role.become_secondary(false, true);
    EXPECT_TRUE(record_.dirty);
  }
}

TEST_F(RecordedRoleTest, SoDoesAPrimaryThatGoesOnAlone) {
  record_.primary = true;
  role_.resume_primary(true);
  EXPECT_TRUE(role_.took_over());
  EXPECT_TRUE(record_.primary);
}

TEST_F(RecordedRoleTest, WhereNobodyWasOrThePeerIsThereNothingIsTakenOver) {
  role_.become_primary(true);
  EXPECT_FALSE(role_.took_over()) << "nobody was primary";
  RecordedRole beside(record_, history_);
  beside.resume_primary(false);
  EXPECT_FALSE(beside.took_over()) << "the peer has heard of it";
  record_.peer_primary = true;
  beside.become_primary(false);
  EXPECT_FALSE(beside.took_over());
}

TEST_F(RecordedRoleTest, ATermIsAboveAllThatWereHeard) {
  record_.term = 3;
  role_.hear_term(8);
  role_.hear_term(5);
  role_.become_primary(true);
  EXPECT_EQ(record_.term, 9u);
  role_.hear_term(UINT64_MAX);
  EXPECT_EQ(role_.next_term(), UINT64_MAX) << "it does not begin anew";
}

// A client that waits for a promotion of the volume that was here before, whose blocks it knows, is let in by that number.
TEST_F(RecordedRoleTest, ANewVolumeCountsItsPromotionsFromAnotherNumber) {
  record_.volume_uuid = {1, 2, 3, 4, 5, 6};
  const uint64_t before = role_.next_term();
  EXPECT_GT(before, 1'000'000u) << "volumes of older versions counted from 1";
  record_.volume_uuid[4] = 9;
  EXPECT_GT(role_.next_term(), before + 1) << "nor is it the next one";
  role_.become_primary(true);
  EXPECT_EQ(role_.next_term(), record_.term + 1);
}

}  // namespace
}  // namespace twinblock
