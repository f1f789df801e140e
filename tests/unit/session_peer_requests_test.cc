// The table of what waits for the peer's answer.
#include "session/peer_requests.h"

#include <gtest/gtest.h>

#include <vector>

namespace twinblock {
namespace {

struct Waiter final : PeerRequest {
  void answered(const PeerAnswer&) override {}
};

class PeerRequestsTest : public testing::Test {
 protected:
  uint64_t ask() { return requests_.add(waiter_, {}, ++now_ns_).number; }
  void answer(uint64_t number) {
    const PeerRequests::Entry* entry = requests_.find(number);
    ASSERT_NE(entry, nullptr);
    requests_.remove(*entry);
  }
  [[nodiscard]] std::vector<uint64_t> waiting() const {
    std::vector<uint64_t> numbers;
    requests_.each_while([&numbers](const PeerRequests::Entry& entry) {
      numbers.push_back(entry.number);
      return true;
    });
    return numbers;
  }

  Waiter waiter_;
  PeerRequests requests_;
  uint64_t now_ns_ = 0;
};

TEST_F(PeerRequestsTest, EachIsFoundByItsNumberUntilItIsAnswered) {
  const uint64_t first = ask(), second = ask(), third = ask();
  answer(second);
  EXPECT_EQ(requests_.find(second), nullptr);
  EXPECT_EQ(waiting(), (std::vector{first, third}));
  answer(first);
  EXPECT_EQ(requests_.oldest_asked_ns(), 3u);
  requests_.clear();
  EXPECT_TRUE(requests_.empty());
  EXPECT_EQ(requests_.find(third), nullptr) << "of a session that has ended";
  EXPECT_GT(ask(), third) << "no number comes twice";
}

// A flush may take minutes, and writes are made and answered all the while.
TEST_F(PeerRequestsTest, WhatIsAnsweredBehindOneThatTakesLongIsNotKept) {
  const uint64_t flush = ask(), write = ask();
  size_t most = 0;
  for (int i = 0; i < 100000; ++i) {
    const uint64_t next = ask();
    answer(next);
    most = std::max(most, requests_.kept());
  }
  EXPECT_LT(most, 2 * PeerRequests::kAnsweredMax);
  EXPECT_EQ(waiting(), (std::vector{flush, write}));
  answer(write);
  answer(flush);
  EXPECT_TRUE(requests_.empty());
  EXPECT_EQ(requests_.kept(), 0u);
}

}  // namespace
}  // namespace twinblock
