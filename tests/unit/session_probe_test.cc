// Who probes a link has the only place for that, and not for ever: an engine on virtual parts, and the fuzzers' peer as
// somebody who probes.
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <vector>

#include "fuzz_node.h"
#include "hostile_peer.h"
#include "metadata_image.h"
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

// All of it counts, and of its course only the beginning: a report has room for so much.
TEST_F(ProbeTest, AStreamThatLastsTooLongIsReportedAllTheSame) {
  ASSERT_TRUE(probe());
  constexpr uint64_t kFrames = 80;
  static_assert(kFrames * 100 * kMillisecond_ns > limits::kProbeIntervalsMax * limits::kProbeInterval_ns);
  for (uint64_t sent = 1; sent <= kFrames; ++sent) say(wire::to_header(wire::ProbeDataFrame{.last = sent == kFrames}));
  ASSERT_TRUE(report_.has_value());
  const auto report = wire::frame_as<wire::ProbeReportFrame>(*report_);
  EXPECT_EQ(report.received_bytes, kFrames * sizeof(wire::FrameHeader));
  EXPECT_GT(report_->payload_bytes, 0u);
  EXPECT_LE(report_->payload_bytes, limits::kProbeIntervalsMax * sizeof(uint32_t));
  EXPECT_TRUE(ask()) << "it may go on";
}

}  // namespace
}  // namespace twinblock::fuzz
