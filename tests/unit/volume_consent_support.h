// A node that asks a witness: an engine on virtual parts, the fuzzers' peer, and an entry that is told and replaced by hand.
#pragma once

#include <gtest/gtest.h>

#include <cerrno>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fuzz_node.h"
#include "hostile_peer.h"
#include "metadata_image.h"
#include "volume/settings.h"

namespace twinblock::fuzz {

class WrittenWitness final : public Witness {
 public:
  struct Replacement {
    int64_t revision;
    WitnessEntry entry;
  };

  void read(const std::string&, const std::string&, std::function<void(Result<WitnessReading>)> done) override {
    ++reads;
    if (fails)
      answer([done = std::move(done)] { done(Error{"it can't be reached", "", ETIMEDOUT}); });
    else
      answer([done = std::move(done), said = reading] { done(said); });
  }
  void replace(const std::string&, int64_t revision, const WitnessEntry& entry,
               std::function<void(Result<bool>)> done) override {
    replacements.push_back({revision, entry});
    if (asked_to_replace) asked_to_replace();
    if (!replaces) return;
    const auto put = [this, revision, entry] {
      const bool current = revision == reading.revision;
      if (current) reading = {entry, revision + 1};
      return current;
    };
    if (at_once)
      answer([done = std::move(done), said = put()] { done(said); });
    else
      answer([done = std::move(done), put] { done(put()); });
  }
  [[nodiscard]] std::string name() const override { return "a witness in writing"; }

  WitnessReading reading;
  int reads = 0;
  std::vector<Replacement> replacements;
  sim::Scheduler* scheduler = nullptr;  // of the node that asks
  uint64_t answers_after_ns = kMillisecond_ns;
  bool replaces = true;  // false: it does not, nor does it answer
  bool fails = false;    // what is read from now on
  bool at_once = false;  // what is replaced is so before it is answered
  std::function<void()> asked_to_replace;

 private:
  void answer(sim::Action said) { scheduler->after(answers_after_ns, nullptr, std::move(said)); }
};

// It was run before, and has not ended yet.
class AnsweringFence final : public FenceCommand {
 public:
  void fence(const FenceCall&, std::function<void(Result<int>)> done) override {
    ++calls;
    scheduler->after(answers_after_ns, nullptr, [done = std::move(done), what = says] { done(what); });
  }
  [[nodiscard]] std::string name() const override { return "a fence command in writing"; }

  int calls = 0;
  uint64_t answers_after_ns = kMillisecond_ns;
  Result<int> says = Error{"it still runs", "it is asked again when it has ended", EBUSY};
  sim::Scheduler* scheduler = nullptr;
};

class ConsentTest : public testing::Test {
 protected:
  static constexpr uint64_t kVolumeBytes = 256 * kKiB;
  static constexpr uint32_t kRegionBytes = 64 * kKiB;
  static constexpr uint64_t kGeneration = 11;
  static constexpr uint64_t kClaim = 12;
  static constexpr uint64_t kLong_ns = 60 * kSecond_ns;
  static constexpr int kPeerFenced = 7;  // an exit status

  ConsentTest() : config_(make_config(kVolumeBytes)) {
    config_.witness.kind = WitnessKind::kEtcd;
    config_.witness.endpoints = {"http://10.0.0.3:2379"};
    config_.witness.timeout_ns = kSecond_ns;
    record_.volume_uuid[0] = 1;
    record_.volume = "r0";
    record_.size_bytes = kVolumeBytes;
    record_.region_bytes = kRegionBytes;
    record_.generations.current = record_.generations.base = kGeneration;
    witness_.reading = {entry(kGeneration, ""), 5};
  }
  ~ConsentTest() override {
    if (node_) node_->engine.reset();
    peer_.reset();
  }

  [[nodiscard]] metadata::NodeRecord on_record() const { return load_plain(node_->metadata.contents, record_).record; }
  [[nodiscard]] WitnessEntry entry(uint64_t generation, const std::string& holder) const {
    return {metadata::format_uuid(record_.volume_uuid), generation, holder};
  }
  // A process of the node begins, and nothing is heard of its peer for as long as an earlier one may have promised it.
  void begin() {
    record_.node = name_;
    node_ = config_.witness.kind == WitnessKind::kCommand ? fenced_node(config_, record_, &fence_)
                                                          : plain_node(config_, record_, &witness_);
    witness_.scheduler = fence_.scheduler = &node_->scheduler;
    EXPECT_TRUE(node_->engine->start().ok());
    node_->run(limits::kLeaseMax_ns + config_.peer_timeout_ns);
  }
  void order(Promotion::Word word = {}) {
    node_->engine->orders().promote(word, [this](Result<std::string> said) { promoted_ = said.ok(); });
  }
  // Primary beside its peer, for a while.
  void become_primary() {
    begin();
    meet();
    order();
    ASSERT_TRUE(promoted());
    node_->run(5 * kSecond_ns);
  }
  // Whether it is, when that is known.
  bool promoted() {
    for (int i = 0; i < 100 && !promoted_; ++i) node_->run(100 * kMillisecond_ns);
    EXPECT_TRUE(promoted_.has_value());
    return promoted_.value_or(false);
  }
  // A client's block of zeroes.
  void write() {
    auto request = std::make_unique<ClientRequest>();
    request->op = ClientOp::kZero;
    request->length_bytes = 4 * kKiB;
    request->done = [this](ClientRequest& done) { written_ = done.error; };
    node_->engine->clients().submit(*request);
    requests_.push_back(std::move(request));
    node_->run(10 * kMillisecond_ns);
  }
  // The peer, with the same witness, which is not there yet.
  void invite() {
    peer_.reset();
    peer_ = std::make_unique<HostilePeer>(*node_, name_ == "alpha" ? "beta" : "alpha", record_);
    peer_->asks_register = config_.witness.kind == WitnessKind::kEtcd;
    peer_->asks_command = config_.witness.kind == WitnessKind::kCommand;
    peer_->settings = make_settings(config_);
  }
  // … which is secondary and holds the same.
  void meet(const std::function<void(HostilePeer&)>& differently = [](HostilePeer&) {}) {
    invite();
    differently(*peer_);
    peer_->hears = [this](const wire::FrameHeader& header) { ++heard_[static_cast<wire::FrameType>(header.type)]; };
    peer_->take(HostilePeer::Stance::kSame, 0, 0);
    for (int i = 0; i < 100 && !node_->engine->inside().session_stands(); ++i) node_->run(100 * kMillisecond_ns);
    ASSERT_TRUE(node_->engine->inside().session_stands());
  }
  // The peer's disk was lost, and it has an empty one.
  void meet_newcomer() {
    invite();
    peer_->take(HostilePeer::Stance::kBlank, 0, 0);
    peer_->dial(0);
  }
  // … is gone.
  void part() {
    peer_->vanish();
    for (int i = 0; i < 100 && node_->engine->inside().session_stands(); ++i) node_->run(100 * kMillisecond_ns);
    ASSERT_FALSE(node_->engine->inside().session_stands());
  }

  // It wants to be primary, out of turn.
  void peer_asks() {
    wire::FrameHeader header = wire::to_header(wire::PromoteAskFrame{1, record_.term + 1});
    wire::set_order(header, ++*peer_->control());
    peer_->send(0, wire::seal(header, {}));
    node_->run(10 * kMillisecond_ns);
  }

  std::string name_ = "alpha";
  Config config_;
  metadata::NodeRecord record_;
  WrittenWitness witness_;
  AnsweringFence fence_;  // where the witness is a command
  std::unique_ptr<FuzzNode> node_;
  std::unique_ptr<HostilePeer> peer_;
  std::map<wire::FrameType, int> heard_;  // by the peer
  std::optional<bool> promoted_;
  std::vector<std::unique_ptr<ClientRequest>> requests_;
  std::optional<int> written_;  // how the last one ended
};

}  // namespace twinblock::fuzz
