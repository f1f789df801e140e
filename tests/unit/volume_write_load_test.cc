// What is counted of clients' writes as having gone over the links: an engine on virtual parts, and the fuzzers' peer.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/crc32c.h"
#include "control/requests.h"
#include "volume_primary_support.h"

namespace twinblock::fuzz {
namespace {

class WriteLoadTest : public PrimaryTest {
 protected:
  static constexpr uint64_t kBytes = 64 * kKiB;

  void write() {
    request_.pieces = {&piece_, 1};
    ask(ClientOp::kWrite, kBytes, data_.data());
    ASSERT_EQ(await_end(), 0);
  }
  [[nodiscard]] WriteLoad load() const { return node_->engine->figures().write_load(Window::k60s); }

  std::vector<std::byte> data_ = std::vector<std::byte>(kBytes, std::byte{7});
  const WirePiece piece_{data_, crc32c(data_)};
};

TEST_F(WriteLoadTest, OnlyWhatWasWrittenWithoutThePeerWentToNone) {
  ASSERT_NO_FATAL_FAILURE(write());
  EXPECT_EQ(load().simplex_writes, 0u);
  peer_->vanish();
  ASSERT_TRUE(await([this] { return node_->engine->status().state == VolumeState::kSimplex; }));
  ASSERT_NO_FATAL_FAILURE(write());
  ASSERT_NO_FATAL_FAILURE(write());
  EXPECT_EQ(load().simplex_writes, 2u);
  EXPECT_EQ(load().simplex_bytes, 2 * kBytes);
  meet();
  ASSERT_TRUE(await([this] { return node_->engine->status().state == VolumeState::kDuplex; }));
  ASSERT_NO_FATAL_FAILURE(write());
  EXPECT_EQ(load().simplex_writes, 2u);
}

TEST_F(WriteLoadTest, OfZeroesNothingTravelsButTheirLength) {
  request_.all_zero = true;
  data_.assign(kBytes, std::byte{0});
  ask(ClientOp::kWrite, kBytes, data_.data());
  ASSERT_EQ(await_end(), 0);
  EXPECT_EQ(load().wire_part, 0);
  EXPECT_EQ(load().zero_part, 1);
  request_.all_zero = false;
  data_.assign(kBytes, std::byte{7});
  ASSERT_NO_FATAL_FAILURE(write());
  EXPECT_EQ(load().wire_part, 0.5);
  EXPECT_EQ(load().zero_part, 0.5);
}

// It was sent, and nobody has it.
TEST_F(WriteLoadTest, WhatThePeerNeverAnsweredWentToNone) {
  peer_->answers = false;
  request_.pieces = {&piece_, 1};
  ask(ClientOp::kWrite, kBytes, data_.data());
  node_->run(kSecond_ns);
  ASSERT_FALSE(error_.has_value());
  peer_->vanish();
  ASSERT_EQ(await_end(), 0);
  EXPECT_EQ(load().simplex_writes, 1u);
  EXPECT_GE(load().simplex_ns, kSecond_ns);
}

TEST_F(WriteLoadTest, IsToldOfTheWindowThatIsAskedFor) {
  peer_->vanish();
  ASSERT_TRUE(await([this] { return node_->engine->status().state == VolumeState::kSimplex; }));
  ASSERT_NO_FATAL_FAILURE(write());
  ASSERT_NO_FATAL_FAILURE(write());
  const NodeFacts facts{"threads", "buffered", "nbd+unix:///?socket=/x", "/x.ctl", "/a", "/am", "/etc/r0.toml", 42};
  // How many there were, by the classes and by the load.
  const auto told = [&](const std::string& window) {
    nlohmann::json reply;
    handle_control_request(*node_->engine, facts, R"({"verb":"latency","args":{"window":")" + window + "\"}}",
                           [&reply](const std::string& line) { reply = nlohmann::json::parse(line)["result"]; });
    EXPECT_EQ(reply["window"], window);
    uint64_t writes = 0;
    for (const nlohmann::json& each : reply["classes"]) writes += each["writes"].get<uint64_t>();
    return std::pair{writes, reply["load"]["simplex_writes"].get<uint64_t>()};
  };
  constexpr std::pair<uint64_t, uint64_t> kNone{0, 0}, kBoth{2, 2};
  for (const char* window : {"10s", "60s", "start"}) EXPECT_EQ(told(window), kBoth) << window;
  node_->run(20 * kSecond_ns);
  EXPECT_EQ(told("10s"), kNone);
  EXPECT_EQ(told("60s"), kBoth);
  EXPECT_EQ(told("start"), kBoth);
  node_->run(80 * kSecond_ns);
  EXPECT_EQ(told("60s"), kNone);
  EXPECT_EQ(told("start"), kBoth);
}

class LargeWritesTest : public PrimaryTest {
 protected:
  static constexpr uint64_t kLargeBytes = 64 * kMiB;
  LargeWritesTest() : PrimaryTest({}, kLargeBytes) {}
};

// Each takes memory at both nodes for as long as it lasts.
TEST_F(LargeWritesTest, OnlySoManyBytesOfThemAreUnderWay) {
  static_assert(limits::kWriteBytesInFlightMax < kLargeBytes);
  uint64_t sent_bytes = 0;
  std::vector<uint64_t> sent;
  hears_ = [&](const wire::FrameHeader& header) {
    if (header.type != static_cast<uint8_t>(wire::FrameType::kData)) return;
    sent_bytes += header.length;
    sent.push_back(header.sequence);
  };
  peer_->answers = false;
  std::vector<std::byte> data(kMiB, std::byte{7});
  const WirePiece piece{data, crc32c(data)};
  std::vector<ClientRequest> requests(kLargeBytes / kMiB);
  size_t ended = 0;
  for (ClientRequest& request : requests) {
    request.op = ClientOp::kWrite;
    request.offset_bytes = static_cast<uint64_t>(&request - requests.data()) * kMiB;
    request.length_bytes = kMiB;
    request.data = data.data();
    request.pieces = {&piece, 1};
    request.done = [&ended](ClientRequest& done) { ended += done.error == 0 ? 1 : 0; };
    node_->engine->clients().submit(request);
  }
  node_->run(kSecond_ns);
  EXPECT_EQ(sent_bytes, limits::kWriteBytesInFlightMax);
  EXPECT_EQ(ended, 0u);
  const auto answer_all = [&] {
    for (const uint64_t number : std::exchange(sent, {})) answer(number);
    return ended == requests.size();
  };
  EXPECT_TRUE(await(answer_all)) << ended << " of " << requests.size();
  EXPECT_EQ(sent_bytes, kLargeBytes);
}

}  // namespace
}  // namespace twinblock::fuzz
