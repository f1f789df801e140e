// The log of events: bounded, numbered without gaps; and how soon it is told to those who wait.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "base/limits.h"
#include "io/clock.h"
#include "telemetry/event_log.h"
#include "telemetry/events.h"

namespace twinblock {
namespace {

// Time passes when a test says so. It has one timer, like what is tested.
class PassingClock final : public Clock {
 public:
  [[nodiscard]] uint64_t now_ns() const override { return now_ns_; }
  [[nodiscard]] uint64_t wall_ns() const override { return now_ns_; }
  [[nodiscard]] std::unique_ptr<Timer> make_timer(std::function<void()> callback) override {
    return std::make_unique<OnlyTimer>(*this, std::move(callback));
  }
  void pass(uint64_t ns) {
    now_ns_ += ns;
    if (at_ns_ > now_ns_) return;
    at_ns_ = kNever_ns;
    callback_();
  }

 private:
  static constexpr uint64_t kNever_ns = UINT64_MAX;

  class OnlyTimer final : public Timer {
   public:
    OnlyTimer(PassingClock& clock, std::function<void()> callback) : clock_(clock) {
      clock_.callback_ = std::move(callback);
    }
    void arm(uint64_t delay_ns) override { clock_.at_ns_ = clock_.now_ns_ + delay_ns; }
    void disarm() override { clock_.at_ns_ = kNever_ns; }
    [[nodiscard]] bool armed() const override { return clock_.at_ns_ != kNever_ns; }

   private:
    PassingClock& clock_;
  };

  uint64_t now_ns_ = 1;
  uint64_t at_ns_ = kNever_ns;
  std::function<void()> callback_;
};

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

TEST(Events, EachIsToldSoonToOneWhoWaitsAgain) {
  PassingClock clock;
  Events events(clock);
  int told = 0;
  for (int each = 1; each <= 3; ++each) {
    ASSERT_TRUE(events.wait([&told] { ++told; }));
    clock.pass(kSecond_ns);
    events.tell("e");
    EXPECT_EQ(told, each - 1) << "more may follow at once";
    clock.pass(limits::kEventGather_ns);
    EXPECT_EQ(told, each) << "or only when nothing has happened for a while";
    events.tell("e");  // while nobody waits
  }
}

}  // namespace
}  // namespace twinblock
