// What waits for a node's record, and is not to happen where the disk fails that: an engine on virtual parts, and the
// fuzzers' peer.
#include <gtest/gtest.h>

#include <cerrno>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "metadata/superblock.h"
#include "volume_resumption_support.h"
#include "wire/codec.h"

namespace twinblock::fuzz {
namespace {

constexpr auto kSuperblockBytes = sizeof(metadata::Superblock);

// From the first record on of which `that` is true, the metadata disk fails, after a moment.
void fail_record(FuzzNode& node, std::function<bool(const metadata::NodeRecord&)> that) {
  node.metadata.submitted = [&node, that = std::move(that)](const DiskRequest& request) {
    if (request.op != DiskOp::kWrite || request.length_bytes != kSuperblockBytes || node.metadata.failures > 0) return;
    const auto found = metadata::decode(std::span<const std::byte, kSuperblockBytes>(request.data, kSuperblockBytes));
    if (!found || !that(found.value().record)) return;
    node.metadata.error = EIO;
    node.metadata.failures = 1000;
    node.metadata.hung_until_ns = node.scheduler.now_ns() + kSecond_ns;
  };
}

class FailedRecordTest : public testing::Test {
 protected:
  FailedRecordTest() : config_(make_config(kVolumeBytes)), record_(plain_record("alpha", {kVolumeBytes, 64 * kKiB})) {
    config_.links.pop_back();
    node_ = plain_node(config_, record_);
    EXPECT_TRUE(node_->engine->start().ok());
  }
  ~FailedRecordTest() override {
    node_->engine.reset();
    peer_.reset();
  }
  void begin_peer(HostilePeer::Stance stance, uint8_t flags) {
    peer_ = std::make_unique<HostilePeer>(*node_, "beta", record_);
    peer_->hears = [this](const wire::FrameHeader& header) { heard_[header.type].push_back(header); };
    peer_->take(stance, flags, 1);
  }
  void meet(HostilePeer::Stance stance, uint8_t flags) {
    begin_peer(stance, flags);
    for (int i = 0; i < 100 && !stands(); ++i) node_->run(10 * kMillisecond_ns);
    ASSERT_TRUE(stands());
  }
  [[nodiscard]] bool stands() const { return node_->engine->inside().session_stands(); }
  [[nodiscard]] metadata::NodeRecord on_record() const { return load_plain(node_->metadata.contents, record_).record; }
  [[nodiscard]] const std::vector<wire::FrameHeader>& heard(wire::FrameType type) {
    return heard_[static_cast<uint8_t>(type)];
  }

  Config config_;
  const metadata::NodeRecord record_;
  std::unique_ptr<FuzzNode> node_;
  std::unique_ptr<HostilePeer> peer_;
  std::map<uint8_t, std::vector<wire::FrameHeader>> heard_;  // of this node's, by type
};

// This node's next process would be promoted beside it, without a word of anybody's.
TEST_F(FailedRecordTest, OfAPeersPromotionIsNoYes) {
  meet(HostilePeer::Stance::kSame, 0);
  node_->run(5 * kSecond_ns);
  fail_record(*node_, [](const auto& record) { return record.peer_primary; });
  wire::FrameHeader ask = wire::to_header(wire::PromoteAskFrame{.question = 1, .term = 5});
  wire::set_order(ask, ++*peer_->control());
  peer_->send(0, wire::seal(ask, {}));
  node_->run(3 * kSecond_ns);
  ASSERT_EQ(heard(wire::FrameType::kPromoteAnswer).size(), 1u);
  const auto said = wire::frame_as<wire::PromoteAnswerFrame>(heard(wire::FrameType::kPromoteAnswer)[0]);
  EXPECT_EQ(said.question, 1u);
  EXPECT_EQ(said.error, uint32_t{EIO});
  EXPECT_FALSE(on_record().peer_primary);
}

// … nor is anything acknowledged to a primary that is not on record.
TEST_F(FailedRecordTest, OfAPrimaryTakesNothingFromIt) {
  fail_record(*node_, [](const auto& record) { return record.peer_primary; });
  meet(HostilePeer::Stance::kSame, 1 | 4 | 8);
  const std::vector<std::byte> block(limits::kBlockBytes, std::byte{7});
  const uint64_t written = peer_->next_sequence();
  peer_->send(0, wire::seal(wire::to_header(wire::DataFrame{.request = written, .length_bytes = block.size()}), block));
  peer_->send(0, block);
  node_->run(500 * kMillisecond_ns);
  ASSERT_TRUE(stands()) << "it is not known yet that the record fails";
  node_->run(5 * kSecond_ns);
  EXPECT_EQ(node_->data.contents[0], std::byte{0});
  for (const wire::FrameHeader& header : heard(wire::FrameType::kAck)) {
    const auto ack = wire::frame_as<wire::AckFrame>(header);
    EXPECT_FALSE(ack.request == written && ack.error == 0);
  }
  EXPECT_FALSE(on_record().peer_primary);
}

TEST_F(FailedRecordTest, OfAPromotionLeavesASecondary) {
  meet(HostilePeer::Stance::kSame, 0);
  node_->run(5 * kSecond_ns);
  fail_record(*node_, [](const auto& record) { return record.primary; });
  std::optional<bool> promoted;
  node_->engine->orders().promote({}, [&promoted](const Result<std::string>& said) { promoted = said.ok(); });
  node_->run(3 * kSecond_ns);
  EXPECT_EQ(promoted, false);
  EXPECT_FALSE(node_->engine->is_primary());
  ASSERT_FALSE(heard(wire::FrameType::kRole).empty()) << "the peer takes its yes back";
  EXPECT_FALSE(wire::frame_as<wire::RoleFrame>(heard(wire::FrameType::kRole).back()).primary);
}

// A source that forgot what is left would pass for whole beside a half-copied target.
TEST_F(FailedRecordTest, OfACopyMarksNoTarget) {
  fail_record(*node_, [](const auto& record) { return record.all_dirty; });
  meet(HostilePeer::Stance::kBlank, 0);
  node_->run(5 * kSecond_ns);
  EXPECT_GT(node_->metadata.failures, 0u) << "it was to be recorded";
  EXPECT_TRUE(heard(wire::FrameType::kGeneration).empty());
}

// … and so would one whose disk lacks what only the target's memory held.
TEST_F(FailedRecordTest, OfWhatWasFlushedForACopyMarksNoTarget) {
  int flushes = 0;
  node_->data.submitted = [&](const DiskRequest& request) {
    if (request.op != DiskOp::kFlush) return;
    ++flushes;
    node_->data.error = EIO;
    node_->data.failures = 1;
  };
  begin_peer(HostilePeer::Stance::kBlank, 0);
  node_->run(2 * kSecond_ns);
  EXPECT_GT(flushes, 0);
  EXPECT_TRUE(heard(wire::FrameType::kGeneration).empty());
  EXPECT_TRUE(on_record().flush_failed);
}

class FailedRecordOfWhoGoesOnTest : public ResumptionTest {};

// A later process would go on against the order, which is answered.
TEST_F(FailedRecordOfWhoGoesOnTest, IsNoDemotion) {
  fail_record(*node_, [](const auto& record) { return record.promoted_boot == 0; });
  std::optional<bool> demoted;
  node_->engine->orders().demote([&demoted](const Result<std::string>& said) { demoted = said.ok(); });
  node_->run(5 * kSecond_ns);
  EXPECT_EQ(demoted, false);
  EXPECT_EQ(on_record().promoted_boot, kBoot);
}

}  // namespace
}  // namespace twinblock::fuzz
