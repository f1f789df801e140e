// A primary with a whole peer and one link, on virtual parts; the peer is the fuzzers', which answers by itself, or
// what a test says.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/digest.h"
#include "fuzz_node.h"
#include "hostile_peer.h"
#include "metadata_image.h"
#include "wire/codec.h"

namespace twinblock::fuzz {

class PrimaryTest : public testing::Test {
 protected:
  static constexpr uint64_t kVolumeBytes = 256 * kKiB;

  // `replication`: lines of that table of the file.
  explicit PrimaryTest(const std::string& replication = {}, uint64_t volume_bytes = kVolumeBytes)
      : config_(make_config(volume_bytes, replication)), record_(plain_record("alpha", {volume_bytes, 64 * kKiB})) {
    config_.links.pop_back();
    node_ = empty_node(config_, record_);
    meet();
    EXPECT_TRUE(node_->engine->start().ok());
  }
  ~PrimaryTest() override {
    node_->engine.reset();
    peer_.reset();
  }

  void SetUp() override {
    for (int i = 0; i < 100 && !stands(); ++i) node_->run(100 * kMillisecond_ns);
    ASSERT_TRUE(stands());
    node_->engine->orders().promote({}, [](const Result<std::string>& said) { EXPECT_TRUE(said.ok()); });
    node_->run(kSecond_ns);
    ASSERT_TRUE(node_->engine->is_primary());
    ASSERT_EQ(node_->engine->status().state, VolumeState::kDuplex);
  }
  // A new process of the peer's, which holds the same.
  void meet() {
    peer_.reset();
    peer_ = std::make_unique<HostilePeer>(*node_, "beta", record_);
    peer_->hears = [this](const wire::FrameHeader& header) {
      if (hears_) hears_(header);
    };
    peer_->take(HostilePeer::Stance::kSame, 0, 0);
  }
  [[nodiscard]] bool stands() const { return node_->engine->inside().session_stands(); }
  template <typename Done>
  bool await(Done&& done) {
    for (int i = 0; i < 1000 && !done(); ++i) node_->run(10 * kMillisecond_ns);
    return done();
  }
  // A client's request, whose end await_end() tells.
  void ask(ClientOp op, uint64_t length_bytes, std::byte* data = nullptr) {
    request_.op = op;
    request_.length_bytes = length_bytes;
    request_.data = data;
    error_.reset();
    request_.done = [this](ClientRequest& request) { error_ = request.error; };
    node_->engine->clients().submit(request_);
  }
  std::optional<int> await_end() {
    (void)await([this] { return error_.has_value(); });
    return error_;
  }
  // The peer has done what it was asked, it says, and this is what it was asked for.
  void answer(uint64_t request, std::span<const std::byte> payload = {}) {
    peer_->send(0, wire::seal(wire::to_header(wire::AckFrame{.request = request}), payload));
    peer_->send(0, payload);
  }

  // What a peer that holds zeroes only tells of so many bytes.
  static std::vector<std::byte> digests_of_zeroes(uint64_t length_bytes) {
    const Digest digest = digest_of(std::vector<std::byte>(limits::kBlockBytes));
    std::vector<std::byte> digests;
    for (uint64_t block = 0; block < length_bytes / limits::kBlockBytes; ++block)
      digests.insert(digests.end(), digest.begin(), digest.end());
    return digests;
  }

  Config config_;
  const metadata::NodeRecord record_;
  std::unique_ptr<FuzzNode> node_;
  std::unique_ptr<HostilePeer> peer_;
  std::function<void(const wire::FrameHeader&)> hears_;  // each frame of this node's
  ClientRequest request_;
  std::optional<int> error_;
};

}  // namespace twinblock::fuzz
