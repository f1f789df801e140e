#include "twinblock/wait.h"

#include <gtest/gtest.h>

#include "base/units.h"
#include "twinblock/exit_status.h"

namespace twinblock {
namespace {

using nlohmann::json;

json status(const std::string& state, const std::string& role = "primary") {
  return json{{"volume", "r0"},
              {"node", "alpha"},
              {"role", role},
              {"state", state},
              {"status", "Beta is away."},
              {"action", "Start it."},
              {"peer", {{"connected", state == "duplex"}}},
              {"resync", {{"active", state == "resync"}}}};
}

// A node whose answers are given, and a clock that only sleeping moves.
struct Script {
  std::vector<Result<json>> answers;  // the last one is repeated
  size_t polls = 0;
  size_t reports = 0;
  uint64_t now_ns = 1000;

  Result<json> run(const std::string& goal, uint64_t timeout_ns) {
    return wait_for(goal, {timeout_ns, false}, make_actions());
  }
  Result<json> run_verify() { return wait_for_verification(make_actions()); }

  WaitActions make_actions() {
    WaitActions actions;
    actions.poll = [this] { return answers[std::min(polls++, answers.size() - 1)]; };
    actions.report = [this](const json&) { ++reports; };
    actions.now_ns = [this] { return now_ns; };
    actions.sleep = [this](uint64_t ns) { now_ns += ns; };
    return actions;
  }
};

TEST(Wait, EndsWhenTheGoalIsReached) {
  Script script{{status("simplex"), status("resync"), status("duplex"), status("simplex")}};
  const Result<json> result = script.run("duplex", 60 * kSecond_ns);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result.value()["state"], "duplex");
  EXPECT_EQ(script.polls, 3u);
  EXPECT_EQ(script.reports, 3u);
  EXPECT_EQ(script.now_ns, 1000 + 400 * kMillisecond_ns);
}

TEST(Wait, TimesOutWithTheLastStateAndWhatToDo) {
  Script script{{status("simplex")}};
  const Result<json> result = script.run("duplex", kSecond_ns);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, kExitTimedOut);
  EXPECT_EQ(result.error().what,
            "not duplex after 1.00 s (--timeout): state simplex, role primary. Beta is away.");
  EXPECT_EQ(result.error().action, "Start it.");
  EXPECT_EQ(script.now_ns, 1000 + kSecond_ns);
}

json copied(uint64_t bytes, uint64_t of = 10) {
  json answer = status("resync");
  answer["resync"]["bytes_done"] = bytes;
  answer["resync"]["bytes_total"] = of;
  return answer;
}

TEST(Wait, GoesOnWhileAResyncDoesWhereThatIsWished) {
  Script script{{status("simplex"), copied(1), copied(1), copied(1), copied(1), copied(2), copied(3), status("simplex"),
                 copied(1, 9), copied(2, 9), copied(2, 9)}};
  const Result<json> result = wait_for("duplex", {kSecond_ns, true}, script.make_actions());
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, kExitTimedOut);
  EXPECT_EQ(result.error().what.find("not duplex after 1.00 s in which the resync got no further: state resync"), 0u);
  EXPECT_EQ(script.now_ns, 1000 + 9 * 200 * kMillisecond_ns + kSecond_ns) << "from the second byte of the second one on";
  Script resumed{{copied(5), copied(6), status("simplex"), copied(0, 4), copied(1, 4), copied(1, 4)}};
  EXPECT_FALSE(wait_for("duplex", {kSecond_ns, true}, resumed.make_actions()).ok());
  EXPECT_EQ(resumed.now_ns, 1000 + 4 * 200 * kMillisecond_ns + kSecond_ns) << "cut off, it goes on with what is left";
  Script limited{{copied(1), copied(2), copied(3), copied(4), copied(5), copied(6), copied(7), copied(8)}};
  EXPECT_FALSE(limited.run("duplex", kSecond_ns).ok());
  EXPECT_EQ(limited.now_ns, 1000 + kSecond_ns) << "who says how long is taken at his word";
}

// Clients wrote while the link was cut, or the source is a new process, which knows less of what is done.
TEST(Wait, MeasuresAResyncAnewThatBeginsWithMoreButNotAgainAndAgain) {
  for (const uint64_t more : {10, 40}) {
    Script script{{copied(6), status("simplex"), copied(0, more), copied(1, more), copied(2, more), copied(3, more),
                   copied(4, more), copied(5, more), copied(5, more), copied(5, more), status("duplex")}};
    EXPECT_TRUE(wait_for("duplex", {kSecond_ns, true}, script.make_actions()).ok()) << more;
  }
  Script unseen{{copied(6), copied(0, 40), copied(1, 40), copied(2, 40), copied(3, 40), copied(4, 40), copied(5, 40),
                 status("duplex")}};
  EXPECT_TRUE(wait_for("duplex", {kSecond_ns, true}, unseen.make_actions()).ok()) << "no look fell between the two";
  Script again;
  for (int i = 0; i < 100; ++i)
    again.answers.insert(again.answers.end(), {status("simplex"), copied(0), copied(1), copied(2)});
  EXPECT_FALSE(wait_for("duplex", {kSecond_ns, true}, again.make_actions()).ok());
  EXPECT_LT(again.polls, 40u);
}

TEST(Wait, LooksOnceWithoutATimeout) {
  Script script{{status("duplex")}};
  EXPECT_TRUE(script.run("duplex", 0).ok());
  Script other{{status("simplex")}};
  EXPECT_FALSE(other.run("duplex", 0).ok());
  EXPECT_EQ(other.polls, 1u);
}

TEST(Wait, WaitsForANodeThatIsStarting) {
  Script script{{unreachable("nobody"), unreachable("nobody"), status("duplex")}};
  EXPECT_TRUE(script.run("duplex", kSecond_ns).ok());
  Script never{{unreachable("nobody")}};
  EXPECT_EQ(never.run("duplex", kSecond_ns).error().code, kExitUnreachable);
  Script gone{{status("simplex"), unreachable("nobody")}};
  EXPECT_EQ(gone.run("duplex", kSecond_ns).error().code, kExitTimedOut);
}

TEST(Wait, EndsAtOnceWhenTheNodeRefuses) {
  Script script{{refused("no such verb")}};
  const Result<json> result = script.run("duplex", kSecond_ns);
  EXPECT_EQ(result.error().code, kExitRefused);
  EXPECT_EQ(script.polls, 1u);
}

json verifying(bool active, const std::string& ended = "") {
  json answer = status("duplex");
  answer["verify"] = {{"active", active}, {"ended", ended}, {"bytes_done", 4096}};
  return answer;
}

TEST(WaitForVerification, EndsWithItHoweverItEnds) {
  Script script{
      {verifying(true), unreachable("busy"), verifying(true), verifying(false, "complete")}};
  const Result<json> result = script.run_verify();
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result.value()["ended"], "complete");
  EXPECT_EQ(script.reports, 2u);
  Script stopped{{verifying(false, "stopped by the operator")}};
  EXPECT_EQ(stopped.run_verify().value()["ended"], "stopped by the operator");
}

TEST(WaitForVerification, DoesNotOutliveTheNodesMemoryOfIt) {
  Script restarted{{verifying(true), status("waiting")}};
  EXPECT_EQ(restarted.run_verify().error().code, kExitRefused);
  Script gone{{verifying(true), unreachable("nobody")}};
  EXPECT_EQ(gone.run_verify().error().code, kExitUnreachable);
  EXPECT_GT(gone.now_ns, 10 * kSecond_ns);
}

TEST(WaitGoals, EachMeansOneThing) {
  EXPECT_TRUE(wait_goal_reached(status("duplex"), "duplex"));
  EXPECT_TRUE(wait_goal_reached(status("duplex"), "connected"));
  EXPECT_FALSE(wait_goal_reached(status("simplex"), "connected"));
  EXPECT_FALSE(wait_goal_reached(status("diskless"), "duplex")) << "one replica is not two";
  for (const char* state : {"duplex", "connected", "degraded"})
    EXPECT_TRUE(wait_goal_reached(status(state, "secondary"), "whole")) << state;
  for (const char* state : {"resync", "connecting", "diskless", "simplex", "waiting", "refused"})
    EXPECT_FALSE(wait_goal_reached(status(state, "secondary"), "whole")) << state;
  EXPECT_TRUE(wait_goal_reached(status("simplex"), "simplex"));
  EXPECT_TRUE(wait_goal_reached(status("resync"), "resync"));
  EXPECT_TRUE(wait_goal_reached(status("duplex", "secondary"), "secondary"));
  EXPECT_FALSE(wait_goal_reached(status("duplex", "secondary"), "primary"));
  json idle = status("connected", "secondary");
  EXPECT_FALSE(wait_goal_reached(idle, "promotable"));
  idle["promotable"] = true;
  EXPECT_TRUE(wait_goal_reached(idle, "promotable"));
  EXPECT_TRUE(wait_goal_reached(status("duplex", "primary"), "promotable")) << "it is already";
  for (const std::string& goal : wait_goals()) {
    EXPECT_FALSE(wait_goal_reached(json::object(), goal)) << goal;
    EXPECT_FALSE(wait_goal_reached(json(), goal)) << goal;
  }
}

TEST(WaitTimeout, TakesDurationsAndPlainSeconds) {
  EXPECT_EQ(parse_wait_timeout("60s"), 60 * kSecond_ns);
  EXPECT_EQ(parse_wait_timeout("500ms"), 500 * kMillisecond_ns);
  EXPECT_EQ(parse_wait_timeout("3"), 3 * kSecond_ns);
  EXPECT_EQ(parse_wait_timeout("0.5"), 500 * kMillisecond_ns);
  for (const char* text : {"", "soon", "-1", "1x"}) EXPECT_FALSE(parse_wait_timeout(text)) << text;
}

}  // namespace
}  // namespace twinblock
