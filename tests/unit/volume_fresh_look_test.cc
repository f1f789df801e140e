// A blank node looks at its backing once more before it is filled without an order, for each session anew: an engine on
// virtual parts, and the fuzzers' peer as the source.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "hostile_peer.h"
#include "metadata_image.h"
#include "wire/codec.h"

namespace twinblock::fuzz {
namespace {

constexpr uint64_t kVolumeBytes = 256 * kKiB;
constexpr uint64_t kLook_ns = 100 * kMillisecond_ns;  // more than one takes

class FreshLookTest : public testing::Test {
 protected:
  FreshLookTest() : config_(make_config(kVolumeBytes)) {
    node_ = blank_node(config_, DataFound::kNone);
    metadata::NodeRecord known;
    known.volume_uuid[0] = 1;
    known.generations.current = known.generations.base = kGeneration;
    peer_ = std::make_unique<HostilePeer>(*node_, "beta", known);
    peer_->take(HostilePeer::Stance::kNewer, 1, 2);
    node_->data.submitted = [this](const DiskRequest& request) {
      overwritten_ |= request.op == DiskOp::kWrite || request.op == DiskOp::kZero;
    };
    EXPECT_TRUE(node_->engine->start().ok());
  }
  ~FreshLookTest() override {
    node_->engine.reset();
    peer_.reset();
  }

  [[nodiscard]] bool stands() const { return node_->engine->inside().session_stands(); }
  [[nodiscard]] bool blank() const { return node_->engine->status().mine.blank; }
  [[nodiscard]] bool joinable() const { return node_->engine->status().joinable; }
  void meet() {
    for (int i = 0; i < 1000 && !stands(); ++i) node_->run(50 * kMillisecond_ns);
    ASSERT_TRUE(stands());
  }
  void part() {
    peer_->listens = false;
    while (peer_->up()) peer_->hang_up(0);
    for (int i = 0; i < 1000 && stands(); ++i) node_->run(50 * kMillisecond_ns);
    ASSERT_FALSE(stands());
    peer_->listens = true;
  }
  // As a source that is about to send its data does until it may.
  void ask() {
    wire::GenerationPayload payload{};
    payload.current = kGeneration + 1;
    payload.base = kGeneration;
    payload.volume_uuid[0] = 1;
    payload.flags = wire::kGenerationInconsistent;
    wire::FrameHeader header = wire::to_header(wire::GenerationFrame{.request = peer_->next_sequence()});
    wire::set_order(header, ++*peer_->control());
    const auto bytes = wire::bytes_of(payload);
    peer_->send(0, wire::seal(header, bytes));
    peer_->send(0, bytes);
    node_->run(kLook_ns);
  }

  static constexpr uint64_t kGeneration = 11;
  const Config config_;
  std::unique_ptr<FuzzNode> node_;
  std::unique_ptr<HostilePeer> peer_;
  bool overwritten_ = false;
};

TEST_F(FreshLookTest, OneLookIsEnoughForASession) {
  meet();
  ask();
  EXPECT_TRUE(blank()) << "it is asked again";
  ask();
  EXPECT_FALSE(blank());
  EXPECT_EQ(node_->data.looks, 1u);
}

TEST_F(FreshLookTest, WhatIsFoundThenWaitsForTheOrder) {
  node_->data.found = DataFound::kSome;
  meet();
  ask();
  EXPECT_FALSE(stands());
  EXPECT_FALSE(joinable());
  EXPECT_TRUE(blank());
}

// Somebody may have put data there since.
TEST_F(FreshLookTest, ALookForASessionThatIsGoneCountsForNoOther) {
  meet();
  ask();
  part();
  meet();
  node_->data.found = DataFound::kSome;
  ask();
  ask();
  EXPECT_EQ(node_->data.looks, 2u);
  EXPECT_TRUE(blank() && !joinable() && !overwritten_);
}

TEST_F(FreshLookTest, ALookThatEndsInTheNextSessionCountsForNeither) {
  node_->workers->longer_ns = 60 * kSecond_ns;
  meet();
  ask();
  part();
  meet();
  EXPECT_EQ(node_->data.looks, 0u) << "it is to last until then";
  node_->run(60 * kSecond_ns);
  EXPECT_EQ(node_->data.looks, 1u);
  ASSERT_TRUE(stands());
  node_->workers->longer_ns = 0;
  node_->data.found = DataFound::kSome;
  ask();
  ask();
  EXPECT_EQ(node_->data.looks, 2u);
  EXPECT_TRUE(blank() && !joinable() && !overwritten_);
}

// A disk that can't be read may be one that can be a while later.
TEST_F(FreshLookTest, WhereNotAllWasReadTheNextSessionLooksAgain) {
  node_->data.found = DataFound::kUnknown;
  const auto go_on_for = [this](uint64_t ns) {
    for (uint64_t gone_ns = 0; gone_ns < ns && blank(); gone_ns += kLook_ns)
      if (stands())
        ask();
      else
        node_->run(kLook_ns);
  };
  go_on_for(5 * limits::kPeerDiskRetry_ns);
  EXPECT_TRUE(blank() && joinable() && !overwritten_);
  EXPECT_GE(node_->data.looks, 3u);
  EXPECT_LE(node_->data.looks, 6u);
  node_->data.found = DataFound::kNone;
  go_on_for(2 * limits::kPeerDiskRetry_ns);
  EXPECT_FALSE(blank());
}

TEST_F(FreshLookTest, WhereNotAllWasReadDataAreStillFoundLater) {
  node_->data.found = DataFound::kUnknown;
  meet();
  ask();
  EXPECT_FALSE(stands());
  node_->data.found = DataFound::kSome;
  meet();
  ask();
  ask();
  EXPECT_TRUE(blank() && !joinable() && !overwritten_);
}

}  // namespace
}  // namespace twinblock::fuzz
