// A primary that loses its peer, or its disk: an engine on virtual parts, and the fuzzers' peer.
#pragma once

#include <gtest/gtest.h>

#include <cerrno>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "fuzz_node.h"
#include "hostile_peer.h"
#include "metadata_image.h"

namespace twinblock::fuzz {

class LostPeerTest : public testing::Test {
 protected:
  static constexpr uint64_t kVolumeBytes = 256 * kKiB;
  static constexpr uint64_t kLong_ns = 60 * kSecond_ns;

  LostPeerTest() : config_(make_config(kVolumeBytes)), record_(plain_record("alpha", {kVolumeBytes, 64 * kKiB})) {}
  ~LostPeerTest() override {
    node_->engine.reset();
    peer_.reset();
  }

  void begin(OnPeerLoss on_peer_loss) {
    config_.on_peer_loss = on_peer_loss;
    node_ = plain_node(config_, record_);
    EXPECT_TRUE(node_->engine->start().ok());
  }
  [[nodiscard]] bool stands() const { return node_->engine->inside().session_stands(); }
  // The peer, which is secondary; one that does not answer does so by hand.
  void meet(bool answers) {
    peer_ = std::make_unique<HostilePeer>(*node_, "beta", record_);
    peer_->answers = answers;
    peer_->instance = instance_;
    peer_->hears = [this](const wire::FrameHeader& header) { ++heard_[static_cast<wire::FrameType>(header.type)]; };
    peer_->take(HostilePeer::Stance::kSame, 0, 0);
    for (int i = 0; i < 100 && !stands(); ++i) node_->run(100 * kMillisecond_ns);
    ASSERT_TRUE(stands());
  }
  void part() {
    peer_->vanish();
    for (int i = 0; i < 100 && stands(); ++i) node_->run(100 * kMillisecond_ns);
    ASSERT_FALSE(stands());
    peer_.reset();
  }
  // Until the peer has heard one more of them.
  void await(wire::FrameType type, int before) {
    for (int i = 0; i < 1000 && heard_[type] == before; ++i) node_->run(10 * kMillisecond_ns);
    ASSERT_GT(heard_[type], before);
  }
  // One that is primary, too, unless other flags are said, and no session comes up with it.
  void be_refused(HostilePeer::Stance stance, Verdict verdict, metadata::Uuid instance = {9}, uint8_t flags = 1) {
    peer_ = std::make_unique<HostilePeer>(*node_, "beta", record_);
    peer_->instance = instance;
    peer_->take(stance, flags, 2);
    for (int i = 0; i < 100 && node_->engine->status().verdict != verdict; ++i) node_->run(100 * kMillisecond_ns);
    ASSERT_EQ(node_->engine->status().verdict, verdict);
  }
  void promote(Promotion::Word word = {}) {
    node_->engine->orders().promote(word, [](const Result<std::string>& said) { EXPECT_TRUE(said.ok()); });
    for (int i = 0; i < 100 && !node_->engine->is_primary(); ++i) node_->run(100 * kMillisecond_ns);
    ASSERT_TRUE(node_->engine->is_primary());
  }
  // How a client's request ends: a block of data or of zeroes, or a flush.
  int ask(ClientOp op) {
    ClientRequest request;
    std::optional<int> error;
    std::vector<std::byte> block(4 * kKiB);
    request.op = op;
    request.length_bytes = op == ClientOp::kFlush ? 0 : block.size();
    if (op == ClientOp::kWrite || op == ClientOp::kRead) request.data = block.data();
    request.done = [&](ClientRequest& done) { error = done.error; };
    node_->engine->clients().submit(request);
    for (int i = 0; i < 100 && !error; ++i) node_->run(10 * kMillisecond_ns);
    return error.value_or(ETIMEDOUT);
  }
  // A client's block of zeroes, which may take its time; `error` is how it ends.
  void begin_zeroes(ClientRequest& request, std::optional<int>& error) {
    request.op = ClientOp::kZero;
    request.length_bytes = 4 * kKiB;
    request.done = [&error](ClientRequest& done) { error = done.error; };
    node_->engine->clients().submit(request);
  }
  // Not flushed.
  void write() { ASSERT_EQ(ask(ClientOp::kZero), 0); }
  int flush() { return ask(ClientOp::kFlush); }
  // So much that a disk which takes it is not full any more.
  void write_data() {
    for (int i = 0; i < 4; ++i) {
      ASSERT_EQ(ask(ClientOp::kWrite), 0);
      node_->run(kSecond_ns);
    }
  }
  // A primary that has written without its peer.
  void go_on_alone() {
    begin(OnPeerLoss::kContinue);
    meet(true);
    promote();
    write();
    part();
    write();
  }
  // A primary that has written, and a peer that has it, too.
  void begin_in_duplex() {
    begin(OnPeerLoss::kContinue);
    meet(true);
    promote();
    write();
  }
  // A primary works on the peer's replica from then on.
  void lose_the_disk() {
    meet(true);
    promote();
    node_->data.error = EIO;
    node_->data.failures = 1000000;
    write();
    ASSERT_EQ(node_->engine->volume_state(), VolumeState::kDiskless);
  }
  void demote() {
    node_->engine->orders().demote([this](const Result<std::string>& said) { demoted_ = said.ok(); });
  }
  static Promotion::Word by_word() {
    Promotion::Word word;
    word.peer_is_dead = true;
    return word;
  }
  // It is demoted, and knows that the two may differ; but what it has is no other history than it was.
  void follow() {
    const uint64_t generation = node_->engine->status().mine.generations.current;
    demote();
    node_->run(kSecond_ns);
    EXPECT_EQ(demoted_, true);
    EXPECT_FALSE(node_->engine->is_primary());
    EXPECT_EQ(node_->engine->status().mine.generations.current, generation);
    EXPECT_TRUE(node_->engine->status().mine.dirty);
  }

  Config config_;
  metadata::NodeRecord record_;
  std::unique_ptr<FuzzNode> node_;
  std::unique_ptr<HostilePeer> peer_;
  std::map<wire::FrameType, int> heard_;  // by the peer
  std::optional<bool> demoted_;
  metadata::Uuid instance_{9};  // of the peer's process
};

}  // namespace twinblock::fuzz
