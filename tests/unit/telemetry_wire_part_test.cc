// What went to the peer, and what travels of a client's byte, are of the same window as all that stands beside them.
#include <gtest/gtest.h>

#include "base/units.h"
#include "telemetry/latency.h"

namespace twinblock {
namespace {

void write_at(WriteLatency& latency, uint64_t done_ns, const WriteTravel& travel) {
  WriteTimes times;
  times.received_ns = done_ns - kMillisecond_ns;
  times.done_ns = done_ns;
  latency.record(times, 0, 64 * kKiB, 1, travel);
}

TEST(WirePart, OfAWindowIsNotOfWhatWasWrittenBeforeCompressionWasOn) {
  WriteLatency latency;
  for (uint64_t s = 1; s <= 1000; ++s) write_at(latency, s * kSecond_ns, {});
  EXPECT_EQ(latency.load(Window::k10s, 1000 * kSecond_ns).wire_part, 1);
  for (uint64_t s = 1001; s <= 1100; ++s) write_at(latency, s * kSecond_ns, {.saved_bytes = 48 * kKiB});
  EXPECT_DOUBLE_EQ(latency.load(Window::k10s, 1100 * kSecond_ns).wire_part, 0.25);
  EXPECT_DOUBLE_EQ(latency.load(Window::k60s, 1100 * kSecond_ns).wire_part, 0.25);
  EXPECT_DOUBLE_EQ(latency.load(Window::kStart, 1100 * kSecond_ns).wire_part, 1 - 0.75 * 100 / 1100);
}

TEST(WirePart, IsNothingOfAZero) {
  WriteLatency latency;
  for (uint64_t ms = 1; ms <= 100; ++ms)
    write_at(latency, kSecond_ns + ms * kMillisecond_ns,
             {.zeroes = ms <= 50, .saved_bytes = ms > 75 ? 16 * kKiB : 0});
  const WriteLoad load = latency.load(Window::k10s, 2 * kSecond_ns);
  EXPECT_DOUBLE_EQ(load.zero_part, 0.5);
  EXPECT_DOUBLE_EQ(load.wire_part, 0.5 - 0.25 / 4);
  EXPECT_EQ(latency.load(Window::k10s, 22 * kSecond_ns).zero_part, 0);
}

TEST(WriteLoad, KnowsWhatWentToNoPeer) {
  WriteLatency latency;
  for (uint64_t ms = 1; ms <= 100; ++ms) write_at(latency, kSecond_ns + ms * kMillisecond_ns, {.to_peer = ms > 90});
  const WriteLoad load = latency.load(Window::k10s, 2 * kSecond_ns);
  EXPECT_EQ(load.simplex_writes, 90u);
  EXPECT_EQ(load.simplex_bytes, 90 * 64 * kKiB);
  EXPECT_EQ(load.simplex_ns, 90 * kMillisecond_ns);
  const WriteLoad later = latency.load(Window::k10s, 22 * kSecond_ns);
  EXPECT_EQ(later.simplex_writes + later.simplex_bytes + later.simplex_ns, 0u);
}

// Most writes have spent nothing in most stages, which counts as any other time.
TEST(WriteLatency, AStagesFiguresAreOfAllWrites) {
  WriteLatency latency;
  for (uint64_t ms = 1; ms <= 99; ++ms) write_at(latency, kSecond_ns + ms * kMillisecond_ns, {});
  WriteTimes with_peer;
  with_peer.received_ns = with_peer.trip.taken_ns = 2 * kSecond_ns;
  with_peer.trip.arrived_ns = with_peer.trip.answered_ns = with_peer.done_ns = 2 * kSecond_ns + kMillisecond_ns;
  with_peer.peer = true;
  latency.record(with_peer, 0, 64 * kKiB, 1);
  const std::vector<LatencyView::Class> classes = latency.view(Window::kStart, 3 * kSecond_ns);
  ASSERT_EQ(classes.size(), 1u);
  const Distribution& wire = classes[0].stages[static_cast<size_t>(Stage::kWire)];
  EXPECT_EQ(wire.count, 100u);
  EXPECT_EQ(wire.p50_ns, 0u);
  EXPECT_EQ(wire.p90_ns, 0u);
  EXPECT_GT(wire.max_ns, 0u);
}

TEST(WirePart, WithoutAWriteIsWhole) { EXPECT_EQ(WriteLatency().load(Window::k60s, kSecond_ns).wire_part, 1); }

}  // namespace
}  // namespace twinblock
