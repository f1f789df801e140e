// Histograms, their windows, and the stages of a write.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include "telemetry/arrival_estimate.h"
#include "telemetry/histogram.h"
#include "telemetry/latency.h"
#include "telemetry/stack_estimate.h"
#include "telemetry/stages.h"
#include "telemetry/windows.h"

namespace twinblock {
namespace {

TEST(Histogram, IsEmptyAtFirst) {
  const Histogram histogram;
  EXPECT_EQ(histogram.count(), 0u);
  EXPECT_EQ(histogram.quantile_ns(0.5), 0u);
  EXPECT_EQ(histogram.max_ns(), 0u);
}

TEST(Histogram, OneRecordIsEveryQuantileOfIt) {
  for (unsigned bit = 0; bit < 38; ++bit)
    for (const int64_t near : {-1, 0, 1}) {
      const uint64_t value = (uint64_t{1} << bit) + static_cast<uint64_t>(near);
      Histogram histogram;
      histogram.record(value);
      for (const double quantile : {0.0, 0.5, 1.0}) {
        const auto got = static_cast<double>(histogram.quantile_ns(quantile));
        EXPECT_LE(std::abs(got - static_cast<double>(value)), 0.02 * static_cast<double>(value))
            << value;
      }
      EXPECT_EQ(histogram.max_ns(), value);
    }
}

TEST(Histogram, QuantilesAreOffByLessThanTwoPercent) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 20; ++round) {
    Histogram histogram;
    std::vector<uint64_t> values;
    std::lognormal_distribution<double> latency(11.0 + round * 0.3, 1.5);
    for (int i = 0; i < 5000; ++i) {
      values.push_back(static_cast<uint64_t>(latency(random)));
      histogram.record(values.back());
    }
    std::sort(values.begin(), values.end());
    EXPECT_EQ(histogram.count(), values.size());
    for (const double quantile : {0.001, 0.1, 0.5, 0.9, 0.99, 0.999, 1.0}) {
      const auto rank = static_cast<size_t>(std::ceil(quantile * 5000));
      const auto expected = static_cast<double>(values[std::max<size_t>(rank, 1) - 1]);
      const auto got = static_cast<double>(histogram.quantile_ns(quantile));
      EXPECT_LE(std::abs(got - expected), 0.02 * expected + 1) << quantile;
    }
    EXPECT_LE(histogram.quantile_ns(1.0), histogram.max_ns());
  }
}

// Of few records that lie far apart: a rank that is rounded down names the one before.
TEST(Histogram, AQuantileIsTheLeastThatSoManyDoNotExceed) {
  for (size_t records = 1; records <= 30; ++records) {
    Histogram histogram;
    for (size_t i = 0; i < records; ++i) histogram.record(uint64_t{1} << i);
    for (uint64_t percent = 1; percent <= 100; ++percent) {
      const uint64_t rank = (percent * records + 99) / 100;
      const double least = std::exp2(static_cast<double>(rank - 1));
      // A hair less: the product of a percentage and a whole number need not be whole.
      const double quantile = (static_cast<double>(percent) - 1e-6) / 100;
      EXPECT_NEAR(static_cast<double>(histogram.quantile_ns(quantile)), least, 0.02 * least)
          << percent << "% of " << records;
    }
  }
}

TEST(Histogram, CountsWhatIsAtMostABound) {
  Histogram histogram;
  for (uint64_t us = 1; us <= 1000; ++us) histogram.record(us * kMicrosecond_ns);
  std::array<uint64_t, 3> counts{};
  histogram.counts_up_to(std::array<uint64_t, 3>{0, 100 * kMicrosecond_ns, kSecond_ns}, counts);
  EXPECT_EQ(counts[0], 0u);
  EXPECT_NEAR(static_cast<double>(counts[1]), 100, 2);
  EXPECT_EQ(counts[2], 1000u);
  EXPECT_EQ(histogram.sum_ns(), 500'500 * kMicrosecond_ns);
}

TEST(Histogram, MergedIsAsIfRecordedInOne) {
  Histogram one, other, both;
  for (uint64_t i = 0; i < 1000; ++i) {
    (i % 3 == 0 ? one : other).record(i * i);
    both.record(i * i);
  }
  one.merge(other);
  EXPECT_EQ(one.count(), both.count());
  EXPECT_EQ(one.sum_ns(), both.sum_ns());
  EXPECT_EQ(one.max_ns(), both.max_ns());
  for (const double quantile : {0.1, 0.5, 0.99})
    EXPECT_EQ(one.quantile_ns(quantile), both.quantile_ns(quantile));
  one.clear();
  EXPECT_EQ(one.count(), 0u);
  EXPECT_EQ(one.quantile_ns(0.5), 0u);
}

// One record a second, which says when it was.
TEST(Windows, HoldWhatTheirNamesSayAndLittleMore) {
  Windows windows(2);
  for (uint64_t second = 1; second <= 300; ++second) {
    const uint64_t now = second * kSecond_ns;
    windows.record(1, second, now);
    const auto held = [&](Window window) { return windows.view(1, window, now).count(); };
    EXPECT_EQ(held(Window::kStart), second);
    EXPECT_GE(held(Window::k10s), std::min<uint64_t>(second, 10));
    EXPECT_LE(held(Window::k10s), 13u) << second;
    EXPECT_GE(held(Window::k60s), std::min<uint64_t>(second, 60));
    EXPECT_LE(held(Window::k60s), 73u) << second;
  }
  EXPECT_EQ(windows.view(0, Window::kStart, 301 * kSecond_ns).count(), 0u);
}

TEST(Windows, SayOverHowMuchTimeTheyAre) {
  Windows windows(1);
  EXPECT_EQ(windows.length_ns(Window::kStart, kSecond_ns), 0U);
  windows.record(0, 1, 10 * kSecond_ns);
  EXPECT_EQ(windows.length_ns(Window::k10s, 13 * kSecond_ns), 3 * kSecond_ns);
  EXPECT_EQ(windows.length_ns(Window::kStart, 90 * kSecond_ns), 80 * kSecond_ns);
  // What they hold is of no longer ago.
  for (uint64_t now_s = 91; now_s < 200; ++now_s) {
    const uint64_t ten_s = windows.length_ns(Window::k10s, now_s * kSecond_ns) / kSecond_ns;
    const uint64_t sixty_s = windows.length_ns(Window::k60s, now_s * kSecond_ns) / kSecond_ns;
    EXPECT_TRUE(ten_s >= 10 && ten_s <= 12) << ten_s;
    EXPECT_TRUE(sixty_s >= 60 && sixty_s <= 72) << sixty_s;
  }
}

TEST(Windows, AreEmptyAfterARest) {
  Windows windows(1);
  windows.record(0, 7, kSecond_ns);
  EXPECT_EQ(windows.view(0, Window::k10s, 5 * kSecond_ns).count(), 1u);
  EXPECT_EQ(windows.view(0, Window::k10s, 20 * kSecond_ns).count(), 0u);
  EXPECT_EQ(windows.view(0, Window::k60s, 20 * kSecond_ns).count(), 1u);
  EXPECT_EQ(windows.view(0, Window::k60s, 3'000'000 * kSecond_ns).count(), 0u);
  EXPECT_EQ(windows.view(0, Window::kStart, 3'000'000 * kSecond_ns).count(), 1u);
  windows.record(0, 7, 3'000'001 * kSecond_ns);
  EXPECT_EQ(windows.view(0, Window::k10s, 3'000'002 * kSecond_ns).count(), 1u);
}

// All of a write's moments, 10 us apart, the peer last.
WriteTimes ordinary() {
  WriteTimes times;
  times.received_ns = 1'000'000;
  times.prepared_ns = 1'010'000;
  times.compression_ns = 4'000;
  times.admitted_ns = 1'020'000;
  times.started_ns = 1'030'000;
  times.local_ns = 1'050'000;
  times.peer = true;
  times.trip = {1'040'000, 1'100'000, 1'110'000, 25'000, 15'000, 12'000, 0};
  times.done_ns = 1'120'000;
  return times;
}

uint64_t of(const StageTimes& stages, Stage stage) { return stages[static_cast<size_t>(stage)]; }

TEST(Stages, OfAWriteThatThePeerEndsLast) {
  const StageTimes stages = split(ordinary());
  const StageTimes expected{6'000,  4'000,  20'000, 10'000, 10'000, 0, 0,
                            23'000, 12'000, 10'000, 15'000, 0,      10'000};
  EXPECT_EQ(stages, expected);
}

// The peer opens what was sealed here, in about the same time.
TEST(Stages, EncryptionIsCutFromBothEnds) {
  WriteTimes times = ordinary();
  times.trip.seal_ns = 3'000;
  const StageTimes stages = split(times);
  EXPECT_EQ(of(stages, Stage::kCrypto), 6'000u);
  EXPECT_EQ(of(stages, Stage::kSend), 7'000u);
  EXPECT_EQ(of(stages, Stage::kPeerQueue), 7'000u);
  times.trip.seal_ns = 12'000;  // more than there was
  EXPECT_EQ(of(split(times), Stage::kCrypto), 20'000u);
}

// It waits in twinblock while the socket is full, and in the kernel behind that.
TEST(Stages, AQueueForTheLinkIsCutFromSendAndThenFromTheWire) {
  WriteTimes times = ordinary();
  times.trip.line_ns = 8'000;
  times.trip.ahead_ns = 14'000;
  const StageTimes stages = split(times);
  EXPECT_EQ(of(stages, Stage::kLinkQueue), 14'000u);
  EXPECT_EQ(of(stages, Stage::kSend), 0u);
  EXPECT_EQ(of(stages, Stage::kWire), 19'000u);
  EXPECT_EQ(of(stages, Stage::kStack), 12'000u);
  times.trip.ahead_ns = 1'000'000;  // more than there was
  EXPECT_EQ(of(split(times), Stage::kLinkQueue), 25'000u);
  EXPECT_EQ(of(split(times), Stage::kWire), 8'000u) << "its own time on the line is no queue";
  times.trip.way_ns = 5'000;
  EXPECT_EQ(of(split(times), Stage::kLinkQueue), 20'000u);
  EXPECT_EQ(of(split(times), Stage::kWire), 13'000u) << "and neither is the way";
  times.trip.line_ns = 1'000'000;
  EXPECT_EQ(of(split(times), Stage::kLinkQueue), 0u);
}

TEST(Stages, WhereTheLocalDiskEndsLastThePeerDoesNotCount) {
  WriteTimes times = ordinary();
  times.local_ns = 1'115'000;
  const StageTimes stages = split(times);
  EXPECT_EQ(of(stages, Stage::kLocalDisk), 85'000u);
  EXPECT_EQ(of(stages, Stage::kCompletion), 5'000u);
  for (const Stage stage :
       {Stage::kSend, Stage::kWire, Stage::kStack, Stage::kPeerQueue, Stage::kPeerDisk})
    EXPECT_EQ(of(stages, stage), 0u) << stage_name(stage);
}

// A delay in one place shows up in that stage and nowhere else.
TEST(Stages, ADelayShowsUpWhereItHappened) {
  constexpr uint64_t kDelay = 5'000'000;
  struct Case {
    Stage stage;
    void (*delay)(WriteTimes&);
  };
  const auto later = [](WriteTimes& times) {  // all behind the answer
    times.trip.answered_ns += kDelay;
    times.done_ns += kDelay;
  };
  static const auto from_trip = later;
  const std::vector<Case> cases{
      {Stage::kWire,
       [](WriteTimes& t) {
         t.trip.arrived_ns += kDelay;
         from_trip(t);
       }},
      {Stage::kPeerDisk,
       [](WriteTimes& t) {
         t.trip.arrived_ns += kDelay;
         t.trip.peer_ns += kDelay;
         t.trip.peer_disk_ns += kDelay;
         from_trip(t);
       }},
      {Stage::kPeerQueue,
       [](WriteTimes& t) {
         t.trip.arrived_ns += kDelay;
         t.trip.peer_ns += kDelay;
         from_trip(t);
       }},
      // The loop stands still before it reads the answer.
      {Stage::kQueue, [](WriteTimes& t) { from_trip(t); }},
  };
  const StageTimes before = split(ordinary());
  for (const Case& each : cases) {
    WriteTimes times = ordinary();
    each.delay(times);
    const StageTimes after = split(times);
    for (size_t i = 0; i < kStages; ++i)
      EXPECT_EQ(after[i] - before[i], static_cast<Stage>(i) == each.stage ? kDelay : 0)
          << stage_name(each.stage) << " / " << stage_name(static_cast<Stage>(i));
  }
}

TEST(Stages, AddUpWhateverTheClocksSay) {
  std::mt19937_64 random(7);
  const auto some = [&random] { return random() % 1000; };
  for (int round = 0; round < 20'000; ++round) {
    WriteTimes times;
    times.received_ns = some();
    times.prepared_ns = some();
    times.compression_ns = some();
    times.admitted_ns = some();
    times.started_ns = some();
    times.local_ns = random() % 3 == 0 ? 0 : some();
    times.peer = random() % 2 == 0;
    times.trip = {some(), some(), some(), some(), some(), some(), some(), some(), some()};
    times.done_ns = times.received_ns + some();
    const StageTimes stages = split(times);
    EXPECT_EQ(std::accumulate(stages.begin(), stages.end(), uint64_t{0}),
              times.done_ns - times.received_ns);
  }
}

TEST(SizeClasses, EndWhereTheyShould) {
  EXPECT_EQ(size_class_of(1), 0u);
  EXPECT_EQ(size_class_of(4 * kKiB), 0u);
  EXPECT_EQ(size_class_of(4 * kKiB + 1), 1u);
  EXPECT_EQ(size_class_of(64 * kKiB), 4u);
  EXPECT_EQ(size_class_of(64 * kKiB + 1), 5u);
  EXPECT_EQ(size_class_of(~uint64_t{0}), 5u);
}

TEST(WriteLatency, KeepsSizesApartAndTheSumExact) {
  WriteLatency latency;
  WriteTimes times = ordinary();
  latency.record(times, 0, 4 * kKiB, 1);
  latency.record(times, 0, 1 * kMiB, 1);
  times.done_ns += 3;
  latency.record(times, 0, 512, 1);
  const auto classes = latency.view(Window::kStart, times.done_ns);
  ASSERT_EQ(classes.size(), 2u);
  EXPECT_EQ(classes[0].size_class, 0u);
  EXPECT_EQ(classes[0].total.count, 2u);
  EXPECT_EQ(classes[0].total.sum_ns, 240'003u);
  uint64_t sum = 0;
  for (const Distribution& stage : classes[0].stages) sum += stage.sum_ns;
  EXPECT_EQ(sum, classes[0].total.sum_ns);
  EXPECT_EQ(classes[1].total.count, 1u);
  EXPECT_EQ(latency.total().count(), 3u);
  EXPECT_EQ(classes[0].bytes, 4 * kKiB + 512);
  EXPECT_EQ(classes[1].bytes, 1 * kMiB);
}

// Three that overlap, and two that each come a little after the end of the one before.
TEST(WriteLatency, KnowsForHowLongAnyWriteWasUnderWay) {
  WriteLatency latency;
  const auto write = [&latency](uint64_t received_ns, uint64_t done_ns) {
    WriteTimes times;
    times.received_ns = times.prepared_ns = times.admitted_ns = times.started_ns = received_ns;
    times.done_ns = done_ns;
    latency.record(times, 0, 4096, 1);
  };
  write(1'000, 2'000);
  write(1'200, 2'500);
  write(1'100, 3'000);
  write(3'100, 4'000);
  write(4'100, 4'100);
  const WriteLoad load = latency.load(Window::kStart, 5'000);
  EXPECT_EQ(load.busy_ns, 2'900u);
  EXPECT_NEAR(static_cast<double>(load.pause_p50_ns), 100, 2);
}

TEST(WriteLatency, KnowsHowManyWereUnderWayTogether) {
  WriteLatency latency;
  WriteTimes times;
  times.done_ns = kSecond_ns;
  for (size_t i = 0; i < 100; ++i) latency.record(times, 0, 4096, i < 90 ? 1 : 16);
  EXPECT_EQ(latency.load(Window::kStart, kSecond_ns).depth_p99, 16u);
}

// What an outage of a minute would leave behind, of ten, and so on.
TEST(WriteLatency, KnowsWhatWasWrittenInEachOfTheOutages) {
  WriteLatency latency;
  const auto seconds_ago = [](uint64_t seconds) { return (10'000 - seconds) * kSecond_ns; };
  uint64_t blocks = 0;
  for (size_t i = kOutageMinutes.size(); i-- > 0;) {  // one before each of the shorter ones
    const size_t before = i == 0 ? 0 : kOutageMinutes[i - 1];
    WriteTimes times;
    times.received_ns = times.prepared_ns = times.admitted_ns = times.started_ns = times.done_ns =
        seconds_ago(30 * (before + kOutageMinutes[i]));
    latency.record(times, blocks++ * 4096, 4096, 1);
  }
  const WriteLoad load = latency.load(Window::kStart, seconds_ago(0));
  for (size_t i = 0; i < kOutageMinutes.size(); ++i)
    EXPECT_NEAR(static_cast<double>(load.dirtied_bytes[i]) / UniqueBlocks::kBlock_bytes, static_cast<double>(i + 1), 0.3)
        << kOutageMinutes[i] << " minutes";
}

TEST(UniqueBlocks, CountsABlockOnceAndForgetsWhatIsOld) {
  UniqueBlocks blocks;
  uint64_t now = 5'000 * kSecond_ns;
  EXPECT_EQ(blocks.bytes(60, now), 0u);
  const auto near = [&](size_t minutes, double count) {
    const double found = static_cast<double>(blocks.bytes(minutes, now)) / UniqueBlocks::kBlock_bytes;
    EXPECT_NEAR(found, count, std::max(0.5, 0.06 * count)) << minutes << " minutes";
  };
  for (int round = 0; round < 5; ++round)
    for (uint64_t block = 0; block < 100; ++block) blocks.record(block * 4096, 4096, now);
  near(1, 100);
  blocks.record(4095, 2, now);  // two that were there
  near(1, 100);
  now += 5 * 60 * kSecond_ns;
  for (uint64_t mib = 0; mib < 200; ++mib) blocks.record(kGiB + mib * kMiB, kMiB, now);
  near(1, 51'200);
  near(10, 51'300);
  now += 58 * 60 * kSecond_ns;
  blocks.record(0, 4096, now);
  near(1, 1);
  near(10, 1);
  near(60, 51'201);
  now += 120 * 60 * kSecond_ns;
  near(60, 0);
}

TEST(StackEstimate, GoesByTheRateUntilThereAreSamples) {
  StackEstimate stack;
  EXPECT_EQ(stack.expected_ns(4096, 50'000, 0), 50'000u) << "nothing is known: no wire";
  EXPECT_EQ(stack.expected_ns(125'000, 1'500'000, 1'000'000'000), 500'000u);
  EXPECT_EQ(stack.expected_ns(125'000, 700'000, 1'000'000'000), 0u);
  stack.sampled({4096, 7'000, 3'000});
  EXPECT_NEAR(static_cast<double>(stack.expected_ns(1, 50'000, 0)), 10'000, 100);
  EXPECT_NEAR(static_cast<double>(stack.expected_ns(1'000'000, 50'000, 0)), 10'000, 100);
  for (int i = 0; i < 100; ++i) stack.sampled({64 * kKiB, 20'000, 10'000});
  EXPECT_NEAR(static_cast<double>(stack.expected_ns(1'000'000, 90'000, 0)), 30'000, 100);
  EXPECT_NEAR(static_cast<double>(stack.expected_ns(4096, 90'000, 0)), 10'000, 100);
}

// A link on which each sampled write waits for some 24 ms, and the kernels take 30 us.
TEST(StackEstimate, AWaitForTheLinkIsNotTheKernels) {
  StackEstimate stack;
  for (uint64_t i = 0; i < 40; ++i)
    stack.sampled({128 * kKiB, (20 + i % 8) * kMillisecond_ns, 10'000, true});
  EXPECT_NEAR(static_cast<double>(stack.expected_ns(128 * kKiB, 45 * kMillisecond_ns, 0)), 10'000, 100)
      << "what is known: the way back";
  // A write that finds the socket empty tells the kernels' part by itself.
  for (int i = 0; i < 40; ++i) stack.sampled({128 * kKiB, 20'000, 10'000, false});
  EXPECT_NEAR(static_cast<double>(stack.expected_ns(128 * kKiB, 200'000, 0)), 30'000, 1'500);
  stack.sampled({128 * kKiB, 5 * kMillisecond_ns, 10'000, true});
  EXPECT_NEAR(static_cast<double>(stack.expected_ns(128 * kKiB, 200'000, 0)), 30'000, 1'500);
}

TEST(StackEstimate, AWaitForAPeerThatDoesNotReadIsThePeers) {
  StackEstimate stack;
  EXPECT_EQ(stack.held_by_peer(), 0);
  for (int i = 0; i < 50; ++i)
    stack.sampled({64 * kKiB, kMillisecond_ns, 10'000, true, true});
  EXPECT_GT(stack.held_by_peer(), 0.9);
  for (int i = 0; i < 50; ++i)
    stack.sampled({64 * kKiB, kMillisecond_ns, 10'000, true, false});
  EXPECT_EQ(stack.held_by_peer(), 0);
}

TEST(SampledAlone, SaysNoMoreThanHoldsBothLatelyAndSinceTheStart) {
  SampledAlone alone;
  EXPECT_EQ(alone.share(), 0) << "not known";
  for (int i = 0; i < 100; ++i) alone.record(true);
  EXPECT_EQ(alone.share(), 1);
  for (int i = 0; i < 3; ++i) alone.record(false);
  EXPECT_LT(alone.share(), 0.9) << "lately";
  for (int i = 0; i < 100; ++i) alone.record(false);
  for (int i = 0; i < 100; ++i) alone.record(true);
  EXPECT_NEAR(alone.share(), 200.0 / 303, 0.001) << "since the start";
}

// The other clock stands elsewhere; answers take 20 us.
TEST(ArrivalEstimate, OfWhatLayInTheSocketGoesByTheOtherClock) {
  constexpr uint64_t kElsewhere = 5'000'000'000'000, kUnderWay = 20'000;
  ArrivalEstimate arrivals;
  uint64_t now = kSecond_ns;
  const auto sent_at = [&](uint64_t ns) { return ns + kElsewhere; };
  for (int i = 0; i < 100; ++i, now += 100'000)
    EXPECT_EQ(arrivals.arrived_ns(sent_at(now - kUnderWay), now, true), now);
  // Another one joined it 100 ms later.
  EXPECT_EQ(arrivals.arrived_ns(sent_at(now - kUnderWay), now + 100 * kMillisecond_ns, false), now);
  // A lone one that took longer did take longer.
  EXPECT_EQ(arrivals.arrived_ns(sent_at(now - kUnderWay), now + kMillisecond_ns, true),
            now + kMillisecond_ns);
}

TEST(ArrivalEstimate, FollowsAWireThatGetsSlowerAndClocksThatDriftApart) {
  ArrivalEstimate arrivals;
  uint64_t now = kSecond_ns, other = 77;
  for (int i = 0; i < 1000; ++i, now += kMillisecond_ns, other += kMillisecond_ns - 50) {
    // Three in each read, sent 100 us apart, the last of which came just now.
    const uint64_t under_way = i < 500 ? 20'000 : 5 * kMillisecond_ns;
    for (uint64_t each = 0; each < 3; ++each) {
      const uint64_t true_arrival = now - (2 - each) * 100'000;
      const uint64_t arrived =
          arrivals.arrived_ns(other - (2 - each) * 100'000 - under_way, now, false);
      if (i > 0 && i != 500) {
        EXPECT_NEAR(static_cast<double>(arrived), static_cast<double>(true_arrival), 51) << i;
      }
    }
  }
}

TEST(Histogram, CountsUpToManyBoundsAsUpToEach) {
  std::mt19937_64 random(3);
  Histogram histogram;
  std::vector<uint64_t> bounds{0,    1,      31,     32,        33,
                               1000, 64'000, 65'536, 1'000'000, uint64_t{1} << 40};
  std::vector<uint64_t> counts(bounds.size(), 77);
  histogram.counts_up_to(bounds, counts);
  EXPECT_EQ(counts, std::vector<uint64_t>(bounds.size(), 0)) << "empty";
  std::vector<uint64_t> values;
  for (int i = 0; i < 10'000; ++i) {
    values.push_back(random() >> (random() % 40 + 24));
    histogram.record(values.back());
  }
  histogram.counts_up_to(bounds, counts);
  for (size_t i = 0; i < bounds.size(); ++i) {
    uint64_t alone = 0;
    histogram.counts_up_to({&bounds[i], 1}, {&alone, 1});
    EXPECT_EQ(counts[i], alone) << bounds[i];
    const auto within = [&](double factor) {
      const double bound = factor * static_cast<double>(bounds[i]);
      return static_cast<uint64_t>(std::count_if(values.begin(), values.end(), [&](uint64_t value) {
        return static_cast<double>(value) <= bound;
      }));
    };
    EXPECT_GE(counts[i], within(0.96)) << bounds[i];
    EXPECT_LE(counts[i], within(1.04)) << bounds[i];
  }
}

}  // namespace
}  // namespace twinblock
