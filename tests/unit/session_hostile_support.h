// A node beside a peer that has the key, and does what a test wants: an engine on virtual parts, and the fuzzers'
// hostile peer, over two links.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "allocated_bytes.h"
#include "hostile_peer.h"
#include "metadata_image.h"
#include "wire/codec.h"

namespace twinblock::fuzz {

constexpr uint64_t kVolumeBytes = 256 * kKiB;

class HostilePeerTest : public testing::Test {
 protected:
  HostilePeerTest() : config_(make_config(kVolumeBytes)), record_(record()) {
    node_ = plain_node(config_, record_);
    peer_ = std::make_unique<HostilePeer>(*node_, "beta", record_);
  }
  ~HostilePeerTest() override {
    node_->engine.reset();
    peer_.reset();
  }

  static metadata::NodeRecord record() {
    metadata::NodeRecord record = plain_record("alpha", {kVolumeBytes, 64 * kKiB});
    record.generations.history[0] = 9;
    return record;
  }
  void meet(HostilePeer::Stance stance, uint8_t flags) {
    peer_->take(stance, flags, 2);
    ASSERT_TRUE(node_->engine->start().ok());
    node_->run(3 * kSecond_ns);
    ASSERT_TRUE(stands());
  }
  [[nodiscard]] bool stands() const { return node_->engine->inside().session_stands(); }
  // `count` frames in one piece.
  template <typename Make>
  void send(size_t count, Make&& make) {
    std::vector<std::byte> bytes;
    for (size_t i = 0; i < count; ++i) {
      const wire::HeaderBytes sealed = wire::seal(make());
      bytes.insert(bytes.end(), sealed.begin(), sealed.end());
    }
    peer_->send(0, bytes);
  }

  const Config config_;
  const metadata::NodeRecord record_;
  std::unique_ptr<FuzzNode> node_;
  std::unique_ptr<HostilePeer> peer_;
};

}  // namespace twinblock::fuzz
