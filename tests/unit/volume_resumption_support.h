// A node that was primary when its process ended, and its next process: an engine on virtual parts, and the fuzzers' peer.
#pragma once

#include <gtest/gtest.h>

#include <cerrno>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fuzz_node.h"
#include "hostile_peer.h"
#include "metadata_image.h"
#include "volume_consent_support.h"

namespace twinblock::fuzz {

constexpr uint64_t kVolumeBytes = 256 * kKiB;
constexpr uint64_t kBoot = 7;

class ResumptionTest : public testing::Test {
 protected:
  ResumptionTest() : config_(make_config(kVolumeBytes)), record_(plain_record("alpha", {kVolumeBytes, 64 * kKiB})) {
    record_.primary = true;
    record_.boot = record_.promoted_boot = kBoot;
    record_.term = 2;
    begin();
  }
  void begin(bool cache_is_gone = false) {
    node_ = plain_node(config_, record_, witness_.get(), nullptr, kBoot, cache_is_gone);
    if (witness_) witness_->scheduler = &node_->scheduler;
    hear_logs();
    EXPECT_TRUE(node_->engine->start().ok());
  }
  void hear_logs() {
    node_->logs = [this](const std::string& line) {
      given_up_ |= line.find("does not go on as primary:") != std::string::npos;
    };
  }
  // Something was under way when its process ended, so that the peer is to be marked as half-copied.
  void begin_with_something_to_send() {
    node_->engine.reset();
    record_.dirty = record_.all_dirty = true;
    begin();
  }
  // It had gone on alone, in a generation of its own, when its process ended.
  void begin_alone() {
    node_->engine.reset();
    record_.generations.current = 12;
    record_.dirty = record_.all_dirty = true;
    begin();
  }
  // The witness is a register, which names what the record does …
  void begin_beside_register() {
    node_->engine.reset();
    config_.witness.kind = WitnessKind::kEtcd;
    config_.witness.endpoints = {"http://10.0.0.3:2379"};
    witness_ = std::make_unique<WrittenWitness>();
    witness_->reading = {WitnessEntry{metadata::format_uuid(record_.volume_uuid), record_.generations.current, ""}, 5};
    begin();
  }
  // … or a command.
  void begin_beside_fence() {
    config_.witness.kind = WitnessKind::kCommand;
    config_.witness.timeout_ns = kSecond_ns;
    node_ = fenced_node(config_, record_, &fence_, kBoot);
    hear_logs();
    fence_.scheduler = &node_->scheduler;
    ASSERT_TRUE(node_->engine->start().ok());
  }
  // The peer's disk was lost, and it has an empty one, which is brought up to date; or, where it does not answer, to be so.
  void meet_newcomer(bool answers = true) {
    peer_ = std::make_unique<HostilePeer>(*node_, "beta", record_);
    peer_->answers = answers;
    peer_->take(HostilePeer::Stance::kBlank, 0, 0);
    for (int i = 0; i < 100 && !stands(); ++i) node_->run(100 * kMillisecond_ns);
    ASSERT_TRUE(stands());
    node_->run(kSecond_ns);
    EXPECT_FALSE(serves()) << "the peer confirms nothing";
  }
  std::string order_promotion() {
    std::optional<Result<std::string>> said;
    node_->engine->orders().promote({}, [&said](const Result<std::string>& result) { said = result; });
    for (int i = 0; i < 100 && !said; ++i) node_->run(100 * kMillisecond_ns);
    return !said ? "nothing" : said->ok() ? "" : said->error().what;
  }
  void stop(bool clients_cut_off) {
    bool stopped = false;
    node_->engine->shut_down(clients_cut_off, [&stopped] { stopped = true; });
    for (int i = 0; i < 100 && !stopped; ++i) node_->run(100 * kMillisecond_ns);
    ASSERT_TRUE(stopped);
  }
  // It serves, and none of the last process' clients is back.
  void go_on() {
    meet(true, false);
    node_->run(kSecond_ns);
    ASSERT_TRUE(serves());
  }
  // A client comes, and goes. `term`: of the promotion that it names; 0: of none.
  void come_and_go(uint64_t term, std::optional<ClientOp> asks = {}) {
    ASSERT_TRUE(node_->engine->clients().opened(term).ok());
    if (asks) {
      ClientRequest request;
      std::vector<std::byte> data(4 * kKiB);
      request.op = *asks;
      request.data = data.data();
      request.length_bytes = *asks == ClientOp::kFlush ? 0 : data.size();
      request.all_zero = *asks == ClientOp::kWrite;
      std::optional<int> said;
      request.done = [&said](ClientRequest& done) { said = done.error; };
      node_->engine->clients().submit(request);
      for (int i = 0; i < 100 && !said; ++i) node_->run(100 * kMillisecond_ns);
      ASSERT_EQ(said, 0);
    }
    node_->engine->clients().closed();
  }
  void expect_that_a_stop_is_for_good(bool for_good) {
    stop(false);
    EXPECT_FALSE(on_record().primary);
    EXPECT_EQ(on_record().promoted_boot, for_good ? 0 : kBoot);
  }
  [[nodiscard]] metadata::NodeRecord on_record() const { return load_plain(node_->metadata.contents, record_).record; }
  ~ResumptionTest() override {
    node_->engine.reset();
    peer_.reset();
  }

  [[nodiscard]] bool stands() const { return node_->engine->inside().session_stands(); }
  [[nodiscard]] bool serves() const {
    const StatusView view = node_->engine->status();
    return view.role == Role::kPrimary && !view.mine.resumes;
  }
  // The peer, which is secondary and has the same. It has `recorded` what was new in the session before, and dials then:
  // it says its hello, and has to hear this node's before it agrees.
  void meet(bool answers, bool recorded) {
    peer_ = std::make_unique<HostilePeer>(*node_, "beta", record_);
    peer_->answers = answers;
    peer_->recorded = recorded;
    peer_->listens = !recorded;
    if (witness_) {
      peer_->asks_register = true;
      peer_->settings = make_settings(config_);
    }
    peer_->take(HostilePeer::Stance::kSame, 0, 1);
    if (recorded) peer_->dial(0);
    for (int i = 0; i < 100 && !stands(); ++i) node_->run(100 * kMillisecond_ns);
    ASSERT_TRUE(stands());
  }
  // That it is to record that it is half-copied: over whichever link it was asked.
  void say_not_yet() {
    for (size_t link = 0; link < config_.links.size(); ++link) peer_->answer(link, 0, EINPROGRESS, 0);
  }
  void part() {
    peer_->vanish();
    for (int i = 0; i < 100 && stands(); ++i) node_->run(100 * kMillisecond_ns);
    ASSERT_FALSE(stands());
    peer_.reset();
  }

  Config config_;
  metadata::NodeRecord record_;
  std::unique_ptr<WrittenWitness> witness_;  // null: none
  AnsweringFence fence_;                     // where a test has one
  std::unique_ptr<FuzzNode> node_;
  std::unique_ptr<HostilePeer> peer_;
  bool given_up_ = false;
};

}  // namespace twinblock::fuzz
