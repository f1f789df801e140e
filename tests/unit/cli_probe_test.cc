// What is made of a probe: gaps, plateau, who limits, warnings, text and picture. The streams are made up.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "twinblock/probe.h"
#include "twinblock/probe_text.h"

namespace twinblock {
namespace {

using nlohmann::json;

constexpr double kInterval_s = 0.0006;

std::vector<uint64_t> steady(size_t count, uint64_t each) { return std::vector<uint64_t>(count, each); }

TEST(Arrivals, ASteadyStreamIsAPlateauWithoutGaps) {
  const Arrivals seen = arrivals_of(steady(1000, 15'000), kInterval_s, 1448);
  EXPECT_NEAR(seen.bytes_per_s, 25e6, 1e3);
  EXPECT_NEAR(seen.plateau_bytes_per_s, 25e6, 1e3);
  EXPECT_TRUE(seen.gaps.empty());
}

TEST(Arrivals, WhatCameWhileItGotUpToSpeedDoesNotCount) {
  std::vector<uint64_t> bytes = steady(1000, 60'000);
  for (size_t i = 0; i < 300; ++i) bytes[i] = 200 * i;
  EXPECT_NEAR(arrivals_of(bytes, kInterval_s, 1448).bytes_per_s, 1e8, 1e6);
  // Nor does what a shaper lets through at once in the beginning.
  bytes = steady(1000, 60'000);
  bytes[0] = 20'000'000;
  EXPECT_NEAR(arrivals_of(bytes, kInterval_s, 1448).bytes_per_s, 1e8, 1e5);
}

TEST(Arrivals, GapsAreFoundMeasuredAndLeftOutOfThePlateau) {
  std::vector<uint64_t> bytes = steady(1001, 60'000);
  for (const size_t at : {400U, 401U, 402U, 700U}) bytes[at] = 0;
  const Arrivals seen = arrivals_of(bytes, kInterval_s, 1448);
  ASSERT_EQ(seen.gaps.size(), 2U);
  EXPECT_EQ(seen.gaps[0].begin, 400U);
  EXPECT_EQ(seen.gaps[0].count, 3U);
  EXPECT_NEAR(seen.longest_gap_s, 0.0018, 1e-6);
  EXPECT_NEAR(seen.gap_share, 4.0 / 850, 1e-6);
  EXPECT_NEAR(seen.plateau_bytes_per_s, 1e8, 1e5);
  EXPECT_LT(seen.bytes_per_s, seen.plateau_bytes_per_s);
}

TEST(Arrivals, PacketsThatAreFartherApartThanAnIntervalLeaveNoGaps) {
  std::vector<uint64_t> bytes(1000);
  for (size_t i = 0; i < bytes.size(); i += 3) bytes[i] = 1448;
  EXPECT_TRUE(arrivals_of(bytes, kInterval_s, 1448).gaps.empty());
  for (size_t i = 500; i < 560; ++i) bytes[i] = 0;
  EXPECT_EQ(arrivals_of(bytes, kInterval_s, 1448).gaps.size(), 1U);
}

// At 100 Mbit/s a record of TLS, of 16 KiB, is whole every 1.4 ms.
TEST(Probe, RecordsOfAnEncryptedLinkLeaveNoGaps) {
  json bytes = json::array();
  double sent = 0;
  for (size_t i = 0; i < 1600; ++i) {
    sent += 11.9e6 * kInterval_s;
    bytes.push_back(sent >= 16'384 ? uint64_t{16'384} : uint64_t{0});
    if (sent >= 16'384) sent -= 16'384;
  }
  json probe{{"link", "link1"},
             {"protection", "TLS 1.3"},
             {"stream", {{"interval_ns", 600'000}, {"interval_bytes", bytes}, {"end", {{"segment_bytes", 1448}}}}}};
  const json told = probe_json(probe, "alpha", "beta");
  EXPECT_EQ(told["stream"]["gaps"].size(), 0U);
  EXPECT_NEAR(told["stream"]["plateau_bytes_per_s"].get<double>(), 11.9e6, 0.2e6);
  EXPECT_TRUE(told["warnings"].empty()) << told["warnings"];
  probe["protection"] = "";
  EXPECT_GT(probe_json(probe, "alpha", "beta")["stream"]["gaps"].size(), 100U);
}

TEST(Arrivals, NothingAtAllIsNothing) {
  for (const size_t count : {0U, 1U, 2U, 3U}) {
    const Arrivals seen = arrivals_of(steady(count, 0), kInterval_s, 1448);
    EXPECT_EQ(seen.bytes_per_s, 0);
    EXPECT_EQ(seen.plateau_bytes_per_s, 0);
  }
}

json state(double busy_s, double peer_s, double own_s) {
  return {{"busy_ns", busy_s * 1e9},       {"peer_window_ns", peer_s * 1e9}, {"send_buffer_ns", own_s * 1e9},
          {"peer_window_bytes", 3'000'000}, {"send_buffer_bytes", 400'000},  {"segment_bytes", 1448},
          {"window_bytes", 500'000},        {"retransmitted", 0}};
}

json host() {
  return {{"interface", "eth1"},
          {"rate_bits_per_s", 1'000'000'000},
          {"mtu_bytes", 1500},
          {"half_duplex", false},
          {"receive_buffer_max_bytes", 6'291'456},
          {"send_buffer_max_bytes", 4'194'304},
          {"receive_errors", 0},
          {"send_errors", 0},
          {"collisions", 0}};
}

// 100 MB/s over a round trip of 1 ms.
json probe() {
  return {{"link", "link1"},
          {"stage", "done"},
          {"protection", ""},
          {"busy", false},
          {"here", host()},
          {"there", host()},
          {"round_trips_ns", std::vector<uint64_t>(100, 1'000'000)},
          {"talks", {{{"bytes", 4096}, {"count", 300}, {"passed_ns", 300'000'000}}}},
          {"stream",
           {{"asked_ns", 1'000'000'000},
            {"received_bytes", 100'000'000},
            {"passed_ns", 1'000'000'000},
            {"beside_bytes", 0},
            {"late_ns", 0},
            {"receive_buffer_bytes", 6'291'456},
            {"half", state(0.5, 0.1, 0.1)},
            {"end", state(1.0, 0.1, 0.1)},
            {"interval_ns", 600'000},
            {"interval_bytes", steady(1667, 60'000)}}}};
}

TEST(Probe, WhoLimitsIsWhatTheStreamWaitedForAtLast) {
  EXPECT_EQ(stream_limit(probe()), StreamLimit::kLink);
  json of = probe();
  of["stream"]["end"] = state(1.0, 0.5, 0.1);
  EXPECT_EQ(stream_limit(of), StreamLimit::kReceiveBuffer);
  of["stream"]["receive_buffer_bytes"] = 131'072;  // it could grow: the receiver does not read
  EXPECT_EQ(stream_limit(of), StreamLimit::kReceiver);
  of["stream"]["end"] = state(1.0, 0.1, 0.5);
  EXPECT_EQ(stream_limit(of), StreamLimit::kSendBuffer);
  of = probe();
  of["stream"]["late_ns"] = 500'000'000;
  EXPECT_EQ(stream_limit(of), StreamLimit::kSender);
  EXPECT_EQ(stream_limit(json()), StreamLimit::kLink);
  // Only in the first half, as it got up to speed.
  for (const bool own : {false, true}) {
    of = probe();
    of["stream"]["half"] = state(0.5, own ? 0 : 0.45, own ? 0.45 : 0);
    of["stream"]["end"] = state(1.0, own ? 0 : 0.45, own ? 0.45 : 0);
    EXPECT_EQ(stream_limit(of), StreamLimit::kLink) << own;
  }
}

TEST(Probe, TheThreeSpeeds) {
  const json link = probe_json(probe(), "alpha", "beta");
  EXPECT_NEAR(link["frame"]["bytes_per_s"].get<double>(), 125e6 * 1448 / 1538, 1);
  EXPECT_NEAR(link["stream"]["bytes_per_s"].get<double>(), 1e8, 1e5);
  EXPECT_EQ(link["conversations"][0]["writes_per_s"], 1000);
  EXPECT_EQ(link["round_trip"]["p99_ns"], 1'000'000);
  // What the receiver offers of its buffer, which can't grow, over a millisecond.
  EXPECT_NEAR(link["window"]["most_bytes_per_s"].get<double>(), 3e9, 1e3);
  EXPECT_TRUE(link["warnings"].empty());
}

std::string warned(const json& of) {
  std::string all;
  const json link = probe_json(of, "alpha", "beta");
  for (const json& each : link["warnings"])
    all += each["what"].get<std::string>() + "; " + each["to_do"].get<std::string>() + "\n";
  return all;
}

TEST(Probe, SettingsThatHurtAreNamedWithWhatMendsThem) {
  json of = probe();
  of["there"]["mtu_bytes"] = 9000;
  EXPECT_EQ(warned(of), "the MTU differs: 1500 at alpha, 9000 at beta; on alpha: ip link set eth1 mtu 9000, if all "
                        "between them carries that\n");
  of = probe();
  of["here"]["half_duplex"] = true;
  EXPECT_NE(warned(of).find("on alpha: ethtool -s eth1 autoneg on"), std::string::npos);
  // With the name that the interface has there.
  of = probe();
  of["there"]["interface"] = "ens4";
  of["here"]["mtu_bytes"] = 9000;
  EXPECT_NE(warned(of).find("on beta: ip link set ens4 mtu 9000"), std::string::npos) << warned(of);
  of["here"]["mtu_bytes"] = 1500;
  of["there"]["half_duplex"] = true;
  EXPECT_NE(warned(of).find("on beta: ethtool -s ens4 autoneg on"), std::string::npos) << warned(of);
  of = probe();
  of["there"]["receive_errors"] = 7;
  EXPECT_NE(warned(of).find("eth1 of beta has counted 7 errors"), std::string::npos);
  of = probe();
  of["stream"]["end"] = state(1.0, 0.1, 0.5);
  // Twice of 400 MB/s over 1 ms, in whole 64 KiB.
  EXPECT_NE(warned(of).find("on alpha: sysctl -w net.ipv4.tcp_wmem=\"4096 16384 851968\""), std::string::npos) << warned(of);
  // Pauses between two windows are no lost packets.
  std::vector<uint64_t> bursts(1668, 0);
  for (size_t i = 0; i < bursts.size(); i += 4) bursts[i] = 240'000;
  of["stream"]["interval_bytes"] = bursts;
  EXPECT_EQ(warned(of).find("nothing came"), std::string::npos) << warned(of);
  of["stream"]["end"] = state(1.0, 0.1, 0.1);
  EXPECT_NE(warned(of).find("nothing came in 75%"), std::string::npos) << warned(of);
  of["stream"]["end"] = state(1.0, 0.5, 0.1);
  EXPECT_NE(warned(of).find("on beta: sysctl -w net.ipv4.tcp_rmem="), std::string::npos);
}

TEST(Probe, ForPeopleItIsAFewLinesAndAPictureWhoseTextsAreTexts) {
  json link = probe_json(probe(), "alpha", "beta");
  const std::string text = probe_text(link);
  EXPECT_NE(text.find("a stream      100 MB/s, a plateau of 100 MB/s"), std::string::npos) << text;
  EXPECT_NE(text.find("the link: nothing at either end"), std::string::npos);
  EXPECT_LT(std::count(text.begin(), text.end(), '\n'), 16);
  link["link"] = "<script>&";
  const std::string picture = probe_picture(json::array({link}));
  EXPECT_EQ(picture.find("<script"), std::string::npos);
  EXPECT_NE(picture.find("&lt;script&gt;&amp;"), std::string::npos);
  EXPECT_NE(probe_text({{"link", "l"}, {"from", "a"}, {"to", "b"}, {"error", "no answer"}}).find("not probed    no answer"),
            std::string::npos);
}

}  // namespace
}  // namespace twinblock
