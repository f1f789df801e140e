// The state of a volume in one word, of how its node stands.
#include "volume/volume_state.h"

#include <gtest/gtest.h>

namespace twinblock {
namespace {

TEST(VolumeState, OfASession) {
  Standing node;
  node.connected = true;
  EXPECT_EQ(state_of(node), VolumeState::kConnecting);
  node.blank = true;
  EXPECT_EQ(state_of(node), VolumeState::kBlank);
  node.in_sync = true;
  EXPECT_EQ(state_of(node), VolumeState::kConnected);
  node.peer = PeerRole::kPrimary;
  EXPECT_EQ(state_of(node), VolumeState::kDuplex);
  node.unreadable = true;
  EXPECT_EQ(state_of(node), VolumeState::kDegraded);
  node.role = Role::kPrimary;
  node.peer_whole = true;
  EXPECT_EQ(state_of(node), VolumeState::kDegraded);
  node.sole_copy = true;
  EXPECT_EQ(state_of(node), VolumeState::kDiskless);
  node.resyncing = true;
  EXPECT_EQ(state_of(node), VolumeState::kResync);
}

TEST(VolumeState, OfAPrimaryAlone) {
  Standing node;
  node.role = Role::kPrimary;
  EXPECT_EQ(state_of(node), VolumeState::kSimplex);
  node.frozen = true;
  EXPECT_EQ(state_of(node), VolumeState::kFrozen);
  node.refused = true;
  EXPECT_EQ(state_of(node), VolumeState::kRefused);
  node.disk_ok = false;
  EXPECT_EQ(state_of(node), VolumeState::kFailed);
}

// It is primary until that is done, and says so everywhere else.
TEST(VolumeState, OfAPrimaryAloneThatIsBeingDemoted) {
  Standing node;
  node.role = Role::kDemoting;
  EXPECT_EQ(state_of(node), VolumeState::kSimplex);
  node.refused = true;
  EXPECT_EQ(state_of(node), VolumeState::kRefused);
  node.disk_ok = false;
  EXPECT_EQ(state_of(node), VolumeState::kFailed);
}

TEST(VolumeState, TwoBlankNodesDoNotRefuseEachOther) {
  Standing node;
  EXPECT_EQ(state_of(node), VolumeState::kWaiting);
  node.refused = true;
  EXPECT_EQ(state_of(node), VolumeState::kRefused);
  node.blank = node.both_blank = true;
  EXPECT_EQ(state_of(node), VolumeState::kBlank);
}

}  // namespace
}  // namespace twinblock
