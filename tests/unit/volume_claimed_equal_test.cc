// A peer that says that it has this node's generation, where by this node's record nobody else may have it. An engine on
// virtual parts, and the fuzzers' peer, which is told the generation in the handshake.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fuzz_node.h"
#include "hostile_peer.h"
#include "metadata_image.h"
#include "wire/frames.h"

namespace twinblock::fuzz {
namespace {

constexpr uint64_t kVolumeBytes = 256 * kKiB;

class ClaimedEqualTest : public testing::Test {
 protected:
  ClaimedEqualTest() : config_(make_config(kVolumeBytes)) {}
  ~ClaimedEqualTest() override {
    node_->engine.reset();
    peer_.reset();
  }
  // A node that has begun a generation alone, or shares the one that it has, and that misses nothing by its record.
  void begin(bool alone) {
    metadata::NodeRecord record = plain_record("alpha", {kVolumeBytes, 64 * kKiB});
    if (alone) ++record.generations.current;
    node_ = plain_node(config_, record);
    node_->logs = [this](const std::string& line) { log_ += line + "\n"; };
    peer_ = std::make_unique<HostilePeer>(*node_, "beta", record);
    peer_->hears = [this](const wire::FrameHeader& header) {
      if (static_cast<wire::FrameType>(header.type) == wire::FrameType::kDigest)
        compared_bytes_ += wire::frame_as<wire::DigestFrame>(header).length_bytes;
    };
    peer_->listens = false;
    EXPECT_TRUE(node_->engine->start().ok());
  }
  void meet() {
    peer_->listens = true;
    peer_->take(HostilePeer::Stance::kSame, 0, 0);
    node_->run(10 * kSecond_ns);
    ASSERT_TRUE(node_->engine->inside().session_stands());
  }

  const Config config_;
  std::unique_ptr<FuzzNode> node_;
  std::unique_ptr<HostilePeer> peer_;
  uint64_t compared_bytes_ = 0;
  std::string log_;
};

TEST_F(ClaimedEqualTest, IsBelievedWhereTheGenerationIsShared) {
  begin(false);
  meet();
  EXPECT_EQ(node_->engine->status().state, VolumeState::kConnected);
  EXPECT_EQ(compared_bytes_, 0u);
}

TEST_F(ClaimedEqualTest, IsComparedWhereNeitherHasWritten) {
  begin(true);
  meet();
  EXPECT_NE(log_.find("which by this node's record nobody else was given: all is compared"), std::string::npos) << log_;
  EXPECT_GE(compared_bytes_, kVolumeBytes);
  EXPECT_EQ(node_->engine->status().state, VolumeState::kConnected);
}

// It is primary when the peer comes, and has written nothing: it would have nothing to send.
TEST_F(ClaimedEqualTest, IsComparedByAPrimaryThatHasNothingToSend) {
  begin(true);
  node_->engine->orders().promote(true, [](const Result<std::string>& said) {
    EXPECT_TRUE(said.ok()) << said.error().what;
  });
  for (int i = 0; i < 100 && !node_->engine->is_primary(); ++i) node_->run(100 * kMillisecond_ns);
  ASSERT_TRUE(node_->engine->is_primary());
  ASSERT_EQ(node_->engine->status().dirty_bytes, 0u);
  meet();
  EXPECT_GE(compared_bytes_, kVolumeBytes);
  EXPECT_EQ(node_->engine->status().state, VolumeState::kDuplex);
}

}  // namespace
}  // namespace twinblock::fuzz
