// What the peer may order of the volume as a whole, its compression and its size: an engine on virtual parts, and the
// fuzzers' peer. (About links: volume_link_orders_test.)
#include <gtest/gtest.h>

#include <cerrno>
#include <memory>
#include <optional>

#include "fuzz_node.h"
#include "hostile_peer.h"
#include "metadata_image.h"
#include "wire/codec.h"

namespace twinblock::fuzz {
namespace {

constexpr uint64_t kVolumeBytes = 256 * kKiB;

// A secondary, with a peer that holds the same.
class PeerOrdersTest : public testing::Test {
 protected:
  PeerOrdersTest() : config_(make_config(kVolumeBytes)) {
    const metadata::NodeRecord record = plain_record("alpha", {kVolumeBytes, 64 * kKiB});
    config_.links.pop_back();
    node_ = plain_node(config_, record);
    peer_ = std::make_unique<HostilePeer>(*node_, "beta", record);
    peer_->hears = [this](const wire::FrameHeader& header) {
      if (header.type != static_cast<uint8_t>(wire::FrameType::kAck)) return;
      const auto ack = wire::frame_as<wire::AckFrame>(header);
      if (ack.request == asked_) answer_ = ack.error;
    };
    peer_->take(HostilePeer::Stance::kSame, 0, 2);
    EXPECT_TRUE(node_->engine->start().ok());
    node_->run(3 * kSecond_ns);
    EXPECT_TRUE(node_->engine->inside().session_stands());
  }
  ~PeerOrdersTest() override {
    node_->engine.reset();
    peer_.reset();
  }
  template <typename Frame>
  void tell(const Frame& frame) {
    wire::FrameHeader header = wire::to_header(frame);
    wire::set_order(header, ++*peer_->control());
    peer_->send(0, wire::seal(header, {}));
    node_->run(50 * kMillisecond_ns);
    ASSERT_TRUE(node_->engine->inside().session_stands());
  }
  // The answer to the order that the volume is to have this size; ETIMEDOUT: none.
  uint32_t grow(uint64_t size_bytes) {
    asked_ = peer_->next_sequence();
    answer_.reset();
    tell(wire::GrowFrame{.request = asked_, .size_bytes = size_bytes});
    for (int i = 0; i < 100 && !answer_; ++i) node_->run(10 * kMillisecond_ns);
    return answer_.value_or(ETIMEDOUT);
  }

  Config config_;
  std::unique_ptr<FuzzNode> node_;
  std::unique_ptr<HostilePeer> peer_;
  uint64_t asked_ = 0;
  std::optional<uint32_t> answer_;
};

// Taken over, it would be held against every order about compression that is given here.
TEST_F(PeerOrdersTest, OneAboutCompressionWhoseNumberNoneCanHaveIsNotHeeded) {
  const int level = node_->engine->status().compression.level;
  ASSERT_NE(level, 7);
  tell(wire::CompressionFrame{.mode = 1, .level = 7, .number = ~uint64_t{0}});
  EXPECT_EQ(node_->engine->status().compression.level, level);
  tell(wire::CompressionFrame{.mode = 1, .level = 5, .number = 1});
  EXPECT_EQ(node_->engine->status().compression.level, 5);
}

// What the command line tool, or a peer in order, would never ask for: a smaller one would cut data off.
TEST_F(PeerOrdersTest, OneForASizeThatAVolumeCanNotHaveIsRefused) {
  for (const uint64_t size_bytes : {kVolumeBytes + 1, kVolumeBytes / 2}) {
    ASSERT_EQ(grow(size_bytes), static_cast<uint32_t>(EINVAL)) << size_bytes;
    node_->run(kSecond_ns);
    EXPECT_EQ(node_->engine->status().size_bytes, kVolumeBytes);
    EXPECT_EQ(node_->engine->status().growing_to_bytes, 0u);
  }
}

}  // namespace
}  // namespace twinblock::fuzz
