// Whom a source brings up to date, and how it tells that one from others: an engine on virtual parts, and the fuzzers' peer.
#include <gtest/gtest.h>

#include "volume_lost_peer_support.h"

namespace twinblock::fuzz {
namespace {

class AnotherMemberTest : public LostPeerTest {
 protected:
  // … until it has heard the first of these.
  void meet_as_source(HostilePeer::Stance stance, uint8_t flags, wire::FrameType first) {
    peer_ = std::make_unique<HostilePeer>(*node_, "beta", record_);
    peer_->answers = first != wire::FrameType::kGeneration;
    peer_->hears = [this](const wire::FrameHeader& header) { ++heard_[static_cast<wire::FrameType>(header.type)]; };
    peer_->take(stance, flags, 0);
    ASSERT_NO_FATAL_FAILURE(await(first, heard_[first]));
  }
  // A source of which nothing tells what the peer misses.
  void begin_with_all_dirty() {
    record_.dirty = record_.all_dirty = true;
    record_.generations.advance(record_.generations.current + 1);
    begin(OnPeerLoss::kContinue);
  }
  [[nodiscard]] metadata::Generations generations() const { return node_->engine->status().mine.generations; }
};

// The former one, put back, would pass for current in a generation that it knows, and in one whose base it has.
TEST_F(AnotherMemberTest, BeginsAGenerationThatTheFormerOneDoesNotKnow) {
  begin_in_duplex();
  const metadata::Generations before = generations();
  part();
  ASSERT_NO_FATAL_FAILURE(meet_as_source(HostilePeer::Stance::kBlank, 0, wire::FrameType::kGeneration));
  EXPECT_NE(generations().current, before.current);
  EXPECT_NE(generations().base, before.current);
  EXPECT_NE(generations().base, before.base);
}

// It had told of its disk's failure, and died before that was on its record: what is read there may not be on the disk.
TEST_F(AnotherMemberTest, OneThatDiedEarlyIsComparedWithNothing) {
  begin_with_all_dirty();
  constexpr uint8_t kCrashed = 2;
  ASSERT_NO_FATAL_FAILURE(meet_as_source(HostilePeer::Stance::kOlder, kCrashed, wire::FrameType::kData));
  node_->run(kSecond_ns);
  EXPECT_EQ(heard_[wire::FrameType::kDigest], 0);
}

TEST_F(AnotherMemberTest, OneThatEndedInOrderIsCompared) {
  begin_with_all_dirty();
  ASSERT_NO_FATAL_FAILURE(meet_as_source(HostilePeer::Stance::kOlder, 0, wire::FrameType::kDigest));
}

// Who goes on alone after it told another replica that it is whole finds it at the base, and sends it what was written
// since.
TEST(Generations, WhoWasTheFirstToShareOneIsAtTheBase) {
  metadata::Generations g{.current = 1, .base = 1, .history = {}};
  g.advance(2);
  g.share_with_nobody();
  EXPECT_NE(g.base, g.current);
  EXPECT_TRUE(g.knows(1)) << "the former one, in the past";
  g.advance(3);
  EXPECT_EQ(g.base, 2u);
}

}  // namespace
}  // namespace twinblock::fuzz
