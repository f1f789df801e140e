// Two nodes whose files name two registers of etcd, each of which would let its node go on alone: both say so. An engine on
// virtual parts, a witness in writing, and the fuzzers' peer.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "hostile_peer.h"
#include "io/witness.h"
#include "metadata_image.h"
#include "volume/settings.h"

namespace twinblock::fuzz {
namespace {

constexpr uint64_t kVolumeBytes = 256 * kKiB;
constexpr const char* kDiffers = "witness (another register of etcd";

class MarkedWitness final : public Witness {
 public:
  void read(const std::string&, const std::string&, std::function<void(Result<WitnessReading>)> done) override {
    scheduler->after(kMillisecond_ns, nullptr, [this, done = std::move(done)] {
      mark_ = stands;
      done(reading);
    });
  }
  void replace(const std::string&, int64_t revision, const WitnessEntry& entry,
               std::function<void(Result<bool>)> done) override {
    scheduler->after(kMillisecond_ns, nullptr, [this, revision, entry, done = std::move(done)] {
      reading = {entry, revision + 1};
      mark_ = stands = made;
      done(true);
    });
  }
  [[nodiscard]] std::string name() const override { return "a witness in writing"; }
  [[nodiscard]] uint64_t mark() const override { return mark_; }

  WitnessReading reading;
  uint64_t stands = 0;  // at the register, to begin with
  uint64_t made = 7;    // by this node's replacement
  sim::Scheduler* scheduler = nullptr;

 private:
  uint64_t mark_ = 0;  // as was answered
};

class WitnessMarkTest : public testing::Test {
 protected:
  WitnessMarkTest() : config_(make_config(kVolumeBytes)) {
    config_.witness.kind = WitnessKind::kEtcd;
    config_.witness.endpoints = {"http://10.0.0.3:2379"};
    config_.witness.timeout_ns = kSecond_ns;
  }
  ~WitnessMarkTest() override {
    node_->engine.reset();
    peer_.reset();
  }
  void meet(uint64_t theirs) {
    const metadata::NodeRecord record = plain_record("alpha", {kVolumeBytes, 64 * kKiB});
    node_ = plain_node(config_, record, &witness_);
    witness_.scheduler = &node_->scheduler;
    peer_ = std::make_unique<HostilePeer>(*node_, "beta", record);
    peer_->settings = make_settings(config_);
    peer_->asks_register = true;
    peer_->witness_mark = theirs;
    peer_->hears = [this](const wire::FrameHeader& header) {
      if (header.type == static_cast<uint8_t>(wire::FrameType::kSettings))
        told_ = wire::frame_as<wire::SettingsFrame>(header).witness_mark;
    };
    peer_->take(HostilePeer::Stance::kSame, 0, 2);
    ASSERT_TRUE(node_->engine->start().ok());
    for (int i = 0; i < 1000 && witness_.reading.revision == 0; ++i) node_->run(100 * kMillisecond_ns);
    node_->run(kSecond_ns);
    ASSERT_TRUE(node_->engine->inside().session_stands());
  }
  // The peer has learned another one.
  void peer_tells(uint64_t mark) {
    peer_->witness_mark = mark;
    peer_->tell_settings(make_settings(config_));
  }
  [[nodiscard]] bool says_so() const {
    return node_->engine->status().settings_differ.find(kDiffers) != std::string::npos;
  }

  Config config_;
  MarkedWitness witness_;
  std::unique_ptr<FuzzNode> node_;
  std::unique_ptr<HostilePeer> peer_;
  uint64_t told_ = 0;
};

TEST_F(WitnessMarkTest, IsToldAsSoonAsItIsKnown) {
  ASSERT_NO_FATAL_FAILURE(meet(0));
  EXPECT_EQ(told_, 7u);
  EXPECT_FALSE(says_so()) << "the peer does not know its own yet";
}

TEST_F(WitnessMarkTest, TheSameIsOneRegister) {
  ASSERT_NO_FATAL_FAILURE(meet(7));
  node_->run(2 * limits::kWitnessMarksDiffer_ns);
  EXPECT_FALSE(says_so());
}

TEST_F(WitnessMarkTest, AnotherOneIsAnotherRegister) {
  ASSERT_NO_FATAL_FAILURE(meet(8));
  node_->run(limits::kWitnessMarksDiffer_ns);
  EXPECT_TRUE(says_so()) << node_->engine->status().settings_differ;
  peer_tells(7);
  node_->run(kSecond_ns);
  EXPECT_FALSE(says_so()) << "its file was mended";
}

// An administrator removed the entry: the peer learns of the new one when it looks next.
TEST_F(WitnessMarkTest, IsNotAnotherOneUntilThePeerHasLooked) {
  ASSERT_NO_FATAL_FAILURE(meet(8));
  node_->run(limits::kWitnessLook_ns);
  EXPECT_FALSE(says_so());
  peer_tells(7);
  node_->run(2 * limits::kWitnessMarksDiffer_ns);
  EXPECT_FALSE(says_so());
}

// etcd was made anew while the peer is away, and an operator's word is told to the new one: the peer has not seen it.
TEST_F(WitnessMarkTest, WhatThePeerKnewBeforeIsNoOtherRegister) {
  ASSERT_NO_FATAL_FAILURE(meet(7));
  bool primary = false;
  node_->engine->orders().promote({}, [&primary](const Result<std::string>& said) { primary = said.ok(); });
  node_->run(kSecond_ns);
  ASSERT_TRUE(primary);
  witness_.reading = {{}, 0};
  witness_.stands = 0;
  witness_.made = 9;
  peer_->vanish();
  node_->run(config_.peer_timeout_ns + kSecond_ns);
  ASSERT_FALSE(node_->engine->inside().session_stands());
  node_->engine->orders().go_on_alone(true, [](const Result<std::string>&) {});
  for (int i = 0; i < 100 && witness_.stands != 9; ++i) node_->run(kSecond_ns);
  ASSERT_EQ(witness_.stands, 9u);
  node_->run(2 * limits::kWitnessMarksDiffer_ns);
  EXPECT_FALSE(says_so()) << node_->engine->status().settings_differ;
}

// What stood there when marks came up, or was put there by hand.
TEST_F(WitnessMarkTest, AnEntryWithoutOneGetsOne) {
  const metadata::NodeRecord record = plain_record("alpha", {kVolumeBytes, 64 * kKiB});
  witness_.reading = {WitnessEntry{metadata::format_uuid(record.volume_uuid), record.generations.current, ""}, 5, true};
  ASSERT_NO_FATAL_FAILURE(meet(0));
  for (int i = 0; i < 100 && told_ == 0; ++i) node_->run(100 * kMillisecond_ns);
  EXPECT_EQ(told_, 7u);
  EXPECT_EQ(witness_.reading.revision, 6);
}

}  // namespace
}  // namespace twinblock::fuzz
