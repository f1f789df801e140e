// Who probes a link has the only place for that, and not for ever; and this node's own probes: an engine on virtual
// parts, and the fuzzers' peer, mostly as somebody who probes.
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <optional>
#include <vector>

#include "base/crc32c.h"
#include "fuzz_node.h"
#include "hostile_peer.h"
#include "metadata_image.h"
#include "volume_primary_support.h"
#include "wire/codec.h"

namespace twinblock::fuzz {
namespace {

constexpr uint64_t kVolumeBytes = 256 * kKiB;
constexpr uint64_t kSilenceMax_ns = 30 * kSecond_ns;

class ProbeTest : public testing::Test {
 protected:
  ProbeTest() : config_(make_config(kVolumeBytes)) {
    const metadata::NodeRecord record = plain_record("alpha", {kVolumeBytes, 64 * kKiB});
    node_ = plain_node(config_, record);
    prober_ = std::make_unique<HostilePeer>(*node_, "beta", record);
    prober_->listens = prober_->shakes_hands = false;
    prober_->hears = [this](const wire::FrameHeader& header) {
      switch (static_cast<wire::FrameType>(header.type)) {
        case wire::FrameType::kChallenge: nonce_ = wire::frame_as<wire::ChallengeFrame>(header).nonce; break;
        case wire::FrameType::kProbeHost: ++accepted_; break;
        case wire::FrameType::kProbeAnswer: ++answers_; break;
        case wire::FrameType::kProbeReport: report_ = header; break;
        default: break;
      }
    };
    EXPECT_TRUE(node_->engine->start().ok());
  }
  ~ProbeTest() override {
    node_->engine.reset();
    prober_.reset();
  }

  void say(const wire::FrameHeader& header) {
    prober_->send(0, wire::seal(header));
    node_->run(100 * kMillisecond_ns);
  }
  // Over a connection of its own: whether it may.
  bool probe() {
    const size_t before = accepted_;
    nonce_.reset();
    prober_->dial(0);
    for (int i = 0; i < 100 && !nonce_; ++i) node_->run(10 * kMillisecond_ns);
    say(wire::to_header(wire::ProbeFrame{.challenge = nonce_.value_or(0)}));
    return accepted_ > before;
  }
  // Over the youngest connection: whether it is answered.
  bool ask() {
    const size_t before = answers_;
    say(wire::to_header(wire::ProbeAskFrame{.number = ++number_}));
    return answers_ > before;
  }

  const Config config_;
  std::unique_ptr<FuzzNode> node_;
  std::unique_ptr<HostilePeer> prober_;
  std::optional<uint64_t> nonce_;
  uint64_t number_ = 0;
  size_t accepted_ = 0, answers_ = 0;
  std::optional<wire::FrameHeader> report_;
};

TEST_F(ProbeTest, OneAtATime) {
  ASSERT_TRUE(probe());
  EXPECT_TRUE(ask());
  EXPECT_FALSE(probe());
}

TEST_F(ProbeTest, WhoSaysNothingMakesRoomForTheNextOne) {
  ASSERT_TRUE(probe());
  node_->run(kSilenceMax_ns - kSecond_ns);
  EXPECT_TRUE(ask()) << "one may think a while";
  node_->run(kSilenceMax_ns - kSecond_ns);
  EXPECT_TRUE(ask()) << "again";
  node_->run(kSilenceMax_ns + kSecond_ns);
  EXPECT_FALSE(ask());
  EXPECT_TRUE(probe());
}

TEST_F(ProbeTest, WhoDoesNotComeToAnEndMakesRoomForTheNextOne) {
  ASSERT_TRUE(probe());
  const uint64_t begin_ns = node_->scheduler.now_ns();
  const auto passed_ns = [&] { return node_->scheduler.now_ns() - begin_ns; };
  while (passed_ns() < limits::kProbeMax_ns - 3 * kSecond_ns) {
    ASSERT_TRUE(ask()) << passed_ns();
    node_->run(kSecond_ns);
  }
  node_->run(5 * kSecond_ns);
  EXPECT_FALSE(ask());
  EXPECT_TRUE(probe());
}

// All of it counts, and of its course only the beginning: a report has room for so much. (In a process of its own, as
// whoever hears of more than there is room for ends.)
TEST_F(ProbeTest, AStreamThatLastsTooLongIsReportedAllTheSame) {
  ASSERT_TRUE(probe());
  constexpr uint64_t kFrames = 80;
  static_assert(kFrames * 100 * kMillisecond_ns > limits::kProbeIntervalsMax * limits::kProbeInterval_ns);
  const auto stream = [this] {
    for (uint64_t sent = 1; sent <= kFrames; ++sent)
      say(wire::to_header(wire::ProbeDataFrame{.last = sent == kFrames}));
    EXPECT_TRUE(report_.has_value());
    const wire::FrameHeader header = report_.value_or(wire::FrameHeader{});
    EXPECT_EQ(wire::frame_as<wire::ProbeReportFrame>(header).received_bytes, kFrames * sizeof(wire::FrameHeader));
    EXPECT_GT(header.payload_bytes, 0u);
    EXPECT_LE(header.payload_bytes, limits::kProbeIntervalsMax * sizeof(uint32_t));
    EXPECT_TRUE(ask()) << "it may go on";
    std::exit(HasFailure() ? 1 : 0);
  };
  EXPECT_EXIT(stream(), testing::ExitedWithCode(0), "");
}

// It is shown to whoever has ordered the probe.
TEST_F(ProbeTest, WhatARefusalOfAProbeSaysMovesNoCursor) {
  bool probed = false;
  prober_->hears = [&probed](const wire::FrameHeader& header) {
    probed = probed || header.type == static_cast<uint8_t>(wire::FrameType::kProbe);
  };
  prober_->listens = true;
  ASSERT_TRUE(node_->engine->orders().probe("main", 0).ok());
  for (int i = 0; i < 100 && !probed; ++i) node_->run(10 * kMillisecond_ns);
  ASSERT_TRUE(probed);
  const auto text = wire::text_bytes("no\x1b[2J\r");
  for (size_t line = 0; line < 4; ++line) {  // its hello was dialled, too
    prober_->send(line, wire::seal(wire::to_header(wire::RefuseFrame{}), text));
    prober_->send(line, text);
  }
  node_->run(100 * kMillisecond_ns);
  const ProbeResult* result = node_->engine->figures().probe();
  ASSERT_NE(result, nullptr);
  EXPECT_NE(result->error.find("beta refuses: no"), std::string::npos) << result->error;
  EXPECT_EQ(result->error.find_first_of("\x1b\r"), std::string::npos);
}

class ProbeOfThisNodeTest : public PrimaryTest {
 protected:
  void write_for(uint64_t ns) {
    const uint64_t end_ns = node_->scheduler.now_ns() + ns;
    while (node_->scheduler.now_ns() < end_ns) {
      request_.pieces = {&piece_, 1};
      ask(ClientOp::kWrite, data_.size(), data_.data());
      ASSERT_EQ(await_end(), 0);
    }
  }
  // Of a new one, once it sends its stream.
  const ProbeResult& streaming() {
    peer_->lets_probe = true;
    EXPECT_TRUE(node_->engine->orders().probe("main", 0).ok());
    const auto result = [this] { return node_->engine->figures().probe(); };
    const auto is = [&result](ProbeStage stage) { return result()->stage == stage; };
    EXPECT_TRUE(await([&] { return is(ProbeStage::kStreaming) || is(ProbeStage::kFailed); }));
    EXPECT_EQ(result()->error, "");
    return *result();
  }

  std::vector<std::byte> data_ = std::vector<std::byte>(64 * kKiB, std::byte{7});
  const WirePiece piece_{data_, crc32c(data_)};
};

// Split brain, say, or the peer was killed: nobody writes over the links.
TEST_F(ProbeOfThisNodeTest, WithoutASessionIsBesideNoClients) {
  ASSERT_NO_FATAL_FAILURE(write_for(2 * kSecond_ns));
  ASSERT_GT(node_->engine->status().links.at(0).out_bytes_per_s, limits::kProbeBusyBytes_per_s);
  peer_->vanish();
  ASSERT_TRUE(await([this] { return !stands(); }));
  peer_->listens = true;
  peer_->shakes_hands = false;
  const ProbeResult& result = streaming();
  EXPECT_FALSE(result.busy);
  EXPECT_EQ(result.stream.asked_ns, limits::kProbeStream_ns);
}

TEST_F(ProbeOfThisNodeTest, BesideClientsIsShort) {
  ASSERT_NO_FATAL_FAILURE(write_for(2 * kSecond_ns));
  peer_->lets_probe = true;
  EXPECT_TRUE(node_->engine->orders().probe("main", 0).ok());
  const ProbeResult& result = *node_->engine->figures().probe();
  while (result.stage == ProbeStage::kConnecting || result.stage == ProbeStage::kTalking)
    ASSERT_NO_FATAL_FAILURE(write_for(10 * kMillisecond_ns));
  ASSERT_EQ(result.stage, ProbeStage::kStreaming) << result.error;
  EXPECT_TRUE(result.busy);
  EXPECT_EQ(result.stream.asked_ns, limits::kProbeStreamBusy_ns);
}

}  // namespace
}  // namespace twinblock::fuzz
