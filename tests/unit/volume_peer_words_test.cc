// What a peer tells a secondary, as often as it likes, and what of it is taken over, answered and logged: an engine on
// virtual parts, and the fuzzers' peer.
#include <gtest/gtest.h>

#include <cerrno>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "session/hello.h"
#include "volume/settings.h"
#include "volume_beside_peer_support.h"

namespace twinblock::fuzz {
namespace {

constexpr uint64_t kLargerBytes = 2 * kVolumeBytes;

class PeerWordsTest : public BesidePeerTest {
 protected:
  PeerWordsTest() : BesidePeerTest(1) {}
  template <typename Frame>
  void tell(const Frame& frame, std::span<const std::byte> payload = {}) {
    wire::FrameHeader header = wire::to_header(frame);
    wire::set_order(header, ++*peer_->control());
    peer_->send(0, wire::seal(header, payload));
    peer_->send(0, payload);
    node_->run(kMillisecond_ns);
  }
  // The answer to the order that the volume is to have this size; ETIMEDOUT: none.
  int grow(uint64_t size_bytes) {
    const uint64_t asked = peer_->next_sequence();
    tell(wire::GrowFrame{.request = asked, .size_bytes = size_bytes});
    return static_cast<int>(answer_to(asked));
  }
  void make_room_for(uint64_t size_bytes) {
    node_->data.contents.resize(size_bytes);
    node_->metadata.contents.resize(node_->metadata.contents.size() + kMiB);
  }
};

// Whoever ordered it waits for the answer, which the peer asks for again and again.
TEST_F(PeerWordsTest, AGrowthThatHasFailedIsAnswered) {
  make_room_for(kLargerBytes);
  bool full = true;
  node_->data.submitted = [&](const DiskRequest& request) {
    if (request.op != DiskOp::kZero || !full) return;
    full = false;
    node_->data.error = ENOSPC;
    node_->data.failures = 1;
  };
  ASSERT_EQ(grow(kLargerBytes), EINPROGRESS);
  node_->run(kSecond_ns);
  ASSERT_FALSE(full) << "it was tried";
  EXPECT_EQ(grow(kLargerBytes), ENOSPC);
  EXPECT_EQ(grow(kLargerBytes), EINPROGRESS) << "there is room by now";
  node_->run(kSecond_ns);
  EXPECT_EQ(grow(kLargerBytes), 0);
}

// It covers what clients wrote before, too, and nobody is told of that once more.
TEST_F(PeerWordsTest, AFlushThatFailsForAGrowthIsOnRecord) {
  make_room_for(kLargerBytes);
  bool fails = true;
  node_->data.submitted = [&](const DiskRequest& request) {
    if (request.op != DiskOp::kFlush || !std::exchange(fails, false)) return;
    node_->data.error = EIO;
    node_->data.failures = 1;
  };
  ASSERT_EQ(grow(kLargerBytes), EINPROGRESS);
  node_->run(kSecond_ns);
  ASSERT_FALSE(fails) << "it was flushed";
  const metadata::NodeRecord now = load_plain(node_->metadata.contents, record_).record;
  EXPECT_TRUE(now.flush_failed);
  EXPECT_EQ(now.size_bytes, kVolumeBytes);
  EXPECT_NE(node_->engine->status().disk_error, "");
}

// Intents of what is new have no pages yet: a write there would be in nobody's list after a loss of power.
TEST_F(PeerWordsTest, AVolumeDoesNotGrowWhereItsIntentsCanNot) {
  make_room_for(kLargerBytes);
  bool fails = true;
  node_->metadata.submitted = [&](const DiskRequest&) {
    if (!std::exchange(fails, false)) return;
    node_->metadata.error = EIO;
    node_->metadata.failures = 1;
  };
  ASSERT_EQ(grow(kLargerBytes), EINPROGRESS);
  node_->run(kSecond_ns);
  ASSERT_FALSE(fails) << "they were to grow";
  EXPECT_EQ(grow(kLargerBytes), EIO);
  EXPECT_EQ(node_->engine->worker_view().volume_bytes(), kVolumeBytes);
}

// Only a primary gives its disk up: there would be nobody who may be promoted.
TEST_F(PeerWordsTest, ASecondaryDoesNotMakeThisOneTheOnlyGoodCopy) {
  metadata::Generations told = record_.generations;
  told.advance(20);
  const wire::GenerationPayload payload = make_generation(told, record_.volume_uuid, wire::kGenerationSoleCopy);
  tell(wire::GenerationFrame{peer_->next_sequence()}, wire::bytes_of(payload));
  EXPECT_FALSE(stands());
  node_->run(kSecond_ns);
  EXPECT_NE(node_->engine->volume_state(), VolumeState::kDiskless);
  const metadata::NodeRecord now = load_plain(node_->metadata.contents, record_).record;
  EXPECT_FALSE(now.all_dirty);
  EXPECT_EQ(now.generations.current, record_.generations.current);
}

TEST_F(PeerWordsTest, APrimaryMakesThisOneTheOnlyGoodCopy) {
  tell(wire::RoleFrame{.primary = true, .term = 3});
  metadata::Generations told = record_.generations;
  told.advance(20);
  const wire::GenerationPayload payload = make_generation(told, record_.volume_uuid, wire::kGenerationSoleCopy);
  EXPECT_FALSE(node_->engine->status().peer.whole_on_this_node);
  tell(wire::GenerationFrame{peer_->next_sequence()}, wire::bytes_of(payload));
  node_->run(kSecond_ns);
  ASSERT_TRUE(stands());
  EXPECT_TRUE(node_->engine->status().peer.whole_on_this_node);
  EXPECT_TRUE(load_plain(node_->metadata.contents, record_).record.all_dirty);
}

// True or not.
TEST_F(PeerWordsTest, WhatItSaysOfItsFileWithoutEndDoesNotFillTheLog) {
  std::vector<std::string> lines;
  node_->logs = [&lines](const std::string& line) { lines.push_back(line); };
  constexpr uint64_t kFrames = 2000;
  wire::SettingsPayload settings = make_settings(config_);
  for (uint64_t number = 0; number < kFrames; ++number) {
    settings.on_peer_loss ^= 1;
    tell(wire::SettingsFrame{}, wire::bytes_of(settings));
  }
  ASSERT_TRUE(stands());
  EXPECT_FALSE(lines.empty());
  EXPECT_LE(lines.size(), limits::kStrangerReasonsMax + 1);
}

TEST_F(PeerWordsTest, OrdersAboutCompressionWithoutEndDoNotFillTheLog) {
  std::vector<std::string> lines;
  node_->logs = [&lines](const std::string& line) { lines.push_back(line); };
  constexpr uint64_t kFrames = 2000;
  for (uint64_t number = 1; number <= kFrames; ++number)
    tell(wire::CompressionFrame{.mode = 1, .level = static_cast<uint8_t>(1 + number % 5), .number = number});
  ASSERT_TRUE(stands());
  EXPECT_FALSE(lines.empty());
  EXPECT_LE(lines.size(), limits::kStrangerReasonsMax + 1);
}

}  // namespace
}  // namespace twinblock::fuzz
