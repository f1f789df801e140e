// Figures that the verbs `latency` and `probe` tell: each stands under its own name.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "control/latency_requests.h"
#include "control/probe_requests.h"

namespace twinblock {
namespace {

using nlohmann::json;

// Whose figures are `first` and the five after it.
Distribution distribution(uint64_t first) {
  return {.count = first,
          .sum_ns = first + 1,
          .p50_ns = first + 2,
          .p90_ns = first + 3,
          .p99_ns = first + 4,
          .max_ns = first + 5,
          .up_to = {}};
}
json told_of(uint64_t first) {
  return {{"count", first},      {"sum_ns", first + 1}, {"p50_ns", first + 2},
          {"p90_ns", first + 3}, {"p99_ns", first + 4}, {"max_ns", first + 5}};
}

TEST(LatencyFigures, OfADistributionStandUnderTheirNames) {
  EXPECT_EQ(distribution_json(distribution(10)), told_of(10));
}

TEST(LatencyFigures, OfASizeClassStandUnderTheirNames) {
  LatencyView::Class each;
  each.size_class = 2;
  each.bytes = 7;
  each.total = distribution(10);
  json stages;
  uint64_t first = 10;
  for (const char* stage : {"prepare", "compression", "queue", "intent", "send", "crypto", "link-queue", "wire",
                            "stack", "peer-queue", "peer-disk", "local-disk", "completion"})
    stages[stage] = told_of(first += 10);
  ASSERT_EQ(stages.size(), each.stages.size());
  first = 10;
  for (Distribution& stage : each.stages) stage = distribution(first += 10);
  EXPECT_EQ(class_latency_json(each), (json{{"class", "16K"},
                                            {"bytes_max", 16384},
                                            {"writes", 10},
                                            {"bytes", 7},
                                            {"total", told_of(10)},
                                            {"stages", stages}}));
  each.size_class = kSizeClasses - 1;
  EXPECT_EQ(size_class_json(each), (json{{"class", "larger"}, {"bytes_max", nullptr}, {"writes", 10}}));
}

TEST(LatencyFigures, OfALinkStandUnderTheirNames) {
  LatencyView::Link each{.name = "main",
                         .up = true,
                         .rate_bits_per_s = 1,
                         .carried_bytes_per_s = 2,
                         .way_ns = 3,
                         .parts = {},
                         .alone_share = 0.5};
  json parts;
  uint64_t first = 0;
  for (const char* part : {"wire", "send-stack", "send-qdisc", "peer-receive", "peer-send", "receive", "tcp-ack"})
    parts[part] = told_of(first += 10);
  ASSERT_EQ(parts.size(), each.parts.size());
  first = 0;
  for (Distribution& part : each.parts) part = distribution(first += 10);
  EXPECT_EQ(link_latency_json(each), (json{{"name", "main"},
                                           {"up", true},
                                           {"rate_bits_per_s", 1},
                                           {"carried_bytes_per_s", 2},
                                           {"way_ns", 3},
                                           {"alone_share", 0.5},
                                           {"samples", 10},
                                           {"parts", parts}}));
}

TEST(LatencyFigures, OfTheLoadStandUnderTheirNames) {
  EXPECT_EQ(write_load_json({.busy_ns = 1,
                             .window_ns = 2,
                             .depth_p99 = 3,
                             .pause_p50_ns = 4,
                             .wire_part = 0.5,
                             .zero_part = 0.25,
                             .simplex_writes = 5,
                             .simplex_bytes = 6,
                             .simplex_ns = 7,
                             .dirtied_bytes = {8, 9, 10}}),
            (json{{"busy_ns", 1},
                  {"window_ns", 2},
                  {"depth_p99", 3},
                  {"pause_p50_ns", 4},
                  {"simplex_writes", 5},
                  {"simplex_bytes", 6},
                  {"simplex_ns", 7},
                  {"dirtied", {{{"minutes", 1}, {"bytes", 8}},
                               {{"minutes", 10}, {"bytes", 9}},
                               {{"minutes", 60}, {"bytes", 10}}}}}));
}

LinkHost host(const char* interface, const char* congestion, uint64_t first, bool half_duplex) {
  return {.interface = interface,
          .congestion = congestion,
          .rate_bits_per_s = first,
          .receive_buffer_max_bytes = first + 1,
          .send_buffer_max_bytes = first + 2,
          .receive_errors = first + 3,
          .send_errors = first + 4,
          .dropped = first + 5,
          .collisions = first + 6,
          .mtu_bytes = static_cast<uint32_t>(first + 7),
          .half_duplex = half_duplex};
}
json told_of(const char* interface, const char* congestion, uint64_t first, bool half_duplex) {
  return {{"interface", interface},
          {"congestion", congestion},
          {"rate_bits_per_s", first},
          {"receive_buffer_max_bytes", first + 1},
          {"send_buffer_max_bytes", first + 2},
          {"receive_errors", first + 3},
          {"send_errors", first + 4},
          {"dropped", first + 5},
          {"collisions", first + 6},
          {"mtu_bytes", first + 7},
          {"half_duplex", half_duplex}};
}

StreamState state(uint64_t first) {
  return {.round_trip_ns = first,
          .round_trip_min_ns = first + 1,
          .segment_bytes = static_cast<uint32_t>(first + 2),
          .window_bytes = first + 3,
          .peer_window_bytes = first + 4,
          .send_buffer_bytes = first + 5,
          .receive_buffer_bytes = first + 6,
          .acked_bytes = first + 7,
          .retransmitted = first + 8,
          .busy_ns = first + 9,
          .peer_window_ns = first + 10,
          .send_buffer_ns = first + 11};
}
json told_of_state(uint64_t first) {
  return {{"round_trip_ns", first},
          {"round_trip_min_ns", first + 1},
          {"segment_bytes", first + 2},
          {"window_bytes", first + 3},
          {"peer_window_bytes", first + 4},
          {"send_buffer_bytes", first + 5},
          {"retransmitted", first + 8},
          {"busy_ns", first + 9},
          {"peer_window_ns", first + 10},
          {"send_buffer_ns", first + 11}};
}

TEST(ProbeFigures, StandUnderTheirNames) {
  ProbeResult probe;
  probe.number = 1;
  probe.link = "main";
  probe.stage = ProbeStage::kStreaming;
  probe.error = "none";
  probe.protection = "TLS 1.3";
  probe.busy = true;
  probe.wait_ns = 2;
  probe.here = host("eth1", "cubic", 10, false);
  probe.there = host("ens4", "bbr", 20, true);
  probe.round_trips_ns = {3, 4};
  probe.talks = {{{4096, 5, 6}, {65536, 7, 8}}};
  probe.stream = {.asked_ns = 30,
                  .beside_bytes = 31,
                  .late_ns = 32,
                  .half = state(40),
                  .end = state(60),
                  .received_bytes = 33,
                  .passed_ns = 34,
                  .receive_buffer_bytes = 35,
                  .interval_bytes = {36, 37}};
  EXPECT_EQ(probe_result_json(probe),
            (json{{"number", 1},
                  {"link", "main"},
                  {"stage", "streaming"},
                  {"error", "none"},
                  {"protection", "TLS 1.3"},
                  {"busy", true},
                  {"wait_ns", 2},
                  {"here", told_of("eth1", "cubic", 10, false)},
                  {"there", told_of("ens4", "bbr", 20, true)},
                  {"round_trips_ns", {3, 4}},
                  {"talks", {{{"bytes", 4096}, {"count", 5}, {"passed_ns", 6}},
                             {{"bytes", 65536}, {"count", 7}, {"passed_ns", 8}}}},
                  {"stream", {{"asked_ns", 30},
                              {"beside_bytes", 31},
                              {"late_ns", 32},
                              {"half", told_of_state(40)},
                              {"end", told_of_state(60)},
                              {"received_bytes", 33},
                              {"passed_ns", 34},
                              {"receive_buffer_bytes", 35},
                              {"interval_ns", limits::kProbeInterval_ns},
                              {"interval_bytes", {36, 37}}}}}));
}

}  // namespace
}  // namespace twinblock
