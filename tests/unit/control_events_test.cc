// The verb `events`, and waiting for the next one.
#include <gtest/gtest.h>

#include "control_support.h"

namespace twinblock {
namespace {

class EventsTest : public ControlTest {
 protected:
  // A request that may be answered later.
  void follow(uint64_t since) {
    handle_control_request(
        *engine_, facts_,
        R"({"verb":"events","args":{"wait":true,"since":)" + std::to_string(since) + "}}",
        [this](const std::string& line) { later_.push_back(json::parse(line)); });
  }
  json events(uint64_t since) {
    return ask(R"({"verb":"events","args":{"since":)" + std::to_string(since) + "}}")["result"];
  }
  [[nodiscard]] uint64_t last() const { return engine_->events().log().last(); }

  std::vector<json> later_;
};

TEST_F(EventsTest, TellWhatHappenedSinceTheStart) {
  const json told = ask(R"({"verb":"events"})")["result"];
  EXPECT_EQ(told["volume"], "r0");
  EXPECT_EQ(told["node"], "alpha");
  EXPECT_EQ(told["dropped"], 0);
  EXPECT_NE(told["instance"], "");
  ASSERT_GE(told["events"].size(), 1u);
  EXPECT_EQ(told["last"], told["events"].size());
  const json& first = told["events"][0];
  EXPECT_EQ(first["number"], 1);
  EXPECT_EQ(first["event"], "started");
  EXPECT_EQ(first["initialised"], "no");
  EXPECT_EQ(first["time"], "2023-11-14T22:13:20.000Z");
  EXPECT_TRUE(events(last())["events"].empty());
}

TEST_F(EventsTest, ComeAtOnceToOneWhoIsBehindAndToOneOfAnotherProcess) {
  follow(0);
  ASSERT_EQ(later_.size(), 1u);
  EXPECT_FALSE(later_[0]["result"]["events"].empty());
  follow(last() + 1000);
  ASSERT_EQ(later_.size(), 2u) << "a number of a process before this one";
  EXPECT_TRUE(later_[1]["result"]["events"].empty());
}

TEST_F(EventsTest, ComeToOneWhoWaits) {
  const uint64_t before = last();
  follow(before);
  EXPECT_TRUE(later_.empty());
  EXPECT_TRUE(ask(R"({"verb":"resync","args":{"pace":"pause"}})")["ok"].get<bool>());
  EXPECT_EQ(events(before)["events"][0]["event"], "resync-pace");
  engine_->shut_down(false, [] {});
  ASSERT_EQ(later_.size(), 1u);
  const json& told = later_[0]["result"]["events"];
  EXPECT_EQ(told.front()["event"], "resync-pace");
  EXPECT_EQ(told.back()["event"], "stopped") << "nothing is lost at the end";
  follow(last());
  EXPECT_EQ(later_.size(), 2u) << "nobody waits for a node that has stopped";
}

TEST_F(EventsTest, AreNotWaitedForByAnyNumberOfClients) {
  const uint64_t before = last();
  for (size_t i = 0; i < limits::kEventWaitersMax; ++i) follow(before);
  EXPECT_TRUE(later_.empty());
  follow(before);
  ASSERT_EQ(later_.size(), 1u);
  EXPECT_FALSE(later_[0]["ok"].get<bool>());
  EXPECT_NE(later_[0]["action"], "");
}

TEST_F(EventsTest, OfOneAnswerAreFew) {
  for (int i = 0; i < 1200; ++i) ask(R"({"verb":"resync","args":{"pace":"pause"}})");
  json told = events(0);
  EXPECT_EQ(told["events"].size(), limits::kEventsPerAnswer);
  EXPECT_EQ(told["dropped"], last() - limits::kEventsKept);
  uint64_t seen = 0;
  while (!told["events"].empty()) {
    seen += told["events"].size();
    told = events(told["events"].back()["number"].get<uint64_t>());
  }
  EXPECT_EQ(seen, limits::kEventsKept);
}

}  // namespace
}  // namespace twinblock
