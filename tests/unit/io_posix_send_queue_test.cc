// SendQueue: whatever is sent of it at a time, the bytes leave in the order in which they were added.
#include <gtest/gtest.h>
#include <sys/uio.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "allocated_bytes.h"
#include "base/units.h"
#include "io/posix/send_queue.h"
#include "pattern.h"

namespace twinblock {
namespace {

TEST(SendQueueTest, a_hundred_small_heads_are_one_piece) {
  SendQueue queue;
  for (unsigned i = 0; i < 100; ++i) queue.add(pattern(64, i), {});
  std::vector<iovec> vectors(16);
  ASSERT_EQ(queue.gather(vectors, SIZE_MAX), 1u);
  EXPECT_EQ(vectors[0].iov_len, 6400u);
}

TEST(SendQueueTest, bytes_survive_any_partial_sends) {
  SendQueue queue;
  const Bytes body = pattern(5000, 1);
  Bytes expected;
  Bytes sent;
  std::vector<iovec> vectors(7);
  unsigned round = 0;
  const auto send_some = [&](size_t limit) {
    const size_t count = queue.gather(vectors, limit);
    size_t bytes = 0;
    for (size_t i = 0; i < count; ++i) {
      const auto* data = static_cast<const std::byte*>(vectors[i].iov_base);
      const size_t n = std::min(vectors[i].iov_len, limit - bytes);
      sent.insert(sent.end(), data, data + n);
      bytes += n;
    }
    EXPECT_LE(bytes, limit);
    queue.consume(bytes);
  };
  for (; round < 5000; ++round) {
    const Bytes head = pattern(round % 300 == 0 ? 40000 : 1 + round % 100, round);
    const std::span<const std::byte> with =
        round % 3 == 0 ? std::span(body).first(round % 5000) : std::span<const std::byte>();
    queue.add(head, with);
    expected.insert(expected.end(), head.begin(), head.end());
    expected.insert(expected.end(), with.begin(), with.end());
    send_some(1 + round * 7919 % 3000);
  }
  while (!queue.empty()) send_some(100000);
  EXPECT_EQ(sent, expected);
}

// As under load: thousands of pieces wait, so that those that are sent are dropped from the front
// while others are behind them, and the queue is filled and drained in turn.
TEST(SendQueueTest, thousands_of_pieces_keep_their_order_while_sent_ones_are_dropped) {
  SendQueue queue;
  const Bytes bodies = pattern(1 * kMiB, 1);
  Bytes expected;
  Bytes sent;
  size_t pieces = 0;
  std::vector<iovec> vectors(64);
  for (unsigned round = 0; round < 40; ++round) {
    for (unsigned i = 0; i < 1500; ++i, ++pieces) {
      const Bytes head = pattern(64, static_cast<unsigned>(pieces));
      const auto body = std::span(bodies).subspan(pieces * 37 % 500'000, 300 + pieces % 7);
      queue.add(head, body);
      expected.insert(expected.end(), head.begin(), head.end());
      expected.insert(expected.end(), body.begin(), body.end());
    }
    // Half of the rounds leave more behind than they found: up to 20,000 pieces.
    const size_t until = round % 2 == 0 ? sent.size() + (expected.size() - sent.size()) / 3
                                        : expected.size() - round * 1000;
    while (sent.size() < until) {
      const size_t limit = 1 + sent.size() * 31 % 9000;
      const size_t count = queue.gather(vectors, limit);
      ASSERT_GT(count, 0u);
      size_t bytes = 0;
      for (size_t i = 0; i < count; ++i) {
        const auto* data = static_cast<const std::byte*>(vectors[i].iov_base);
        sent.insert(sent.end(), data, data + vectors[i].iov_len);
        bytes += vectors[i].iov_len;
      }
      ASSERT_LE(bytes, limit);
      queue.consume(bytes);
      ASSERT_TRUE(std::equal(sent.end() - static_cast<std::ptrdiff_t>(bytes), sent.end(),
                             expected.begin() + static_cast<std::ptrdiff_t>(sent.size() - bytes)))
          << "after " << sent.size() << " bytes";
    }
  }
  EXPECT_FALSE(queue.empty());
}

// A link under load is never idle, for days.
TEST(SendQueueTest, a_queue_that_never_runs_empty_does_not_grow_by_what_was_sent) {
  SendQueue queue;
  const Bytes head = pattern(64, 1);
  const Bytes body = pattern(4096, 2);
  queue.add(head, body);
  const size_t before = allocated_bytes();
  for (unsigned i = 0; i < 300'000; ++i) {
    queue.add(head, body);
    queue.consume(head.size() + body.size());
  }
  EXPECT_FALSE(queue.empty());
  EXPECT_LT(allocated_bytes(), before + kMiB);
}

TEST(SendQueueTest, what_a_burst_has_needed_is_given_back) {
  SendQueue queue;
  const Bytes head = pattern(1024, 1);
  const size_t before = allocated_bytes();
  for (unsigned i = 0; i < 10'000; ++i) queue.add(head, {});
  queue.consume(10'000 * head.size());
  EXPECT_TRUE(queue.empty());
  EXPECT_LT(allocated_bytes(), before + kMiB);
}

}  // namespace
}  // namespace twinblock
