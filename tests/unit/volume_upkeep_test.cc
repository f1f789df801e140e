// What a primary does by itself from time to time, so that the loss of its peer, or of itself, costs little: an engine on
// virtual parts, and the fuzzers' peer.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>

#include "allocated_bytes.h"
#include "base/limits.h"
#include "volume_primary_support.h"

namespace twinblock::fuzz {
namespace {

using UpkeepTest = PrimaryTest;

// A steady load without a flush: what was written since the last one would all have to be sent again.
TEST_F(UpkeepTest, WhatIsWrittenWithoutARestIsFlushedNowAndThen) {
  size_t flushes = 0;
  hears_ = [&](const wire::FrameHeader& header) {
    if (header.type == static_cast<uint8_t>(wire::FrameType::kFlush)) ++flushes;
  };
  const uint64_t rounds = 3;
  const uint64_t began_ns = node_->scheduler.now_ns();
  while (node_->scheduler.now_ns() - began_ns < rounds * limits::kEpochOpenMax_ns + 10 * kSecond_ns) {
    ask(ClientOp::kZero, limits::kBlockBytes);
    ASSERT_EQ(await_end(), 0);
    node_->run(limits::kEpochIdle_ns / 4);
  }
  EXPECT_GE(flushes, rounds - 1);
  EXPECT_LE(flushes, rounds + 1) << "no more often";
}

// A pause is a good moment, and the next one is not put off by it.
TEST_F(UpkeepTest, WhoRestsHasItFlushedSoon) {
  size_t flushes = 0;
  hears_ = [&](const wire::FrameHeader& header) {
    if (header.type == static_cast<uint8_t>(wire::FrameType::kFlush)) ++flushes;
  };
  ask(ClientOp::kZero, limits::kBlockBytes);
  ASSERT_EQ(await_end(), 0);
  node_->run(limits::kEpochOpenMax_ns / 2);
  EXPECT_EQ(flushes, 1U);
  node_->run(4 * limits::kEpochOpenMax_ns);
  EXPECT_EQ(flushes, 1U) << "there is nothing to flush";
}

TEST_F(UpkeepTest, ANewProcessOfAPeerWhoseDiskFailedIsLetInAtOnce) {
  peer_->answers = false;
  bool asked = false;
  hears_ = [&asked](const wire::FrameHeader& header) {
    asked |= header.type == static_cast<uint8_t>(wire::FrameType::kData);
  };
  ask(ClientOp::kZero, limits::kBlockBytes);
  ASSERT_TRUE(await([&] { return asked; }));
  peer_->answer(0, 0, EIO, 0);
  ASSERT_TRUE(await([this] { return !stands(); }));
  hears_ = nullptr;
  const auto is_let_in = [this](metadata::Uuid instance) {
    meet();
    peer_->instance = instance;
    peer_->dial(0);
    node_->run(3 * kSecond_ns);
    return stands();
  };
  EXPECT_FALSE(is_let_in({9})) << "the same process";
  EXPECT_TRUE(is_let_in({8}));
}

TEST_F(UpkeepTest, AWriteThatWasAnsweredLeavesNothing) {
  const auto write = [this](int times) {
    for (; times > 0; --times) {
      ask(ClientOp::kZero, limits::kBlockBytes);
      ASSERT_EQ(await_end(), 0);
    }
  };
  write(1000);
  const size_t before = allocated_bytes();
  write(5000);
  EXPECT_LT(allocated_bytes() - std::min(before, allocated_bytes()), 512 * kKiB);
}

TEST_F(UpkeepTest, AReadThatWasAnsweredLeavesNothing) {
  std::vector<std::byte> room(limits::kBlockBytes);
  const auto read = [&](int times) {
    for (; times > 0; --times) {
      ask(ClientOp::kRead, room.size(), room.data());
      ASSERT_EQ(await_end(), 0);
    }
  };
  read(1000);
  const size_t before = allocated_bytes();
  read(5000);
  EXPECT_LT(allocated_bytes() - std::min(before, allocated_bytes()), 512 * kKiB);
}

}  // namespace
}  // namespace twinblock::fuzz
