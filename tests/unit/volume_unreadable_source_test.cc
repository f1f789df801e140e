// A secondary that is the source of a resync, and whose disk can't be read at many places: it is the only good copy, and is
// not given up. An engine on virtual parts, and the fuzzers' peer.
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "fuzz_node.h"
#include "hostile_peer.h"
#include "metadata_image.h"

namespace twinblock::fuzz {
namespace {

constexpr uint64_t kVolumeBytes = 256 * kKiB;
constexpr uint32_t kRegionBytes = 64 * kKiB;

class UnreadableSourceTest : public testing::Test {
 protected:
  UnreadableSourceTest() : config_(make_config(kVolumeBytes)) {
    static_assert(kVolumeBytes / limits::kBlockBytes > limits::kBadPlacesMax);
    begin(HostilePeer::Stance::kBlank, 0);
  }
  ~UnreadableSourceTest() override { end(); }
  // It is the source of what the peer says that it lacks.
  void begin(HostilePeer::Stance peer, uint8_t flags) {
    const metadata::NodeRecord record = plain_record("alpha", {kVolumeBytes, kRegionBytes});
    node_ = plain_node(config_, record);
    node_->data.unreadable = true;
    peer_ = std::make_unique<HostilePeer>(*node_, "beta", record);
    peer_->take(peer, flags, 0);
    EXPECT_TRUE(node_->engine->start().ok());
    node_->run(kUnreadableSoon_ns);
  }
  void end() {
    node_->engine.reset();
    peer_.reset();
  }

  static constexpr uint64_t kUnreadableSoon_ns = 30 * kSecond_ns;
  const Config config_;
  std::unique_ptr<FuzzNode> node_;
  std::unique_ptr<HostilePeer> peer_;
};

TEST_F(UnreadableSourceTest, IsNotGivenUpAndMayBePromoted) {
  const StatusView view = node_->engine->status();
  EXPECT_TRUE(view.disk_ok);
  EXPECT_EQ(view.state, VolumeState::kResync);
  EXPECT_TRUE(view.resync.waits_for_disk);
  EXPECT_EQ(view.resync.unreadable_bytes, kVolumeBytes);
  EXPECT_EQ(view.dirty_bytes, kVolumeBytes);
  node_->engine->orders().promote({}, [](Result<std::string> said) { EXPECT_TRUE(said.ok()); });
  node_->run(kSecond_ns);
  EXPECT_TRUE(node_->engine->is_primary());
  EXPECT_TRUE(node_->engine->status().resync.waits_for_disk) << "in the same session";
}

// A peer whose copy was cut off, and which does not know of what, may hold it, and nobody can compare the two.
TEST_F(UnreadableSourceTest, SaysWhetherThePeerMayHoldIt) {
  EXPECT_FALSE(node_->engine->status().resync.target_may_have_unreadable);
  end();
  constexpr uint8_t kInconsistent = 4, kMapNotValid = 32;
  begin(HostilePeer::Stance::kSame, kInconsistent | kMapNotValid);
  ASSERT_EQ(node_->engine->status().resync.unreadable_bytes, kVolumeBytes);
  EXPECT_TRUE(node_->engine->status().resync.target_may_have_unreadable);
}

TEST_F(UnreadableSourceTest, TriesAgainAfterAMinute) {
  const uint64_t before = node_->engine->status().read_errors;
  EXPECT_EQ(before, kVolumeBytes / limits::kBlockBytes) << "each place once";
  node_->run(limits::kUnreadableRetry_ns - kUnreadableSoon_ns - kSecond_ns);
  EXPECT_EQ(node_->engine->status().read_errors, before);
  node_->data.unreadable = false;
  node_->run(3 * kSecond_ns);
  const StatusView view = node_->engine->status();
  EXPECT_EQ(view.state, VolumeState::kConnected);
  EXPECT_EQ(view.dirty_bytes, 0u);
  EXPECT_EQ(view.unreadable_places, 0u) << "it reads well everywhere";
}

TEST_F(UnreadableSourceTest, WaitsNoLongerWhenAllWasWrittenAnew) {
  node_->engine->orders().promote({}, [](const Result<std::string>& said) { EXPECT_TRUE(said.ok()); });
  node_->run(kSecond_ns);
  ASSERT_TRUE(node_->engine->status().resync.waits_for_disk);
  node_->data.unreadable = false;
  node_->data.submitted = [this](const DiskRequest& request) {
    if (request.op == DiskOp::kFlush) node_->data.hung_until_ns = node_->scheduler.now_ns() + 20 * kSecond_ns;
  };
  ClientRequest request;
  std::optional<int> error;
  request.op = ClientOp::kZero;
  request.length_bytes = kVolumeBytes;
  request.done = [&error](ClientRequest& done) { error = done.error; };
  node_->engine->clients().submit(request);
  node_->run(3 * kSecond_ns);
  ASSERT_EQ(error, 0);
  const StatusView view = node_->engine->status();
  ASSERT_EQ(view.dirty_bytes, 0u);
  ASSERT_EQ(view.state, VolumeState::kResync) << "the flush at its end is under way";
  EXPECT_FALSE(view.resync.waits_for_disk);
}

}  // namespace
}  // namespace twinblock::fuzz
