// What was on no link, or not as long as it is, is no measure of what a link brings.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "plan_support.h"
#include "twinblock/latency_verdict.h"
#include "twinblock/plan.h"
#include "twinblock/plan_changes.h"

namespace twinblock {
namespace {

using nlohmann::json;

// A minute that holds an outage: nine of ten writes went to no peer, and their bytes over no link.
json after_an_outage() {
  json mixed = latency_of({.software_ns = 112'000 - 49'000, .wire_ns = 49'000});
  mixed["window"] = "60s";
  mixed["load"]["simplex_writes"] = mixed["classes"][0]["writes"].get<uint64_t>() * 9 / 10;
  return mixed;
}

TEST(Workload, IsNotOfWhatWentToNoPeer) {
  EXPECT_FALSE(workload_of(after_an_outage(), 0));
  EXPECT_FALSE(measured_limits(after_an_outage()));
  for (const auto& [key, all] : {std::pair{"simplex_writes", "writes"}, {"simplex_bytes", "bytes"}}) {
    json mixed = latency_of({});
    mixed["load"][key] = mixed["classes"][0][all].get<uint64_t>() / 10;
    EXPECT_FALSE(workload_of(mixed, 0)) << key;
    mixed["load"][key] = mixed["classes"][0][all].get<uint64_t>() / 30;
    EXPECT_TRUE(workload_of(mixed, 0)) << key << ": a few spoil nothing";
  }
  // Few that waited long, until the peer was given up.
  json waited = latency_of({});
  waited["load"]["simplex_ns"] = waited["classes"][0]["total"]["sum_ns"].get<uint64_t>() / 5;
  EXPECT_FALSE(workload_of(waited, 0));
}

TEST(Plan, SaysThatTooMuchWentToNoPeerAndWhatToDo) {
  json mixed = after_an_outage();
  const Result<json> minute = plan_of(mixed, json::object(), {});
  ASSERT_FALSE(minute);
  EXPECT_NE(minute.error().what.find("90% of the writes of this window were made in simplex"), std::string::npos)
      << minute.error().what;
  EXPECT_NE(minute.error().action.find("plan r0 --window 10s"), std::string::npos) << minute.error().action;
  mixed["window"] = "start";
  EXPECT_NE(plan_of(mixed, json::object(), {}).error().action.find("plan r0 --window 60s"), std::string::npos);
  // All of it: there is no peer now.
  mixed["load"]["simplex_writes"] = mixed["classes"][0]["writes"];
  EXPECT_NE(plan_of(mixed, json::object(), {}).error().action.find("in duplex"), std::string::npos);
}

std::string verdict_of(const json& latency) {
  std::string text;
  for (const std::string& each : latency_verdict(latency)) text += each + "\n";
  return text;
}

// Else a link that has a good part of its rate left would be called full, and nothing expected of a faster one.
TEST(LatencyVerdict, SaysNothingOfLinksWhereTooMuchWentToNoPeer) {
  json mixed = after_an_outage();
  // The last: a loopback's, of which the samples have seen nothing.
  for (const uint64_t wire_ns : {49'000u, 2'000u, 0u}) {
    mixed["classes"][0]["stages"]["wire"]["sum_ns"] = mixed["classes"][0]["writes"].get<uint64_t>() * wire_ns;
    const std::string said = verdict_of(mixed);
    EXPECT_NE(said.find("which says nothing of links"), std::string::npos) << said;
    EXPECT_NE(said.find("latency r0 --window 10s"), std::string::npos) << said;
    for (const char* wrong : {"The link is full", "hardly help", "would save", "not help"})
      EXPECT_EQ(said.find(wrong), std::string::npos) << said;
  }
}

// An image is copied over 1 Gbit/s, 1 MiB at a time, of which six are zeroes in ten: the line has a quarter of its time
// left, and the client waits for it all the same.
TEST(Plan, OfZeroesFillsALinkWithWhatTravels) {
  Clients image{.bytes = 1 << 20, .pause_ns = 300'000, .software_ns = 900'000};
  image.wire_ns = whole(0.4 * line_ns(image, kGbit));
  json latency = latency_of(image);
  latency["load"]["window_ns"] = 10 * kSecond_ns;
  latency["wire_part"] = 0.4;
  latency["zero_part"] = 0.6;
  EXPECT_EQ(latency_verdict(latency)[0].find("The link is full"), std::string::npos) << latency_verdict(latency)[0];
  PlanWishes wishes;
  wishes.links = {{"2 Gbit/s", 2 * kGbit, 0}};
  const json plan = plan_of(latency, {{"compression", {{"mode", "off"}}}}, wishes).value();
  EXPECT_NEAR(plan["now"]["busy_share"].get<double>(), 0.75, 0.02);
  EXPECT_NEAR(plan["links"][0]["bytes_per_s"].get<double>(), 355e6, 20e6);
  EXPECT_NE(plan["recommendation"].get<std::string>().find("A faster link will help"), std::string::npos)
      << plan["recommendation"];
}

TEST(Plan, OfZeroesIsOfNoCompression) {
  json latency = latency_of({});
  latency["wire_part"] = 0.4;
  latency["zero_part"] = 1 - 0.4;
  const auto change = [&latency](const json& compression, double ratio) {
    for (const PlannedChange& each :
         changes_of(*workload_of(latency, 0), latency, {{"compression", compression}}, {}, ratio))
      if (each.title.find("compression") != std::string::npos) return std::optional(each);
    return std::optional<PlannedChange>();
  };
  EXPECT_FALSE(change({{"mode", "off"}}, 0));
  EXPECT_FALSE(change({{"mode", "auto"}}, 0)) << "nothing was worth it";
  // What compresses is the rest.
  EXPECT_NEAR(change({{"mode", "off"}}, 2)->change.wire_part, 0.2, 1e-6);
  latency["wire_part"] = 0.1;
  EXPECT_EQ(change({{"mode", "on"}}, 0)->title, "no compression");
  EXPECT_NEAR(change({{"mode", "on"}}, 0)->change.wire_part, 0.4, 1e-6);
}

}  // namespace
}  // namespace twinblock
