// The log of events: bounded, numbered without gaps.
#include <gtest/gtest.h>

#include "telemetry/event_log.h"

namespace twinblock {
namespace {

std::vector<uint64_t> numbers(const std::vector<Event>& events) {
  std::vector<uint64_t> all;
  for (const Event& event : events) all.push_back(event.number);
  return all;
}

TEST(EventLog, NumbersFromOneAndAnswersFromAnyOfThem) {
  EventLog log(10);
  EXPECT_EQ(log.last(), 0u);
  EXPECT_TRUE(log.after(0, 10).empty());
  for (uint64_t i = 0; i < 5; ++i) log.add(i, "e", {});
  EXPECT_EQ(numbers(log.after(0, 10)), (std::vector<uint64_t>{1, 2, 3, 4, 5}));
  EXPECT_EQ(numbers(log.after(3, 10)), (std::vector<uint64_t>{4, 5}));
  EXPECT_EQ(numbers(log.after(1, 2)), (std::vector<uint64_t>{2, 3})) << "the oldest first";
  EXPECT_TRUE(log.after(5, 10).empty());
  EXPECT_TRUE(log.after(~uint64_t{0}, 10).empty());
  EXPECT_EQ(log.dropped_after(0), 0u);
}

TEST(EventLog, ForgetsTheOldestAndSaysHowMany) {
  EventLog log(3);
  for (uint64_t i = 0; i < 10; ++i) log.add(i, "e", {});
  EXPECT_EQ(numbers(log.after(0, 10)), (std::vector<uint64_t>{8, 9, 10}));
  EXPECT_EQ(log.dropped_after(0), 7u);
  EXPECT_EQ(log.dropped_after(5), 2u);
  EXPECT_EQ(log.dropped_after(7), 0u);
  EXPECT_EQ(log.dropped_after(20), 0u);
  EXPECT_EQ(numbers(log.after(6, 10)), (std::vector<uint64_t>{8, 9, 10}));
}

TEST(EventLog, KeepsNoLongTexts) {
  EventLog log(3);
  log.add(1, "e", {{"reason", std::string(100'000, 'x')}, {"bytes", uint64_t{7}}});
  const Event event = log.after(0, 1)[0];
  EXPECT_LE(std::get<std::string>(event.details[0].second).size(), 400u);
  EXPECT_EQ(std::get<uint64_t>(event.details[1].second), 7u);
}

}  // namespace
}  // namespace twinblock
