// A primary beside a register reads by itself for as long as its peer, by what that has told in this session, waits before
// it asks to be promoted. An engine on virtual parts, and the fuzzers' peer.
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

}  // namespace
}  // namespace twinblock::fuzz
