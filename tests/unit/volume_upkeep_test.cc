// What a primary does by itself from time to time, so that the loss of its peer, or of itself, costs little: an engine on
// virtual parts, and the fuzzers' peer.
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace twinblock::fuzz
