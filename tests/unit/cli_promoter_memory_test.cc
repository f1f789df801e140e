#include "twinblock/promoter_memory.h"

#include <gtest/gtest.h>

namespace twinblock {
namespace {

using nlohmann::json;

constexpr uint64_t kBegin_ns = 1000 * kSecond_ns;
constexpr uint64_t kWall_ns = 1'790'000'000 * kSecond_ns;

json status_of(const std::string& role, bool connected = true, const std::string& peer_role = "secondary") {
  return {{"volume", "r0"},
          {"node", "alpha"},
          {"role", role},
          {"state", "connected"},
          {"data", "current"},
          {"term", 7},
          {"resumes", false},
          {"pid", 4711},
          {"uptime_s", 12.5},
          {"generation", {{"current", "0123456789abcdef"}}},
          {"witness", {{"kind", "etcd"}, {"name", "etcd at http://h:1"}}},
          {"peer",
           {{"name", "beta"},
            {"connected", connected},
            {"role", peer_role},
            {"data", connected ? "current" : "current when last heard"},
            {"term", 6},
            {"silent_ms", 1500}}}};
}

PromoterMemory remembering(const json& status) {
  PromoterMemory memory;
  memory.see(promoter_view(status), kBegin_ns);
  return memory;
}

TEST(PromoterMemory, KnowsWhetherItsNodeWentAsPrimary) {
  for (const char* role : {"primary", "secondary"}) {
    PromoterMemory memory = remembering(status_of(role));
    for (int times = 0; times < 2; ++times) memory.see(std::nullopt, kBegin_ns + kSecond_ns);
    EXPECT_EQ(memory.facts().gone_as_primary, role == std::string("primary")) << role;
  }
  json status = status_of("secondary");
  status["resumes"] = true;
  PromoterMemory memory = remembering(status);
  memory.see(std::nullopt, kBegin_ns + kSecond_ns);
  EXPECT_TRUE(memory.facts().gone_as_primary);
}

json role_event(const std::string& node, const std::string& role, uint64_t wall_ns) {
  return {{"number", 1}, {"event", "role"}, {"node", node}, {"role", role}, {"time", format_timestamp(wall_ns)}};
}

TEST(PromoterView, IsReadFromTheStatus) {
  const PromoterView view = promoter_view(status_of("secondary"));
  EXPECT_EQ(view.volume + view.node + view.peer, "r0alphabeta");
  EXPECT_TRUE(view.witness && view.able && view.peer_connected && view.peer_able);
  EXPECT_FALSE(view.primary || view.peer_primary || view.resumes);
  EXPECT_EQ(view.term, 7u);
  EXPECT_EQ(view.peer_term, 6u);
  EXPECT_EQ(view.uptime_ns, 12'500 * kMillisecond_ns);
  EXPECT_EQ(view.silent_ns, 1'500 * kMillisecond_ns);
  EXPECT_TRUE(promoter_view(status_of("primary")).primary);
  EXPECT_TRUE(promoter_view(status_of("secondary", true, "primary")).peer_primary);
}

// Nobody is asked where the files of the two name witnesses of different kinds: then there is none.
TEST(PromoterView, AWitnessThatIsOffCountsForNothing) {
  json status = status_of("secondary");
  for (const char* state : {"agreed", "unasked", "unreachable", "refused"}) {
    status["witness"]["state"] = state;
    EXPECT_TRUE(promoter_view(status).witness_counts) << state;
  }
  status["witness"]["state"] = "off";
  EXPECT_FALSE(promoter_view(status).witness_counts);
}

// A peer that was primary when it was last heard is none that serves now.
TEST(PromoterView, AnAbsentPeerIsNeitherPrimaryNorAble) {
  json status = status_of("secondary", false, "primary");
  status["peer"]["silent_ms"] = nullptr;
  status["resumes"] = true;
  const PromoterView view = promoter_view(status);
  EXPECT_FALSE(view.peer_connected || view.peer_primary || view.peer_able);
  EXPECT_TRUE(view.resumes);
  EXPECT_FALSE(view.silent_ns.has_value());
}

TEST(PromoterView, WhoCantServeIsNotAble) {
  for (const char* data : {"blank", "inconsistent", "failed"}) {
    json status = status_of("secondary");
    status["data"] = data;
    EXPECT_FALSE(promoter_view(status).able) << data;
  }
  // Two that are kept apart: somebody's writes may have to be given up first.
  for (const char* state : {"refused", "failed"}) {
    json status = status_of("secondary", false);
    status["state"] = state;
    EXPECT_FALSE(promoter_view(status).able) << state;
  }
}

TEST(PromoterView, ANodeThatKnowsOfNoWitnessHasNone) {
  json status = status_of("secondary");
  status.erase("witness");
  EXPECT_FALSE(promoter_view(status).witness);
  status["witness"] = nullptr;
  EXPECT_FALSE(promoter_view(status).witness);
  status["witness"] = {{"kind", "command"}};
  EXPECT_TRUE(promoter_view(status).witness);
}

TEST(PromoterMemory, TimeCountsFromTheLastChangeBetweenTheTwo) {
  PromoterMemory memory = remembering(status_of("secondary"));
  memory.see(promoter_view(status_of("secondary")), kBegin_ns + kSecond_ns);
  EXPECT_EQ(memory.facts().since_ns, kBegin_ns);
  memory.see(promoter_view(status_of("secondary", false)), kBegin_ns + 2 * kSecond_ns);
  EXPECT_EQ(memory.facts().since_ns, kBegin_ns + 2 * kSecond_ns);
  memory.see(std::nullopt, kBegin_ns + 3 * kSecond_ns);
  EXPECT_EQ(memory.facts().since_ns, kBegin_ns + 3 * kSecond_ns);
}

TEST(PromoterMemory, ARefusalHoldsUntilSomethingChanges) {
  PromoterMemory memory = remembering(status_of("secondary", false));
  memory.promotion_refused(PromotionRefusal::kLater, kBegin_ns);
  memory.see(promoter_view(status_of("secondary", false)), kBegin_ns + 1);
  memory.promotion_refused(PromotionRefusal::kForGood, kBegin_ns + 1);
  EXPECT_EQ(memory.facts().refusal, PromotionRefusal::kForGood);
  EXPECT_EQ(memory.facts().refused.times, 2u);
  json mended = status_of("secondary", false);
  mended["state"] = "waiting";
  memory.see(promoter_view(mended), kBegin_ns + 2);
  EXPECT_FALSE(memory.facts().refusal.has_value());
  EXPECT_EQ(memory.facts().refused.times, 0u);
}

// Until the node is primary, or has been demoted. Refused demotions are tried again ever later meanwhile.
TEST(PromoterMemory, APromotionThatWasNotAnsweredMayBeCarriedOutYet) {
  PromoterMemory memory = remembering(status_of("secondary", false));
  const auto see = [&memory](const char* role) { memory.see(promoter_view(status_of(role, false)), kBegin_ns + 1); };
  memory.promotion_unanswered();
  memory.promotion_refused(PromotionRefusal::kLater, kBegin_ns);
  memory.demotion_refused(kBegin_ns);
  see("secondary");
  EXPECT_TRUE(memory.facts().promotion_unanswered);
  EXPECT_EQ(memory.facts().demotion_refused.times, 1u);
  memory.demoted();
  see("secondary");
  EXPECT_FALSE(memory.facts().promotion_unanswered);
  EXPECT_EQ(memory.facts().demotion_refused.times, 0u);
  memory.promotion_unanswered();
  see("primary");
  EXPECT_FALSE(memory.facts().promotion_unanswered);
}

// Figures move all the time: they are no reason to ask again.
TEST(PromoterMemory, FiguresAreNoChange) {
  PromoterMemory memory = remembering(status_of("secondary", false));
  memory.promotion_refused(PromotionRefusal::kForGood, kBegin_ns);
  json later = status_of("secondary", false);
  later["uptime_s"] = 99;
  later["peer"]["silent_ms"] = 99'000;
  later["witness"]["state"] = "unreachable";
  memory.see(promoter_view(later), kBegin_ns + 1);
  EXPECT_EQ(memory.facts().refusal, PromotionRefusal::kForGood);
}

TEST(PromoterMemory, DemotionsAreHeardOf) {
  PromoterMemory memory = remembering(status_of("secondary"));
  memory.hear(role_event("alpha", "secondary", kWall_ns - 4 * kSecond_ns), kWall_ns, kBegin_ns);
  memory.hear(role_event("beta", "secondary", kWall_ns - kSecond_ns), kWall_ns, kBegin_ns);
  EXPECT_EQ(memory.facts().demoted_ns, kBegin_ns - 4 * kSecond_ns);
  EXPECT_EQ(memory.facts().peer_demoted_ns, kBegin_ns - kSecond_ns);
  memory.hear(role_event("beta", "primary", kWall_ns), kWall_ns, kBegin_ns);
  EXPECT_FALSE(memory.facts().peer_demoted_ns.has_value());
  memory.forget_events();
  EXPECT_FALSE(memory.facts().demoted_ns.has_value());
}

TEST(PromoterMemory, EventsOfOtherKindsOrWithoutATimeAreNone) {
  PromoterMemory memory = remembering(status_of("secondary"));
  json event = role_event("alpha", "secondary", kWall_ns);
  event["event"] = "session-lost";
  memory.hear(event, kWall_ns, kBegin_ns);
  event = role_event("alpha", "secondary", kWall_ns);
  event["time"] = "yesterday";
  memory.hear(event, kWall_ns, kBegin_ns);
  EXPECT_FALSE(memory.facts().demoted_ns.has_value());
  // Of a clock that has been set back since: it is one of now.
  memory.hear(role_event("alpha", "secondary", kWall_ns + 9 * kSecond_ns), kWall_ns, kBegin_ns);
  EXPECT_EQ(memory.facts().demoted_ns, kBegin_ns);
}

// Where the node's events can't be had, its roles still can.
TEST(PromoterMemory, ADemotionIsSeenWithoutEvents) {
  PromoterMemory memory = remembering(status_of("primary"));
  memory.see(promoter_view(status_of("secondary")), kBegin_ns + kSecond_ns);
  EXPECT_EQ(memory.facts().demoted_ns, kBegin_ns + kSecond_ns);
}

TEST(PromoterMemory, TheTargetIsWhatCameOfIt) {
  PromoterMemory memory = remembering(status_of("primary"));
  EXPECT_EQ(memory.facts().target, TargetState::kUnknown);
  memory.target_starts();
  EXPECT_EQ(memory.facts().target, TargetState::kStarting);
  EXPECT_EQ(memory.facts().target_term, 7u);
  memory.target_started(false, false, kBegin_ns);
  EXPECT_EQ(memory.facts().target, TargetState::kUnknown);
  EXPECT_EQ(memory.facts().start_failed.times, 1u);
  memory.target_starts();
  memory.target_started(false, true, kBegin_ns);
  EXPECT_EQ(memory.facts().start_failed.times, 1u) << "it was not let finish";
  memory.target_stops();
  memory.target_stopped(false, kBegin_ns);
  EXPECT_EQ(memory.facts().target, TargetState::kUnknown);
  EXPECT_EQ(memory.facts().stop_failed.times, 1u);
  memory.target_stopped(true, kBegin_ns);
  EXPECT_EQ(memory.facts().target, TargetState::kStopped);
  EXPECT_EQ(memory.facts().stop_failed.times, 0u);
  memory.target_starts();
  memory.target_started(true, false, kBegin_ns);
  EXPECT_EQ(memory.facts().target, TargetState::kStarted);
  EXPECT_EQ(memory.facts().start_failed.times, 0u);
}

// A target that stops for long takes nothing of the time in which the node is to be demoted.
TEST(PromoterMemory, TheEndsTimeBeginsWhenTheTargetHasStopped) {
  PromoterMemory memory = remembering(status_of("primary"));
  memory.target_stopped(false, kBegin_ns);
  memory.demotion_refused(kBegin_ns);
  memory.end(kBegin_ns + kSecond_ns);
  EXPECT_EQ(memory.facts().stop_failed.times + memory.facts().demotion_refused.times, 0u);
  memory.end(kBegin_ns + 2 * kSecond_ns);
  EXPECT_EQ(memory.facts().ending_ns, kBegin_ns + kSecond_ns);
  memory.target_stopped(true, kBegin_ns + kEndWait_ns);
  EXPECT_EQ(memory.facts().ending_ns, kBegin_ns + kEndWait_ns);
}

TEST(PromoterMemory, ADemotionThatWasRefusedIsForgottenWithTheRole) {
  PromoterMemory memory = remembering(status_of("primary"));
  memory.demotion_refused(kBegin_ns);
  memory.see(promoter_view(status_of("primary")), kBegin_ns + 1);
  EXPECT_EQ(memory.facts().demotion_refused.times, 1u);
  memory.see(promoter_view(status_of("secondary")), kBegin_ns + 2);
  EXPECT_EQ(memory.facts().demotion_refused.times, 0u);
}

}  // namespace
}  // namespace twinblock
