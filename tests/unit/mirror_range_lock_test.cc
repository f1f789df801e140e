// RangeLock: ranges that overlap are let through one after the other, in the order of their asking.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <random>
#include <vector>

#include "mirror/range_lock.h"

namespace twinblock {
namespace {

struct Holder final : RangeOwner {
  Holder(uint64_t begin, uint64_t end, int number_, std::vector<int>& log_)
      : number(number_), log(log_) {
    ticket.begin_bytes = begin;
    ticket.end_bytes = end;
    ticket.owner = this;
  }
  void range_admitted() override { log.push_back(number); }
  RangeTicket ticket;
  int number;
  std::vector<int>& log;
};

TEST(RangeLock, AdmitsWhatDoesNotOverlapAtOnce) {
  std::vector<int> log;
  RangeLock lock;
  Holder a(0, 10, 1, log), b(10, 20, 2, log), c(30, 31, 3, log);
  EXPECT_TRUE(lock.enter(a.ticket));
  EXPECT_TRUE(lock.enter(b.ticket));
  EXPECT_TRUE(lock.enter(c.ticket));
  EXPECT_EQ(lock.size(), 3u);
  EXPECT_TRUE(log.empty());
}

TEST(RangeLock, AdmitsWaitersInTheOrderOfTheirAsking) {
  std::vector<int> log;
  RangeLock lock;
  Holder a(0, 10, 1, log), b(5, 15, 2, log), c(0, 20, 3, log), d(12, 14, 4, log);
  EXPECT_TRUE(lock.enter(a.ticket));
  EXPECT_FALSE(lock.enter(b.ticket));
  EXPECT_FALSE(lock.enter(c.ticket));
  EXPECT_FALSE(lock.enter(d.ticket)) << "it overlaps waiters, which come first";
  lock.release(a.ticket);
  EXPECT_EQ(log, (std::vector<int>{2}));
  lock.release(b.ticket);
  EXPECT_EQ(log, (std::vector<int>{2, 3}));
  lock.release(c.ticket);
  EXPECT_EQ(log, (std::vector<int>{2, 3, 4}));
  lock.release(d.ticket);
  EXPECT_EQ(lock.size(), 0u);
}

// Enters another ticket from within its own admission.
struct Reentrant final : RangeOwner {
  Reentrant(RangeLock& lock_, Holder& next_) : lock(lock_), next(next_) { ticket.owner = this; }
  void range_admitted() override {
    entered_at_once = lock.enter(next.ticket);
    lock.release(ticket);
  }
  RangeLock& lock;
  Holder& next;
  RangeTicket ticket;
  bool entered_at_once = true;
};

TEST(RangeLock, AllowsEnteringAndReleasingFromWithinAnAdmission) {
  std::vector<int> log;
  RangeLock lock;
  Holder first(0, 8, 1, log), last(0, 8, 2, log);
  Reentrant middle(lock, last);
  middle.ticket.begin_bytes = 4;
  middle.ticket.end_bytes = 6;
  EXPECT_TRUE(lock.enter(first.ticket));
  EXPECT_FALSE(lock.enter(middle.ticket));
  lock.release(first.ticket);
  EXPECT_FALSE(middle.entered_at_once);
  EXPECT_EQ(log, (std::vector<int>{2}));
}

TEST(RangeLockDeathTest, RefusesAnEmptyRangeAndAForeignTicket) {
  std::vector<int> log;
  RangeLock lock;
  Holder empty(5, 5, 1, log), foreign(0, 1, 2, log);
  EXPECT_DEATH((void)lock.enter(empty.ticket), "at least one byte");
  EXPECT_DEATH(lock.release(foreign.ticket), "not in this lock");
}

// Against a model: a ticket is admitted exactly when no earlier one that overlaps is left.
class RangeLockModel : public testing::TestWithParam<unsigned> {};

TEST_P(RangeLockModel, AdmitsExactlyWhatTheModelAdmits) {
  std::mt19937 random(GetParam());
  RangeLock lock;
  std::vector<int> log;
  std::deque<Holder> holders;
  std::vector<size_t> present;  // indices into holders, in the order of their asking
  const auto overlap = [&](size_t a, size_t b) {
    return holders[a].ticket.begin_bytes < holders[b].ticket.end_bytes &&
           holders[b].ticket.begin_bytes < holders[a].ticket.end_bytes;
  };
  const auto free_in_model = [&](size_t which) {
    for (const size_t earlier : present) {
      if (earlier == which) return true;
      if (overlap(earlier, which)) return false;
    }
    return true;
  };
  std::vector<bool> admitted;
  for (int step = 0; step < 4000; ++step) {
    if (present.size() < 40 && random() % 2 == 0) {
      const uint64_t begin = random() % 64;
      holders.emplace_back(begin, begin + 1 + random() % 16, static_cast<int>(holders.size()), log);
      present.push_back(holders.size() - 1);
      admitted.push_back(lock.enter(holders.back().ticket));
      ASSERT_EQ(admitted.back(), free_in_model(holders.size() - 1)) << step;
    } else if (!present.empty()) {
      const size_t at = random() % present.size();
      const size_t which = present[at];
      if (!admitted[which]) continue;
      present.erase(present.begin() + static_cast<std::ptrdiff_t>(at));
      std::vector<int> expected;
      for (const size_t waiter : present)
        if (!admitted[waiter] && free_in_model(waiter))
          expected.push_back(static_cast<int>(waiter));
      log.clear();
      lock.release(holders[which].ticket);
      ASSERT_EQ(log, expected) << step;
      for (const int waiter : log) admitted[static_cast<size_t>(waiter)] = true;
    }
    ASSERT_EQ(lock.size(), present.size());
  }
}
INSTANTIATE_TEST_SUITE_P(Seeds, RangeLockModel, testing::Range(1u, 11u));

}  // namespace
}  // namespace twinblock
