// A verification that is cut off: an engine on virtual parts, and the fuzzers' peer, which holds the same.
#include <gtest/gtest.h>

#include <cerrno>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "volume_primary_support.h"

namespace twinblock::fuzz {
namespace {

class VerificationTest : public PrimaryTest {
 protected:
  // The peer tells digests, and answers nothing else.
  void verify(VerifyOrder order) {
    hears_ = [this](const wire::FrameHeader& header) {
      if (header.type == static_cast<uint8_t>(wire::FrameType::kFlush)) flush_heard_ = true;
      if (header.type == static_cast<uint8_t>(wire::FrameType::kDigest))
        answer(header.sequence, digests_of_zeroes(header.length));
    };
    peer_->answers = false;
    node_->engine->orders().verify(order, [](const Result<std::string>& said) { EXPECT_TRUE(said.ok()); });
  }
  [[nodiscard]] StatusView status() const { return node_->engine->status(); }
  void part() {
    peer_->vanish();
    ASSERT_TRUE(await([this] { return !stands(); }));
  }

  bool flush_heard_ = false;
};

// What a client wrote is not flushed yet, and the peer is lost in the flush with which the verification ends. Nobody was
// promised anything by that: the peer may be promoted, and be the source, without a word of the operator's.
TEST_F(VerificationTest, ItsFlushBeginsNoGeneration) {
  ask(ClientOp::kZero, limits::kBlockBytes);
  ASSERT_EQ(await_end(), 0);
  const uint64_t generation = status().mine.generations.current;
  verify(VerifyOrder::kCompare);
  ASSERT_TRUE(await([this] { return flush_heard_ && status().verify.compared_bytes == kVolumeBytes; }));
  part();
  node_->run(60 * kSecond_ns);
  EXPECT_EQ(status().mine.generations.current, generation);
  EXPECT_NE(status().verify.ended, "complete");
  ask(ClientOp::kZero, limits::kBlockBytes);
  ASSERT_EQ(await_end(), 0);
  EXPECT_NE(status().mine.generations.current, generation) << "it went on alone";
}

// What this node held then is what the other one's writes replace: they would pass for differences.
TEST_F(VerificationTest, EndsWithADemotion) {
  peer_->answers = false;
  node_->engine->orders().verify(VerifyOrder::kCompare, [](const Result<std::string>& said) { EXPECT_TRUE(said.ok()); });
  node_->run(100 * kMillisecond_ns);
  ASSERT_TRUE(status().verify.active);
  node_->engine->orders().demote([](const Result<std::string>&) {});
  node_->run(100 * kMillisecond_ns);
  EXPECT_FALSE(status().verify.active);
  EXPECT_EQ(status().verify.ended, "this node was demoted");
}

// It may still land at the peer, over what that writes as primary.
TEST_F(VerificationTest, ADemotionWaitsForWhatARepairHasSent) {
  std::vector<uint64_t> written;
  bool wrong = true;
  hears_ = [&](const wire::FrameHeader& header) {
    if (header.type == static_cast<uint8_t>(wire::FrameType::kFlush)) answer(header.sequence);
    if (header.type == static_cast<uint8_t>(wire::FrameType::kData)) written.push_back(header.sequence);
    if (header.type != static_cast<uint8_t>(wire::FrameType::kDigest)) return;
    std::vector<std::byte> digests = digests_of_zeroes(header.length);
    if (std::exchange(wrong, false)) digests.front() ^= std::byte{1};
    answer(header.sequence, digests);
  };
  peer_->answers = false;
  node_->engine->orders().verify(VerifyOrder::kRepair, [](const Result<std::string>& said) { EXPECT_TRUE(said.ok()); });
  ASSERT_TRUE(await([&] { return !written.empty(); }));
  std::optional<bool> demoted;
  node_->engine->orders().demote([&demoted](const Result<std::string>& said) { demoted = said.ok(); });
  node_->run(kSecond_ns);
  EXPECT_FALSE(demoted.has_value());
  EXPECT_TRUE(load_plain(node_->metadata.contents, record_).record.primary);
  for (const uint64_t number : written) answer(number);
  ASSERT_TRUE(await([&] { return demoted.has_value(); }));
  EXPECT_EQ(demoted, true);
  EXPECT_FALSE(load_plain(node_->metadata.contents, record_).record.primary);
}

// The record can't say that a repair is under way: none is, and the peer stands in for the disk that failed.
TEST_F(VerificationTest, ARepairThatIsNotOnRecordDoesNotBegin) {
  node_->metadata.error = EIO;
  node_->metadata.failures = 1000;
  verify(VerifyOrder::kRepair);
  ASSERT_TRUE(await([this] { return !status().verify.active; }));
  EXPECT_EQ(status().verify.ended, "the metadata disk failed");
  EXPECT_EQ(status().verify.compared_bytes, 0U);
  EXPECT_FALSE(status().repair_cut_off);
  EXPECT_EQ(status().state, VolumeState::kDiskless);
}

// Only a repair ends that, or a comparison that finds nothing: what was found is still to be repaired.
TEST_F(VerificationTest, AComparisonThatFindsSomethingDoesNotEndARepairThatWasCutOff) {
  verify(VerifyOrder::kRepair);
  ASSERT_TRUE(await([this] { return flush_heard_; }));
  part();
  ASSERT_TRUE(status().repair_cut_off);
  hears_ = nullptr;
  meet();
  ASSERT_TRUE(await([this] { return stands() && status().state == VolumeState::kDuplex; }));
  bool wrong = true;
  hears_ = [&](const wire::FrameHeader& header) {
    if (header.type == static_cast<uint8_t>(wire::FrameType::kFlush)) answer(header.sequence);
    if (header.type != static_cast<uint8_t>(wire::FrameType::kDigest)) return;
    std::vector<std::byte> digests = digests_of_zeroes(header.length);
    if (std::exchange(wrong, false)) digests.front() ^= std::byte{1};
    answer(header.sequence, digests);
  };
  peer_->answers = false;
  const auto compare = [this] {
    node_->engine->orders().verify(VerifyOrder::kCompare, [](const Result<std::string>& said) { EXPECT_TRUE(said.ok()); });
    ASSERT_TRUE(await([this] { return !status().verify.active; }));
    ASSERT_EQ(status().verify.ended, "complete");
  };
  compare();
  ASSERT_GT(status().verify.differing_bytes, 0U);
  EXPECT_TRUE(status().repair_cut_off);
  compare();
  ASSERT_EQ(status().verify.differing_bytes, 0U);
  EXPECT_FALSE(status().repair_cut_off);
}

// Until one is complete, any block of the peer's may be the bad one, and the next process says so.
TEST_F(VerificationTest, ARepairThatWasCutOffIsOnRecord) {
  const uint64_t intents = status().intent_bytes;
  verify(VerifyOrder::kRepair);
  ASSERT_TRUE(await([this] { return flush_heard_; }));
  EXPECT_FALSE(status().repair_cut_off) << "it is under way";
  part();
  EXPECT_TRUE(status().repair_cut_off);
  EXPECT_EQ(status().intent_bytes, intents) << "the peer's blocks would count there if this node died";
}

TEST_F(VerificationTest, ARepairThatCouldNotReadAPlaceIsStillToBeDone) {
  node_->data.submitted = [this](const DiskRequest& request) {
    if (request.op != DiskOp::kRead || request.offset_bytes != 0) return;
    node_->data.error = EIO;
    node_->data.failures = 1;
  };
  hears_ = [this](const wire::FrameHeader& header) {
    if (header.type == static_cast<uint8_t>(wire::FrameType::kFlush)) answer(header.sequence);
    if (header.type == static_cast<uint8_t>(wire::FrameType::kDigest))
      answer(header.sequence, digests_of_zeroes(header.length));
  };
  peer_->answers = false;
  node_->engine->orders().verify(VerifyOrder::kRepair, [](const Result<std::string>& said) { EXPECT_TRUE(said.ok()); });
  ASSERT_TRUE(await([this] { return !status().verify.active; }));
  EXPECT_NE(status().verify.ended.find("1 place could not be compared"), std::string::npos) << status().verify.ended;
  EXPECT_TRUE(status().repair_cut_off);
}

// The run that could not be read was put aside, to be compared block by block, and the operator has stopped that.
TEST_F(VerificationTest, WhatAnEarlierOneHadPutAsideIsNotComparedTwice) {
  bool bad = true, keeps = true;
  node_->data.submitted = [&](const DiskRequest& request) {
    if (request.op != DiskOp::kRead || !std::exchange(bad, false)) return;
    node_->data.error = EIO;
    node_->data.failures = 1;
  };
  std::vector<uint64_t> kept;  // of single blocks: not answered yet
  uint64_t asked_bytes = 0;
  hears_ = [&](const wire::FrameHeader& header) {
    if (header.type == static_cast<uint8_t>(wire::FrameType::kFlush)) answer(header.sequence);
    if (header.type != static_cast<uint8_t>(wire::FrameType::kDigest)) return;
    asked_bytes += header.length;
    if (keeps && header.length == limits::kBlockBytes)
      kept.push_back(header.sequence);
    else if (asked_bytes <= kVolumeBytes)  // (the node ends itself at a block that it has compared twice)
      answer(header.sequence, digests_of_zeroes(header.length));
  };
  peer_->answers = false;
  const auto order = [this](VerifyOrder what) {
    node_->engine->orders().verify(what, [](const Result<std::string>& said) { EXPECT_TRUE(said.ok()); });
  };
  order(VerifyOrder::kCompare);
  ASSERT_TRUE(await([&] { return !kept.empty(); }));
  order(VerifyOrder::kStop);
  for (const uint64_t number : kept) answer(number, digests_of_zeroes(limits::kBlockBytes));
  node_->run(kSecond_ns);
  keeps = false;
  asked_bytes = 0;
  order(VerifyOrder::kCompare);
  ASSERT_TRUE(await([this] { return !status().verify.active; })) << asked_bytes << " bytes were asked for";
  EXPECT_EQ(status().verify.ended, "complete");
  EXPECT_EQ(status().verify.compared_bytes, kVolumeBytes);
  EXPECT_EQ(asked_bytes, kVolumeBytes);
}

class LargeVerificationTest : public PrimaryTest {
 protected:
  static constexpr uint64_t kLargeBytes = 8 * kMiB;
  LargeVerificationTest() : PrimaryTest({}, kLargeBytes) {}
};

// A peer may differ everywhere.
TEST_F(LargeVerificationTest, OnlyTheFirstDifferencesAreKept) {
  hears_ = [this](const wire::FrameHeader& header) {
    if (header.type == static_cast<uint8_t>(wire::FrameType::kFlush)) answer(header.sequence);
    if (header.type == static_cast<uint8_t>(wire::FrameType::kDigest))
      answer(header.sequence, std::vector<std::byte>(digests_of_zeroes(header.length).size(), std::byte{0x5A}));
  };
  peer_->answers = false;
  node_->engine->orders().verify(VerifyOrder::kCompare, [](const auto& said) { EXPECT_TRUE(said.ok()); });
  ASSERT_TRUE(await([this] { return !node_->engine->status().verify.active; }));
  EXPECT_EQ(node_->engine->status().verify.differing_bytes, kLargeBytes);
  EXPECT_EQ(node_->engine->status().verify.differences.size(), Verifier::kDifferencesMax);
}

}  // namespace
}  // namespace twinblock::fuzz
