// A primary beside a register reads by itself for as long as its peer, by what that has told in this session, waits before
// it asks to be promoted; and is the first to ask. An engine on virtual parts, and the fuzzers' peer.
#include "volume_consent_support.h"

namespace twinblock::fuzz {
namespace {

class LeaseTest : public ConsentTest {
 protected:
  void become_primary_that_reads() {
    ASSERT_NO_FATAL_FAILURE(become_primary());
    ASSERT_TRUE(may_read());
    part();
  }
  [[nodiscard]] bool may_read() const { return node_->engine->worker_view().local_reads(*node_->clock); }
};

TEST_F(LeaseTest, WhatAnEarlierProcessOfThePeerToldDoesNotCount) {
  ASSERT_NO_FATAL_FAILURE(become_primary_that_reads());
  meet([](HostilePeer& peer) { peer.settings.reset(); });
  node_->run(kSecond_ns);
  ASSERT_EQ(node_->engine->inside().phase(), Phase::kDuplex);
  EXPECT_FALSE(may_read()) << "it may have another file by now";
}

// … at no moment, also not between two looks at what holds.
TEST_F(LeaseTest, NobodyReadsBeforeThePeerHasToldInThisSession) {
  ASSERT_NO_FATAL_FAILURE(become_primary_that_reads());
  invite();
  peer_->settings.reset();
  peer_->take(HostilePeer::Stance::kSame, 0, 0);
  bool stood = false;
  for (int i = 0; i < 20000 && node_->engine->inside().phase() != Phase::kDuplex; ++i) {
    node_->run(100 * kMicrosecond_ns);
    stood = stood || node_->engine->inside().session_stands();
    ASSERT_FALSE(stood && may_read()) << "after " << i << " looks";
  }
  EXPECT_EQ(node_->engine->inside().phase(), Phase::kDuplex);
}

// Only the link may be cut. The primary finds that out by silence, and asks at the same time.
TEST_F(LeaseTest, WhoIsToBePromotedLeavesThePrimaryToAskFirst) {
  begin();
  invite();
  peer_->take(HostilePeer::Stance::kSame, 1, 2);
  for (int i = 0; i < 100 && !node_->engine->inside().session_stands(); ++i) node_->run(100 * kMillisecond_ns);
  ASSERT_TRUE(node_->engine->inside().session_stands());
  node_->run(3 * kSecond_ns);
  ASSERT_NO_FATAL_FAILURE(part());
  const int before = witness_.reads;
  order({true});
  node_->run(config_.peer_timeout_ns + 200 * kMillisecond_ns);
  EXPECT_EQ(witness_.reads, before);
  node_->run(kSecond_ns);
  EXPECT_GT(witness_.reads, before);
  EXPECT_TRUE(promoted());
}

}  // namespace
}  // namespace twinblock::fuzz
