// What a primary that is demoted writes down, by the block, of what its peer misses.
#include <memory>

#include "volume_lost_peer_support.h"

namespace twinblock::fuzz {
namespace {

class DemotionTest : public LostPeerTest {
 protected:
  // It has gone on alone, and the list of what the peer misses takes its time.
  void demote_slowly() {
    go_on_alone();
    const uint64_t list = metadata::layout_of(kVolumeBytes, 64 * kKiB).snapshot_offset;
    node_->metadata.submitted = [this, list](const DiskRequest& request) {
      if (request.op == DiskOp::kWrite && request.offset_bytes == list)
        node_->metadata.hung_until_ns = node_->scheduler.now_ns() + 20 * kSecond_ns;
    };
    demote();
    node_->run(kSecond_ns);
    ASSERT_FALSE(demoted_.has_value()) << "the list is being written";
  }
  void await_end() {
    node_->run(kLong_ns);
    ASSERT_EQ(demoted_, true);
  }
  [[nodiscard]] metadata::NodeRecord on_record() const { return load_plain(node_->metadata.contents, record_).record; }
};

TEST_F(DemotionTest, TheListOfWhatAnAbsentPeerMissesCounts) {
  ASSERT_NO_FATAL_FAILURE(demote_slowly());
  ASSERT_NO_FATAL_FAILURE(await_end());
  EXPECT_TRUE(on_record().snapshot);
  EXPECT_FALSE(on_record().all_dirty);
}

// A peer whose disk is a new one lacks all: after a restart it would be sent no more than the list names.
TEST_F(DemotionTest, AListThatASessionHasOvertakenIsNone) {
  ASSERT_NO_FATAL_FAILURE(demote_slowly());
  peer_ = std::make_unique<HostilePeer>(*node_, "beta", record_);
  peer_->answers = false;
  peer_->take(HostilePeer::Stance::kBlank, 0, 0);
  for (int i = 0; i < 100 && !stands(); ++i) node_->run(100 * kMillisecond_ns);
  ASSERT_TRUE(stands());
  ASSERT_FALSE(demoted_.has_value()) << "the list is being written";
  ASSERT_NO_FATAL_FAILURE(await_end());
  EXPECT_FALSE(on_record().snapshot);
}

// This node flushes by itself what has lain for a second. The peer is gone before it answers that, and clients wait for it.
TEST_F(DemotionTest, DoesNotWaitForAFlushThatIsHeld) {
  begin(OnPeerLoss::kFreeze);
  meet(true);
  promote();
  ASSERT_NO_FATAL_FAILURE(write());
  const int flushes = heard_[wire::FrameType::kFlush];
  peer_->answers = false;
  ASSERT_NO_FATAL_FAILURE(await(wire::FrameType::kFlush, flushes));
  part();
  node_->run(kSecond_ns);
  ASSERT_EQ(node_->engine->volume_state(), VolumeState::kFrozen);
  demote();
  ASSERT_NO_FATAL_FAILURE(await_end());
}

}  // namespace
}  // namespace twinblock::fuzz
