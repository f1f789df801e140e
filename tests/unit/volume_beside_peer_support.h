// A secondary beside a peer that holds the same, in a session, and says what a test wants: an engine on virtual parts, and
// the fuzzers' peer.
#pragma once

#include <gtest/gtest.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "fuzz_node.h"
#include "hostile_peer.h"
#include "metadata_image.h"
#include "volume/settings.h"
#include "wire/codec.h"

namespace twinblock::fuzz {

constexpr uint64_t kVolumeBytes = 256 * kKiB;

class BesidePeerTest : public testing::Test {
 protected:
  // `links`: 1 or 2, "main" and "backup". `replication`: lines of that table of the file.
  explicit BesidePeerTest(size_t links, const std::string& replication = {})
      : config_(make_config(kVolumeBytes, replication)), record_(plain_record("alpha", {kVolumeBytes, 64 * kKiB})) {
    while (config_.links.size() > links) config_.links.pop_back();
    node_ = empty_node(config_, record_);
    peer_ = std::make_unique<HostilePeer>(*node_, "beta", record_);
    note_answers();
    peer_->take(HostilePeer::Stance::kSame, 0, 2);
    EXPECT_TRUE(node_->engine->start().ok());
    node_->run(3 * kSecond_ns);
    EXPECT_TRUE(stands());
  }
  ~BesidePeerTest() override {
    node_->engine.reset();
    peer_.reset();
  }
  [[nodiscard]] bool stands() const { return node_->engine->inside().session_stands(); }
  void peer_tells_its_settings() {
    peer_->tell_settings(make_settings(config_));
    node_->run(50 * kMillisecond_ns);
  }
  void note_answers() {
    peer_->hears = [this](const wire::FrameHeader& header) {
      if (header.type != static_cast<uint8_t>(wire::FrameType::kAck)) return;
      const auto ack = wire::frame_as<wire::AckFrame>(header);
      answers_[ack.request] = ack.error;
    };
  }
  // What the peer's request is answered, an errno value; ETIMEDOUT: nothing.
  uint32_t answer_to(uint64_t request) {
    for (int i = 0; i < 100 && !answers_.contains(request); ++i) node_->run(10 * kMillisecond_ns);
    return answers_.contains(request) ? answers_[request] : ETIMEDOUT;
  }

  Config config_;
  const metadata::NodeRecord record_;
  std::unique_ptr<FuzzNode> node_;
  std::unique_ptr<HostilePeer> peer_;
  std::map<uint64_t, uint32_t> answers_;  // by request: errno
};

}  // namespace twinblock::fuzz
