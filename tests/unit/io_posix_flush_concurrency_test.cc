// FlushConcurrency against disks of several kinds: how many flushes it has under way.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <functional>

#include "io/posix/flush_concurrency.h"

namespace twinblock {
namespace {

constexpr size_t kMax = 32;

// What a flush takes beside so many others.
using Model = std::function<uint64_t(size_t beside)>;

uint64_t side_by_side(size_t /*beside*/) { return 2 * kMillisecond_ns; }
uint64_t in_turn(size_t beside) { return (beside + 1) * 2 * kMillisecond_ns; }
uint64_t quick(size_t /*beside*/) { return 5 * kMicrosecond_ns; }

class FlushConcurrencyTest : public ::testing::Test {
 protected:
  // Endless load: whenever one ends, the next one begins. Returns how many were under way at the
  // most.
  size_t load(const Model& disk, uint64_t for_ns) {
    struct Flush {
      size_t beside;
      uint64_t began_ns;
      uint64_t ends_ns;
    };
    std::deque<Flush> running;
    size_t most = 0;
    for (const uint64_t end_ns = now_ns_ + for_ns; now_ns_ < end_ns;) {
      while (running.size() < concurrency_.allowed()) {
        const size_t beside = running.size();
        running.push_back({beside, now_ns_, now_ns_ + disk(beside)});
        most = std::max(most, running.size());
        now_ns_ += FlushConcurrency::kSpacing_ns;
      }
      const Flush& oldest = running.front();
      now_ns_ = std::max(now_ns_, oldest.ends_ns);
      concurrency_.learn(oldest.beside, oldest.ends_ns - oldest.began_ns, oldest.ends_ns);
      running.pop_front();
    }
    return most;
  }
  // Each waits for the one before.
  void lone(const Model& disk, int flushes) {
    for (int i = 0; i < flushes; ++i) {
      now_ns_ += disk(0);
      concurrency_.learn(0, disk(0), now_ns_);
    }
  }
  // Each of them begins while `beside` others are under way.
  void beside(size_t beside, uint64_t took_ns, int flushes) {
    for (int i = 0; i < flushes; ++i) {
      now_ns_ += took_ns;
      concurrency_.learn(beside, took_ns, now_ns_);
    }
  }

  FlushConcurrency concurrency_{kMax};
  uint64_t now_ns_ = kSecond_ns;
};

TEST_F(FlushConcurrencyTest, one_before_anything_is_known_and_on_a_quick_disk) {
  EXPECT_EQ(concurrency_.allowed(), 1U);
  load(quick, 100 * kMillisecond_ns);
  EXPECT_EQ(concurrency_.allowed(), 1U);
}

TEST_F(FlushConcurrencyTest, as_many_as_the_spacing_goes_into_what_one_takes) {
  lone([](size_t) { return 10 * FlushConcurrency::kSpacing_ns; }, 1);
  EXPECT_EQ(concurrency_.allowed(), 10U);
  lone(side_by_side, 100);
  EXPECT_EQ(concurrency_.allowed(), kMax) << "but no more than there are descriptors for";
}

TEST_F(FlushConcurrencyTest, one_that_was_interrupted_counts_little) {
  lone([](size_t) { return 2 * FlushConcurrency::kSpacing_ns; }, 50);
  lone([](size_t) { return kSecond_ns; }, 1);
  EXPECT_EQ(concurrency_.allowed(), 2U);
}

TEST_F(FlushConcurrencyTest, a_disk_that_does_one_after_the_other_has_one_for_a_while) {
  lone(side_by_side, 10);
  beside(7, in_turn(7), FlushConcurrency::kInTurnMin - 1);
  EXPECT_EQ(concurrency_.allowed(), kMax);
  beside(7, in_turn(7), 1);
  EXPECT_EQ(concurrency_.allowed(), 1U);
  EXPECT_EQ(load(in_turn, FlushConcurrency::kRest_ns - 100 * kMillisecond_ns), 1U);
  EXPECT_GT(load(in_turn, 200 * kMillisecond_ns), 1U) << "tried again";
}

// A disk that was asked to flush nothing for a while looks quick. Its first real flushes take so
// much longer than what one was believed to take alone that it looks like one that does them in
// turn.
TEST_F(FlushConcurrencyTest, a_disk_that_looked_quick_soon_has_many_side_by_side) {
  for (const uint64_t looked_us : {1, 30, 100, 150, 200, 400}) {
    lone([&](size_t) { return looked_us * kMicrosecond_ns; }, 100);
    load(side_by_side, 300 * kMillisecond_ns);
    EXPECT_GE(concurrency_.allowed(), 8U) << looked_us << " us";
  }
}

TEST_F(FlushConcurrencyTest, under_load_one_is_let_begin_alone_now_and_then) {
  lone(side_by_side, 10);
  uint64_t alone = 0;
  for (int i = 0; i < 10'000; ++i) {
    const size_t n = concurrency_.allowed();
    alone += n == 1 ? 1 : 0;
    if (n == 1)
      lone(side_by_side, 1);
    else
      beside(n - 1, side_by_side(n - 1), 1);
  }
  EXPECT_GE(alone, 10U);  // of 20 s
  EXPECT_LE(alone, 40U);
}

}  // namespace
}  // namespace twinblock
