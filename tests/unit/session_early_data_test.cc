// Data that a peer sends before this node has on record that it takes some: how much of it is held, and for how long. An
// engine on virtual parts, and the fuzzers' hostile peer.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "session_hostile_support.h"

namespace twinblock::fuzz {
namespace {

class EarlyDataTest : public HostilePeerTest {
 protected:
  void send_data(uint64_t offset_bytes, const std::vector<std::byte>& data, size_t over = 0) {
    const wire::DataFrame frame{
        .request = peer_->next_sequence(), .offset_bytes = offset_bytes, .length_bytes = data.size()};
    peer_->send(over, wire::seal(wire::to_header(frame), data));
    peer_->send(over, data);
    node_->run(20 * kMillisecond_ns);
  }
  void mark_as_half_copied(size_t link) {
    metadata::Generations told = record_.generations;
    told.advance(0xABCD);
    peer_->tell_generation(link, told, wire::kGenerationInconsistent);
    node_->run(kSecond_ns);
  }
  void begin_another_session() {
    peer_->listens = false;
    while (peer_->up()) peer_->hang_up(0);
    for (int i = 0; i < 1000 && stands(); ++i) node_->run(50 * kMillisecond_ns);
    ASSERT_FALSE(stands());
    peer_->listens = true;
    for (int i = 0; i < 1000 && !stands(); ++i) node_->run(50 * kMillisecond_ns);
    ASSERT_TRUE(stands());
    node_->run(3 * kSecond_ns);  // the other link joins
  }
};

// Data that has overtaken the generation is held. It may not keep the receive slab that it lies in, nearly all of which
// was used for other frames.
TEST_F(EarlyDataTest, EarlyDataIsHeldForWhatItIs) {
  ASSERT_NO_FATAL_FAILURE(meet(HostilePeer::Stance::kNewer, 1));
  const size_t before = allocated_bytes();
  constexpr size_t kHeld = 100;
  const std::vector<std::byte> one(1, std::byte{7});
  for (size_t i = 0; i < kHeld; ++i) {
    const wire::HeaderBytes data = wire::seal(
        wire::to_header(wire::DataFrame{.request = peer_->next_sequence(), .offset_bytes = 0, .length_bytes = 1}), one);
    peer_->send(0, data);
    peer_->send(0, one);
    send(limits::kReceiveSlabBytes / sizeof(wire::FrameHeader),
         [this] { return wire::to_header(wire::HeartbeatFrame{.sent_ns = node_->scheduler.now_ns()}); });
    node_->run(60 * kMillisecond_ns);
  }
  node_->run(kSecond_ns);
  ASSERT_TRUE(stands()) << "a good source's data may come early";
  EXPECT_LT(allocated_bytes() - std::min(before, allocated_bytes()), 40 * kMiB);
}

TEST_F(EarlyDataTest, EarlyDataOfALostSessionTakesNoRoomOfTheNextOnes) {
  ASSERT_NO_FATAL_FAILURE(meet(HostilePeer::Stance::kNewer, 1));
  const std::vector<std::byte> data(kVolumeBytes, std::byte{7});
  for (int session = 0; session < 3; ++session) {
    for (uint64_t sent = 0; sent < limits::kReceiveBytesMax / 2; sent += data.size()) {
      send_data(0, data);
    }
    ASSERT_TRUE(stands()) << "a good source's data may come early: session " << session;
    ASSERT_NO_FATAL_FAILURE(begin_another_session());
  }
}

// … and is not written there: what lies there by then may be newer.
TEST_F(EarlyDataTest, EarlyDataOfALostSessionIsNotAppliedInTheNextOne) {
  ASSERT_NO_FATAL_FAILURE(meet(HostilePeer::Stance::kNewer, 1));
  send_data(0, std::vector<std::byte>(limits::kBlockBytes, std::byte{7}));
  ASSERT_TRUE(stands());
  ASSERT_NO_FATAL_FAILURE(begin_another_session());
  send_data(limits::kBlockBytes, std::vector<std::byte>(limits::kBlockBytes, std::byte{8}));
  mark_as_half_copied(0);
  ASSERT_TRUE(stands());
  EXPECT_EQ(node_->data.contents[limits::kBlockBytes], std::byte{8}) << "it came early in this one";
  EXPECT_EQ(node_->data.contents[0], std::byte{0});
}

// A good source's, which waits for answers, is never more.
TEST_F(EarlyDataTest, EarlyDataIsHeldUpToABound) {
  ASSERT_NO_FATAL_FAILURE(meet(HostilePeer::Stance::kNewer, 1));
  peer_->listens = false;
  const std::vector<std::byte> data(kVolumeBytes, std::byte{7});
  uint64_t sent = 0;
  for (; stands() && sent < 2 * limits::kReceiveBytesMax; sent += data.size()) {
    send_data(0, data);
  }
  EXPECT_FALSE(stands());
  EXPECT_GT(sent, limits::kReceiveBytesMax / 2);
}

// A good peer sends it again, and has no more of it than before.
TEST_F(EarlyDataTest, WhatWentWithItsConnectionDoesNotCount) {
  ASSERT_NO_FATAL_FAILURE(meet(HostilePeer::Stance::kNewer, 1));
  peer_->listens = peer_->shakes_hands = false;  // nothing else is retired
  const std::vector<std::byte> data(kVolumeBytes, std::byte{7});
  const auto send_much = [&](size_t over) {
    for (uint64_t sent = 0; sent < limits::kReceiveBytesMax * 3 / 4; sent += data.size()) send_data(0, data, over);
  };
  send_much(0);
  ASSERT_TRUE(stands());
  peer_->retire(0, true);
  node_->run(100 * kMillisecond_ns);
  send_much(1);
  EXPECT_TRUE(stands());
}

// It is sent again elsewhere, and what lies here would land after that.
TEST_F(EarlyDataTest, EarlyDataGoesWithItsConnection) {
  size_t retired = 0;
  peer_->hears = [&retired](const wire::FrameHeader& header) {
    retired += static_cast<size_t>(header.type == static_cast<uint8_t>(wire::FrameType::kRetired));
  };
  ASSERT_NO_FATAL_FAILURE(meet(HostilePeer::Stance::kNewer, 1));
  peer_->listens = peer_->shakes_hands = false;  // nothing else is retired
  const std::vector<std::byte> block(4 * kKiB, std::byte{7});
  send_data(0, block);
  peer_->retire(0, false);
  node_->run(kSecond_ns);
  ASSERT_TRUE(stands());
  EXPECT_EQ(retired, 1u);
  size_t written = 0;
  node_->data.submitted = [&written](const DiskRequest& request) {
    written += static_cast<size_t>(request.op == DiskOp::kWrite);
  };
  size_t agreed = 0;
  peer_->hears = [&agreed](const wire::FrameHeader& header) {
    agreed += static_cast<size_t>(header.type == static_cast<uint8_t>(wire::FrameType::kAck) && header.status == 0);
  };
  for (int i = 0; i < 10 && agreed == 0; ++i) mark_as_half_copied(1);  // a copy may be taken first
  EXPECT_EQ(agreed, 1u);
  EXPECT_EQ(written, 0u);
}

}  // namespace
}  // namespace twinblock::fuzz
