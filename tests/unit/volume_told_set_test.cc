// A target tells the source its own set of blocks that may differ, as fast as the source takes it, and answers that it
// is half-copied when all is told. An engine on virtual parts, which tells nothing while the peer has not confirmed what
// came before, and the fuzzers' peer.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "fuzz_node.h"
#include "hostile_peer.h"
#include "metadata_image.h"
#include "wire/codec.h"

namespace twinblock::fuzz {
namespace {

using wire::FrameType;

class ToldSet : public testing::Test {
 protected:
  static constexpr uint64_t kVolumeBytes = 256 * kKiB;

  // What it was writing when it lost its peer may differ, and the peer, which takes nothing yet, has written since.
  ToldSet() : config_(make_config(kVolumeBytes)), record_(plain_record("alpha", {kVolumeBytes, 64 * kKiB})) {
    record_.dirty = true;
    std::vector<std::byte> file = plain_file(record_);
    metadata::Loaded loaded = load_plain(file, record_);
    node_ = std::make_unique<FuzzNode>(config_, "alpha", std::move(file), std::move(loaded), DataFound::kSome, nullptr,
                                       nullptr, 0, nullptr, 3, false, 1);
    EXPECT_TRUE(node_->engine->start().ok());
    peer_ = std::make_unique<HostilePeer>(*node_, "beta", record_);
    peer_->confirms = false;
    peer_->hears = [this](const wire::FrameHeader& header) {
      const auto type = static_cast<FrameType>(header.type);
      if (type == FrameType::kDirty) heard_.push_back(type);
      if (type == FrameType::kAck && wire::frame_as<wire::AckFrame>(header).request == mark_) heard_.push_back(type);
    };
    peer_->take(HostilePeer::Stance::kNewer, 1, 1);
  }
  ~ToldSet() override {
    node_->engine.reset();
    peer_.reset();
  }
  void SetUp() override {
    ASSERT_TRUE(await([this] { return node_->engine->inside().session_stands(); }));
    ASSERT_GT(node_->engine->status().dirty_bytes, 0u);
  }
  template <typename Done>
  bool await(Done&& done) {
    for (int i = 0; i < 100 && !done(); ++i) node_->run(100 * kMillisecond_ns);
    return done();
  }
  void ask_for_the_mark() {
    record_.generations.advance(20);
    mark_ = peer_->tell_generation(0, record_.generations, wire::kGenerationInconsistent);
    node_->run(3 * kSecond_ns);
  }

  const Config config_;
  metadata::NodeRecord record_;
  std::unique_ptr<FuzzNode> node_;
  std::unique_ptr<HostilePeer> peer_;
  uint64_t mark_ = 0;              // the request
  std::vector<FrameType> heard_;  // by the peer: the set, and that it is marked
};

// The source takes the set for complete then, and refuses what would come of it later.
TEST_F(ToldSet, IsWholeBeforeTheMarkIsAnswered) {
  ask_for_the_mark();
  EXPECT_TRUE(node_->engine->status().mine.inconsistent);
  EXPECT_EQ(std::ranges::count(heard_, FrameType::kAck), 0) << "the source has not taken it yet";
  peer_->confirms = true;
  EXPECT_TRUE(await([this] { return std::ranges::count(heard_, FrameType::kAck) > 0; }));
  EXPECT_EQ(heard_, (std::vector{FrameType::kDirty, FrameType::kAck}));
  EXPECT_TRUE(node_->engine->inside().session_stands());
}

}  // namespace
}  // namespace twinblock::fuzz
