// What travels of a client's byte is of the same window as all that stands beside it.
#include <gtest/gtest.h>

#include "base/units.h"
#include "telemetry/latency.h"

namespace twinblock {
namespace {

void write_at(WriteLatency& latency, uint64_t done_ns, uint64_t saved_bytes) {
  WriteTimes times;
  times.received_ns = done_ns - kMillisecond_ns;
  times.done_ns = done_ns;
  latency.record(times, 0, 64 * kKiB, 1, saved_bytes);
}

TEST(WirePart, OfAWindowIsNotOfWhatWasWrittenBeforeCompressionWasOn) {
  WriteLatency latency;
  for (uint64_t s = 1; s <= 1000; ++s) write_at(latency, s * kSecond_ns, 0);
  EXPECT_EQ(latency.load(Window::k10s, 1000 * kSecond_ns).wire_part, 1);
  for (uint64_t s = 1001; s <= 1100; ++s) write_at(latency, s * kSecond_ns, 48 * kKiB);
  EXPECT_DOUBLE_EQ(latency.load(Window::k10s, 1100 * kSecond_ns).wire_part, 0.25);
  EXPECT_DOUBLE_EQ(latency.load(Window::k60s, 1100 * kSecond_ns).wire_part, 0.25);
  EXPECT_DOUBLE_EQ(latency.load(Window::kStart, 1100 * kSecond_ns).wire_part, 1 - 0.75 * 100 / 1100);
}

TEST(WirePart, WithoutAWriteIsWhole) { EXPECT_EQ(WriteLatency().load(Window::k60s, kSecond_ns).wire_part, 1); }

}  // namespace
}  // namespace twinblock
