// What is foretold of other links, and how it is told. The clients here are made up, so that the truth is known.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "plan_support.h"
#include "twinblock/exit_status.h"
#include "twinblock/latency_verdict.h"
#include "twinblock/plan.h"
#include "twinblock/seal_cost.h"

namespace twinblock {
namespace {

using nlohmann::json;

TEST(Forecast, OfWhatIsThereIsWhatIsThere) {
  Clients cable;
  cable.wire_ns = whole(line_ns(cable, kGbit)) + 20'000;  // 20 us of distance
  cable.pause_ns = 30'000;
  const Workload now = workload(cable);
  EXPECT_EQ(now.clients, 1);
  const Forecast same = forecast(now, now.line_bytes_per_s, 0);
  const Forecast measured = as_measured(now);
  EXPECT_NEAR(same.mean_ns, measured.mean_ns, 1'000);
  EXPECT_NEAR(same.bytes_per_s, measured.bytes_per_s, 0.01 * measured.bytes_per_s);
  EXPECT_NEAR(same.classes[0].p99_ns, measured.classes[0].p99_ns, 2'000);
}

// On a cable a lone write is shorter by what it is on the line for, and a little as the processors sleep less.
TEST(Forecast, OfALoneWriterOnACable) {
  Clients cable;
  cable.wire_ns = whole(line_ns(cable, kGbit));
  const Forecast ten = forecast(workload(cable), payload_bytes_per_s(10 * kGbit), 0);
  EXPECT_NEAR(ten.mean_ns, 92'000 + line_ns(cable, 10 * kGbit), 1'000);
  const Forecast slow = forecast(workload(cable), payload_bytes_per_s(0.2 * kGbit), 0);
  EXPECT_NEAR(slow.mean_ns, 120'000 + line_ns(cable, 0.2 * kGbit), 2'000);
  const Forecast far = forecast(workload(cable), payload_bytes_per_s(kGbit), 1'000'000);
  EXPECT_NEAR(far.mean_ns, 1'100'000 + line_ns(cable, kGbit), 2'000);
}

// Behind a token bucket the link works off what it saved: only what exceeds the rest of the write shows.
TEST(Forecast, OfALoneWriterBehindATokenBucket) {
  Clients bucket;
  bucket.pause_ns = 40'000;
  bucket.wire_ns = whole(line_ns(bucket, kGbit)) - 140'000;
  const Forecast two = forecast(workload(bucket), payload_bytes_per_s(2 * kGbit), 0);
  EXPECT_NEAR(two.mean_ns, line_ns(bucket, 2 * kGbit), 1'000);
  const Forecast ten = forecast(workload(bucket), payload_bytes_per_s(10 * kGbit), 0);
  EXPECT_NEAR(ten.mean_ns, 131'000, 1'000) << "the software and the client are all that is left";
}

// While a lone write is on a slow line both hosts sleep, and take longer for the rest of it. Where there are others,
// they don't.
TEST(Forecast, OfALoneWriterWhoseHostsSleepLess) {
  Clients slow{.bytes = 131'072, .pause_ns = 200'000, .software_ns = 200'000, .rate_bits_per_s = 200'000'000};
  slow.wire_ns = whole(line_ns(slow, 0.2 * kGbit));
  const Forecast ten = forecast(workload(slow), payload_bytes_per_s(10 * kGbit), 0);
  EXPECT_LT(ten.mean_ns, 0.8 * 400'000 + line_ns(slow, 10 * kGbit));
  EXPECT_GT(ten.mean_ns, 0.6 * 400'000 + line_ns(slow, 10 * kGbit));
  // A part of the pause is the client's own.
  EXPECT_LT(ten.classes[0].p50_ns, ten.mean_ns - 0.2 * 0.6 * 200'000);
  slow.clients = 8;
  slow.queue_ns = whole(7 * line_ns(slow, 0.2 * kGbit)) - 400'000;
  EXPECT_GT(forecast(workload(slow), payload_bytes_per_s(100 * kGbit), 0).mean_ns, 350'000);
}

TEST(Forecast, OfAFullLinkIsItsRateUntilTheHostsAreTheLimit) {
  Clients many;
  many.clients = 8;
  many.rate_bits_per_s = 200'000'000;
  const double line = line_ns(many, 0.2 * kGbit);
  many.wire_ns = whole(line);
  many.queue_ns = whole(7 * line) - 100'000;
  const Workload now = workload(many);
  EXPECT_GT(as_measured(now).busy, kFull);
  const Forecast doubled = forecast(now, payload_bytes_per_s(0.4 * kGbit), 0);
  EXPECT_NEAR(doubled.bytes_per_s, payload_bytes_per_s(0.4 * kGbit), 1e5);
  EXPECT_NEAR(doubled.mean_ns, 4 * line, 0.01 * line);
  EXPECT_NEAR(doubled.classes[0].p99_ns, 6 * line, 0.1 * line) << "shared as unevenly as before";
  const Forecast fast = forecast(now, payload_bytes_per_s(100 * kGbit), 0);
  EXPECT_NEAR(fast.mean_ns, 100'000 + line_ns(many, 100 * kGbit), 5'000);
  EXPECT_LT(fast.busy, kFull);
}

// The length of the way stays, whatever the rate.
TEST(Forecast, OfAFarLinkThatIsFull) {
  Clients far;
  far.clients = 8;
  far.rate_bits_per_s = 200'000'000;
  far.way_ns = 10'000'000;
  const double line = line_ns(far, 0.2 * kGbit);
  far.wire_ns = whole(line) + far.way_ns;
  far.queue_ns = whole(7 * line) - 100'000 - far.way_ns;
  const Workload now = workload(far);
  EXPECT_GT(as_measured(now).busy, kFull);
  const Forecast fast = forecast(now, payload_bytes_per_s(100 * kGbit), 0);
  EXPECT_NEAR(fast.mean_ns, 10'100'000 + line_ns(far, 100 * kGbit), 50'000);
}

TEST(Forecast, KnowsClientsThatPauseByHowManyThereAreAtTheMost) {
  Clients pausing;
  pausing.clients = 8;
  pausing.bytes = 4096;
  pausing.rate_bits_per_s = 10'000'000'000;
  pausing.pause_ns = 60'000;
  const Workload now = workload(pausing);
  EXPECT_EQ(now.clients, 8);
  EXPECT_NEAR(now.pause_ns, 60'000, 1'000);
  const Forecast slow = forecast(now, payload_bytes_per_s(0.2 * kGbit), 0);
  EXPECT_NEAR(slow.bytes_per_s, payload_bytes_per_s(0.2 * kGbit), 1e5);
}

// Four writes of 16 KiB at once, 250 times a second, over 1 Gbit/s: the link is full, for an eighth of the time.
TEST(Plan, SaysWhatIsMovedOverAllTheTimeAndWhatWhileClientsWrite) {
  Clients bursts{.clients = 4, .bytes = 16'384};
  bursts.wire_ns = whole(line_ns(bursts, kGbit));
  bursts.queue_ns = whole(3 * line_ns(bursts, kGbit)) - bursts.software_ns;
  json latency = latency_of(bursts);
  latency["load"]["window_ns"] = 80 * kSecond_ns;
  const json plan = plan_of(latency, json::object(), {}).value();
  const double line = payload_bytes_per_s(kGbit);
  EXPECT_NEAR(plan["now"]["bytes_per_s"].get<double>(), line / 8, 0.01 * line);
  EXPECT_NEAR(plan["now"]["busy_share"].get<double>(), 0.125, 0.01);
  EXPECT_NEAR(plan["now"]["classes"][0]["bytes_per_s"].get<double>(), line / 8, 0.01 * line);
  EXPECT_NEAR(plan["while_writing"]["bytes_per_s"].get<double>(), line, 0.01 * line);
  EXPECT_NEAR(plan["load"]["under_way_share"].get<double>(), 0.125, 0.001);
  EXPECT_NEAR(together(json::array({plan}))["bytes_per_s"].get<double>(), line / 8, 0.01 * line);
  const std::string text = plan_text(plan);
  EXPECT_EQ(text.find("the link is full now"), std::string::npos) << text;
  EXPECT_NE(text.find("while clients write, which is 12% of the"), std::string::npos) << text;
  // What is foretold is the same as without the quiet time.
  EXPECT_EQ(plan["links"], plan_of(latency_of(bursts), json::object(), {}).value()["links"]);
  EXPECT_EQ(plan["links"].size(), 5u);
}

// The model of what is there may be a little beside what was measured; a disk that is faster slows nothing down.
TEST(Plan, NoFasterDiskIsSlowerThanNow) {
  Clients many{.clients = 8, .software_ns = 300'000, .wire_ns = 100'000, .rate_bits_per_s = 10'000'000'000};
  json latency = latency_of(many);
  latency["load"]["busy_ns"] = 9 * kSecond_ns;  // more are under way than there are clients
  json& stages = latency["classes"][0]["stages"];
  stages["peer-disk"] = stages["peer-queue"];
  stages["peer-disk"]["sum_ns"] = stages["peer-queue"]["sum_ns"].get<uint64_t>() / 2;
  const json plan = plan_of(latency, json{{"peer", {{"name", "beta"}}}}, {}).value();
  const json& now = plan["while_writing"];
  for (const json& row : plan["changes"]) {
    if (row["title"] != "disk of beta, 2x") continue;
    EXPECT_GE(row["bytes_per_s"].get<double>(), now["bytes_per_s"].get<double>());
    EXPECT_LE(row["classes"][0]["p50_ns"].get<double>(), now["classes"][0]["p50_ns"].get<double>());
    EXPECT_LE(row["mean_ns"].get<double>(), now["mean_ns"].get<double>());
    return;
  }
  ADD_FAILURE() << plan["changes"].dump(1);
}

TEST(Workload, NeedsWritesThatWaitedForThePeerAndARate) {
  EXPECT_FALSE(workload_of(json::object(), 0));
  json local = latency_of({});
  local["classes"][0]["stages"] = json::object();  // the local disk was the later one
  EXPECT_FALSE(workload_of(local, 0));
  EXPECT_EQ(workload_of(latency_of({.rate_bits_per_s = 0}), 0)->line_bytes_per_s, 0);
  EXPECT_NEAR(workload_of(latency_of({.rate_bits_per_s = 0}), kGbit)->line_bytes_per_s,
              payload_bytes_per_s(kGbit), 1);
  // It never moves more than its rate, whatever a burst looked like; less, where that was seen.
  EXPECT_NEAR(workload({.carried_bytes_per_s = 200'000'000}).line_bytes_per_s, payload_bytes_per_s(kGbit), 1);
  EXPECT_NEAR(workload({.carried_bytes_per_s = 60'000'000}).line_bytes_per_s, 60e6, 1);
  json two = latency_of({});
  two["links"].push_back(two["links"][0]);
  EXPECT_NEAR(workload_of(two, 0)->line_bytes_per_s, 2 * payload_bytes_per_s(kGbit), 1);
  two["links"][1]["up"] = false;
  EXPECT_NEAR(workload_of(two, 0)->line_bytes_per_s, payload_bytes_per_s(kGbit), 1);
}

// It may carry nearly all that is written, so that the other one, whose rate is known, is hardly used.
TEST(Workload, NeedsTheRateOfEachLinkThatIsUp) {
  Clients fast{.clients = 4, .bytes = 16'384, .software_ns = 100'000, .wire_ns = 100'000};
  json two = latency_of(fast);
  two["links"].push_back(two["links"][0]);
  two["links"][1]["name"] = "fast";
  two["links"][1]["rate_bits_per_s"] = 0;
  EXPECT_EQ(workload_of(two, 0)->line_bytes_per_s, 0);
  EXPECT_EQ(latency_verdict(two)[0].find("The link is full"), std::string::npos) << latency_verdict(two)[0];
  const Result<json> plan = plan_of(two, json::object(), {});
  ASSERT_FALSE(plan);
  EXPECT_NE(plan.error().what.find("the rate of link fast is not known"), std::string::npos) << plan.error().what;
  EXPECT_NE(plan.error().action.find("the links are called together"), std::string::npos) << plan.error().action;
  EXPECT_NEAR(workload_of(two, 11 * kGbit)->line_bytes_per_s, payload_bytes_per_s(11 * kGbit), 1);
  two["links"][1]["carried_bytes_per_s"] = 500'000'000;
  EXPECT_NEAR(workload_of(two, 0)->line_bytes_per_s, payload_bytes_per_s(kGbit) + 500e6, 1);
  two["links"][1]["carried_bytes_per_s"] = 0;
  two["links"][1]["up"] = false;
  EXPECT_NEAR(workload_of(two, 0)->line_bytes_per_s, payload_bytes_per_s(kGbit), 1);
  two["links"][0]["up"] = false;
  const Result<json> none = plan_of(two, json::object(), {});
  ASSERT_FALSE(none);
  EXPECT_NE(none.error().what.find("no link is up"), std::string::npos) << none.error().what;
}

// Eight clients on a full link of 1 Gbit/s, whose writes take the hosts so long.
Clients eight_on_a_full_link(uint64_t software_ns) {
  Clients many{.clients = 8, .software_ns = software_ns};
  many.wire_ns = whole(line_ns(many, kGbit));
  many.queue_ns = whole(7 * line_ns(many, kGbit)) - many.software_ns;
  return many;
}

// Over 10 Gbit/s the hosts are nearly all that is left.
TEST(Plan, RecommendsNoFasterLinkThanShows) {
  const json plan = plan_of(latency_of(eight_on_a_full_link(400'000)), json::object(), {}).value();
  const std::string said = plan["recommendation"];
  EXPECT_NE(said.find("with 10 Gbit/s clients move"), std::string::npos) << said;
  EXPECT_NE(said.find("More than that adds little: 100 Gbit/s"), std::string::npos) << said;
}

TEST(Plan, RecommendsNoLinkThatIsWorseThanThePresentOne) {
  PlanWishes wishes;
  wishes.links = {{"50 Mbit/s", 0.05 * kGbit, 0}, {"100 Mbit/s", 0.1 * kGbit, 0}};
  const json plan = plan_of(latency_of(eight_on_a_full_link(100'000)), json::object(), wishes).value();
  const std::string said = plan["recommendation"];
  EXPECT_EQ(said.find("None of these is as good as what is there: with 100 Mbit/s clients move"), 0u) << said;
}

TEST(Plan, DoubtsWhatRestsOnFewWrites) {
  const auto sure = [](uint64_t software_ns) {
    const Clients lone{.software_ns = software_ns, .rate_bits_per_s = 10'000'000'000};
    return plan_of(latency_of(lone), json::object(), {}).value()["sure"];
  };
  EXPECT_EQ(sure(10'000'000), (json{{"level", "good"}, {"doubts", json::array()}})) << "a thousand";
  const json few = sure(10'011'000);
  EXPECT_EQ(few["level"], "fair");
  EXPECT_EQ(few["doubts"], json::array({"fewer than 1000 writes were measured"}));
}

TEST(Plan, OfAFullLinkRecommendsTheSmallestThatIsNearlyAsGood) {
  const json plan = plan_of(latency_of(eight_on_a_full_link(100'000)), json::object(), {}).value();
  EXPECT_EQ(plan["links"].size(), 5u);
  EXPECT_GT(plan["now"]["busy_share"].get<double>(), kFull);
  const std::string said = plan["recommendation"];
  EXPECT_NE(said.find("A faster link will help"), std::string::npos) << said;
  EXPECT_EQ(plan["sure"]["level"], "fair");
  // 119 MB were written anew in a minute; 1 Gbit/s carries 119.6 MB/s.
  EXPECT_NEAR(plan["now"]["resync"][0]["duration_s"].get<double>(), 1.0, 0.1);
  EXPECT_NEAR(plan["links"][1]["resync"][0]["duration_s"].get<double>(), 0.1, 0.02);
  const std::string text = plan_text(plan);
  EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 30);
  EXPECT_NE(text.find("a second link"), std::string::npos) << text;
}

TEST(Plan, OfALinkThatIsIdleSaysThatNoneHelps) {
  const json plan = plan_of(latency_of({.bytes = 4096, .pause_ns = 50'000}), json::object(), {}).value();
  const std::string said = plan["recommendation"];
  EXPECT_NE(said.find("A faster link won't help"), std::string::npos) << said;
  EXPECT_EQ(plan["sure"]["level"], "good");
}

// The last resync was held up by something else than its link, which a faster one does not change.
TEST(Plan, AResyncIsNoFasterThanTheHostsWere) {
  const json status{{"last_resync", {{"bytes", 100'000'000}, {"duration_s", 4.0}}}};
  const json plan = plan_of(latency_of({}), status, {}).value();
  EXPECT_NEAR(plan["now"]["resync"][0]["duration_s"].get<double>(), 119.0 / 25, 0.1);
  EXPECT_NEAR(plan["links"][3]["resync"][0]["duration_s"].get<double>(), 119.0 / 25, 0.1);
}

json row_of(const json& plan, const std::string& title) {
  for (const json& row : plan["changes"])
    if (row["title"] == title) return row;
  return nullptr;
}

double p50_of(const json& row) { return row["classes"][0]["p50_ns"].get<double>(); }

json with_stage(Clients of, const char* stage, uint64_t ns) {
  json latency = latency_of(of);
  json& stages = latency["classes"][0]["stages"];
  stages[stage] = stages["wire"];
  stages[stage]["sum_ns"] = stages["wire"]["count"].get<uint64_t>() * ns;
  return latency;
}

const json kStatus{{"peer", {{"name", "beta"}}}, {"encryption", {{"mode", "tls"}}}};

// Disks count as far as writes wait for them: the peer's in full, this node's as far as it is the later one.
TEST(Plan, OfDisksTwiceAsFast) {
  const Clients one{.bytes = 4096, .software_ns = 400'000, .wire_ns = 1'000, .rate_bits_per_s = 10'000'000'000};
  const json theirs = plan_of(with_stage(one, "peer-disk", 200'000), kStatus, {}).value();
  EXPECT_NEAR(p50_of(theirs["now"]) - p50_of(row_of(theirs, "disk of beta, 2x")), 100'000, 2'000);
  EXPECT_TRUE(row_of(theirs, "disk of alpha, 2x").is_null());
  // The stage is there where this node's disk was the later one, and is all of its time.
  const json ours = plan_of(with_stage(one, "local-disk", 30'000), kStatus, {}).value();
  EXPECT_NEAR(p50_of(ours["now"]) - p50_of(row_of(ours, "disk of alpha, 2x")), 15'000, 2'000);
  EXPECT_TRUE(row_of(ours, "disk of beta, 2x").is_null());
}

TEST(Plan, OfEncryptionAsItWasMeasuredHereOrIsNow) {
  const Clients one{.bytes = 4096, .software_ns = 400'000, .wire_ns = 1'000, .rate_bits_per_s = 10'000'000'000};
  const json on = plan_of(with_stage(one, "crypto", 50'000), kStatus, {}).value();
  EXPECT_NEAR(p50_of(on["now"]) - p50_of(row_of(on, "no encryption")), 50'000, 2'000);
  PlanWishes wishes;
  wishes.seal = {1'000, 1.0};
  const json off = plan_of(latency_of(one), {{"encryption", {{"mode", "off"}}}}, wishes).value();
  EXPECT_NEAR(p50_of(row_of(off, "encryption")) - p50_of(off["now"]), 2 * (1'000 + 4'096), 1'000);
  EXPECT_TRUE(row_of(off, "no encryption").is_null());
}

// A full link carries as much more as the data is smaller; without, as much less.
TEST(Plan, OfCompression) {
  Clients many{.clients = 8, .queue_ns = 4'000'000};
  many.wire_ns = whole(line_ns(many, kGbit));
  many.queue_ns = whole(7 * line_ns(many, kGbit)) - many.software_ns;
  PlanWishes wishes;
  wishes.ratio = 2;
  const json off = plan_of(latency_of(many), {{"compression", {{"mode", "off"}}}}, wishes).value();
  EXPECT_NEAR(row_of(off, "compression 2:1")["bytes_per_s"].get<double>() / off["now"]["bytes_per_s"].get<double>(), 2,
              0.05);
  EXPECT_NE(row_of(off, "compression 2:1")["doubt"], "");
  // What clients write is twice what travels.
  const json status{{"compression",
                     {{"mode", "on"}, {"raw_bytes", 2'000'000}, {"sent_bytes", 1'000'000},
                      {"writes_compressed", 20}, {"writes_raw", 0}}},
                    {"counters", {{"write_bytes", 2'000'000}}}};
  many.wire_ns /= 2;
  many.queue_ns = 7 * many.wire_ns - many.software_ns;
  json packed = latency_of(many);
  packed["wire_part"] = 0.5;
  const json on = plan_of(packed, status, {}).value();
  EXPECT_GT(on["now"]["busy_share"].get<double>(), kFull);
  EXPECT_NEAR(row_of(on, "no compression")["bytes_per_s"].get<double>() / on["now"]["bytes_per_s"].get<double>(), 0.5,
              0.05);
  const std::string text = plan_text(on);
  EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 30);
  EXPECT_NE(text.find("no compression"), std::string::npos) << text;
}

TEST(SealCost, IsMeasured) {
  const SealCost cost = measure_seal_cost();
  EXPECT_GT(cost.byte_ns, 0);
  EXPECT_LT(cost.byte_ns, 1'000);
}

TEST(Plan, SaysWhatItLacks) {
  const Result<json> none = plan_of(json{{"volume", "r0"}}, json::object(), {});
  EXPECT_EQ(none.error().code, kExitRefused);
  EXPECT_NE(none.error().action.find("on the primary"), std::string::npos);
  const Result<json> rate = plan_of(latency_of({.rate_bits_per_s = 0}), json::object(), {});
  EXPECT_NE(rate.error().what.find("rate of the present link"), std::string::npos);
  EXPECT_NE(rate.error().action.find("--now 1Gbit"), std::string::npos);
}

TEST(Plan, OfSeveralVolumesCountsWhatIsWrittenWhereNoPlanIs) {
  json unknown = latency_of({.rate_bits_per_s = 0});
  unknown["load"]["window_ns"] = 20 * kSecond_ns;
  const json known = plan_of(latency_of({}), json::object(), {}).value();
  const json none = plan_or_why_not(json{{"volume", "r1"}}, json::object(), {});
  EXPECT_FALSE(none.contains("now"));
  const json told = plan_or_why_not(unknown, json::object(), {});
  EXPECT_NE(plan_text(told).find("--now 1Gbit"), std::string::npos) << plan_text(told);
  const json sum = together(json::array({known, none, told, {{"volume", "r2"}, {"error", "no node answers"}}}));
  EXPECT_EQ(sum["volumes"], 2);
  EXPECT_EQ(sum["left_out"], json::array({"r1", "r2"}));
  const double bytes = known["now"]["bytes_per_s"];
  EXPECT_NEAR(sum["bytes_per_s"].get<double>(), 1.5 * bytes, 0.01 * bytes);
  EXPECT_NE(together_text(sum).find("r1, r2"), std::string::npos) << together_text(sum);
}

// Else a shared link would be called over-full that carries a third of it.
TEST(Plan, OfSeveralVolumesFillsALinkWithWhatTravels) {
  json packed = latency_of({}), unknown = latency_of({.rate_bits_per_s = 0});
  packed["wire_part"] = unknown["wire_part"] = 0.25;
  unknown["load"]["window_ns"] = 10 * kSecond_ns;
  const json known = plan_of(packed, json::object(), {}).value();
  const double bytes = known["now"]["bytes_per_s"];
  for (const json& each : {known, plan_or_why_not(unknown, json::object(), {})}) {
    const json sum = together(json::array({each}));
    EXPECT_NEAR(sum["wire_bytes_per_s"].get<double>(), 0.25 * sum["bytes_per_s"].get<double>(), 1);
    EXPECT_NEAR(sum["bytes_per_s"].get<double>(), bytes, 0.01 * bytes);
    const std::string text = together_text(sum);
    EXPECT_NE(text.find("which travel as"), std::string::npos) << text;
    char share[32];
    std::snprintf(share, sizeof share, "%.0f%% of 1 Gbit/s", 25 * bytes / payload_bytes_per_s(kGbit));
    EXPECT_NE(text.find(share), std::string::npos) << text;
  }
}

TEST(Plan, TakesLinksAsTheyAreWritten) {
  const PlannedLink far = parse_planned_link("10Gbit,rtt=80us", 30'000).value();
  EXPECT_EQ(far.bits_per_s, 10 * kGbit);
  EXPECT_EQ(far.longer_ns, 50'000);
  EXPECT_EQ(far.title, "10 Gbit/s, 80 us");
  EXPECT_EQ(parse_planned_link("400Mbit", 30'000).value().longer_ns, 0);
  for (const char* wrong : {"", "fast", "10", "10Gbit,", "10Gbit,80us", "10Gbit,rtt=", "10Gbit,rtt=near", "0Gbit"})
    EXPECT_EQ(parse_planned_link(wrong, 0).error().code, kExitUsage) << wrong;
  EXPECT_EQ(round_trip_of({{"links", json::array({{{"state", "up"}, {"round_trip_us", 90.5}},
                                                  {{"state", "down"}, {"round_trip_us", 10.0}},
                                                  {{"state", "up"}, {"round_trip_us", json()}}})}}),
            90'500u);
}

// Else a link that has two thirds of its rate left would be called full.
TEST(LatencyVerdict, OfALinkThatCarriesWhatIsPackedItIsNotSaidToBeFull) {
  Clients many{.clients = 8, .bytes = 131'072, .rate_bits_per_s = 200'000'000};
  const double line = line_ns(many, 0.2 * kGbit);
  many.wire_ns = whole(line);
  many.queue_ns = whole(7 * line) - many.software_ns;
  json latency = latency_of(many);
  latency["wire_part"] = 1.0;
  ASSERT_NE(latency_verdict(latency)[0].find("The link is full"), std::string::npos);
  latency["wire_part"] = 0.33;
  EXPECT_EQ(latency_verdict(latency)[0].find("The link is full"), std::string::npos) << latency_verdict(latency)[0];
}

// At 200 Mbit/s, 128 KiB, eight at a time: twice the rate takes half the time.
TEST(LatencyVerdict, OfAFullLinkSaysSoAndWhatTwiceTheRateSaves) {
  Clients many{.clients = 8, .bytes = 131'072, .rate_bits_per_s = 200'000'000};
  const double line = line_ns(many, 0.2 * kGbit);
  many.wire_ns = whole(line);
  many.queue_ns = whole(7 * line) - many.software_ns;
  const std::vector<std::string> said = latency_verdict(latency_of(many));
  ASSERT_GE(said.size(), 2u);
  EXPECT_NE(said[0].find("The link is full"), std::string::npos) << said[0];
  EXPECT_NE(said[1].find("would save 21.9 ms (50%)"), std::string::npos) << said[1];
}

}  // namespace
}  // namespace twinblock
