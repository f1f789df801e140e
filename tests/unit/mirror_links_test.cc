// Which link a frame takes, what a link is taken for, and when a lost one is tried again.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <deque>

#include "base/limits.h"
#include "mirror/link_choice.h"
#include "mirror/link_damping.h"
#include "mirror/link_meter.h"
#include "mirror/link_patience.h"
#include "mirror/own_lateness.h"

namespace twinblock {
namespace {

constexpr uint64_t kGigabit = 125'000'000;  // bytes a second

TEST(LinkChoice, WhatALinkLostGoesOverAnotherOne) {
  std::array<LinkLoad, 2> loads{{{0, 10 * kGigabit, 1000}, {0, kGigabit, kMillisecond_ns}}};
  loads[0].lost_it = true;
  EXPECT_EQ(choose_link(loads, 64 * kKiB, kSecond_ns), 1u);
  std::swap(loads[0], loads[1]);
  EXPECT_EQ(choose_link(loads, 64 * kKiB, kSecond_ns), 0u);
  EXPECT_EQ(choose_link(std::span(loads).last(1), 64 * kKiB, kSecond_ns), 0u) << "there is no other one";
}

TEST(LinkChoice, WhatALinkLostDoesNotWaitForASlowOne) {
  constexpr uint64_t kSlow = kGigabit / 1000;
  std::array<LinkLoad, 2> loads{{{0, 10 * kGigabit, 1000}, {0, kSlow, 1000}}};
  loads[0].lost_it = true;
  EXPECT_EQ(choose_link(loads, 4096, kSecond_ns), 1u);
  loads[1].in_flight_bytes = 2 * kSlow;
  EXPECT_EQ(choose_link(loads, 4096, kSecond_ns), 0u) << "two seconds of work lie before it there";
  loads[1] = {kUnprovenBytesMax, 10 * kGigabit, 0, false};
  EXPECT_EQ(choose_link(loads, 4096, kSecond_ns), 0u) << "nobody knows what the other one carries";
}

TEST(LinkChoice, TheFirstOfEqualLinks) {
  const std::array<LinkLoad, 2> loads{{{0, kGigabit, 1000}, {0, kGigabit, 1000}}};
  EXPECT_EQ(choose_link(loads, 4096), 0u);
}

TEST(LinkChoice, TheFasterOneWhileItHasLittleToDo) {
  std::array<LinkLoad, 2> loads{{{0, kGigabit, 1000}, {0, 10 * kGigabit, 1000}}};
  EXPECT_EQ(choose_link(loads, 64 * kKiB), 1u);
  loads[1].in_flight_bytes = 8 * 64 * kKiB;  // not yet enough
  EXPECT_EQ(choose_link(loads, 64 * kKiB), 1u);
  loads[1].in_flight_bytes = 10 * 64 * kKiB;
  EXPECT_EQ(choose_link(loads, 64 * kKiB), 0u);
}

TEST(LinkChoice, SmallFramesMindTheRoundTrip) {
  const std::array<LinkLoad, 2> loads{{{0, 10 * kGigabit, kMillisecond_ns}, {0, kGigabit, 50'000}}};
  EXPECT_EQ(choose_link(loads, 4096), 1u);
  EXPECT_EQ(choose_link(loads, kMiB), 0u);
}

TEST(LinkChoice, EqualLinksShareALongWriteEqually) {
  std::array<LinkLoad, 2> loads{{{0, kGigabit, 1000}, {0, kGigabit, 1000}}};
  for (uint64_t at = 0; at < kMiB; at += limits::kSplitPayloadBytes)
    loads[choose_link(loads, limits::kSplitPayloadBytes)].in_flight_bytes +=
        limits::kSplitPayloadBytes;
  EXPECT_EQ(loads[0].in_flight_bytes, kMiB / 2);
  EXPECT_EQ(loads[1].in_flight_bytes, kMiB / 2);
}

TEST(LinkChoice, ALinkOfWhichOnlyTheBestIsAssumedGetsLittleAtFirst) {
  std::array<LinkLoad, 2> loads{
      {{0, kGigabit / 4, 1000, true}, {0, LinkMeter::kRateUnknown_bytes_per_s, 1000, false}}};
  EXPECT_EQ(choose_link(loads, kMiB), 1u);
  loads[1].in_flight_bytes = kUnprovenBytesMax;
  EXPECT_EQ(choose_link(loads, kMiB), 0u);
  loads[1].proven = true;
  EXPECT_EQ(choose_link(loads, kMiB), 1u);
}

// A link that moves `rate` bytes a second, with `depth` frames of `bytes` in flight, for a while.
uint64_t run(LinkMeter& meter, uint64_t rate, size_t depth, uint64_t bytes, uint64_t& now) {
  std::deque<LinkMeter::Stamp> flying;
  for (size_t i = 0; i < depth; ++i) flying.push_back(meter.sent(bytes, now));
  for (int i = 0; i < 2000; ++i) {
    now += bytes * kSecond_ns / rate;
    meter.answered(flying.front(), 0, now, now);
    flying.pop_front();
    flying.push_back(meter.sent(bytes, now));
  }
  for (const LinkMeter::Stamp& stamp : flying)
    now += bytes * kSecond_ns / rate, meter.answered(stamp, 0, now, now);
  return meter.rate_bytes_per_s();
}

TEST(LinkMeter, KnowsARateWhenTheLinkIsBusy) {
  LinkMeter meter;
  uint64_t now = kSecond_ns;
  EXPECT_EQ(meter.rate_bytes_per_s(), LinkMeter::kRateUnknown_bytes_per_s);
  meter.round_trip(100'000, now, now);
  const uint64_t rate = run(meter, kGigabit, 16, 64 * kKiB, now);
  EXPECT_NEAR(static_cast<double>(rate), kGigabit, 0.1 * kGigabit);
  EXPECT_EQ(meter.in_flight_bytes(), 0u);
}

TEST(LinkMeter, SaysWhatIsAheadOfAFrameAndWhatCarriesIt) {
  LinkMeter meter(100'000'000);
  EXPECT_EQ(meter.sent(100'000, kSecond_ns).ahead_bytes, 0u);
  EXPECT_EQ(meter.sent(50'000, kSecond_ns).ahead_bytes, 100'000u);
  EXPECT_EQ(meter.carried_bytes_per_s(), 100'000'000u) << "as it is called";
  EXPECT_EQ(LinkMeter().carried_bytes_per_s(), 0u);
  uint64_t now = 0;
  meter.round_trip(100'000, now, now);
  run(meter, 60'000'000, 8, 64 * kKiB, now);
  EXPECT_NEAR(static_cast<double>(meter.carried_bytes_per_s()), 60e6, 2e6) << "as it has shown";
  LinkMeter lone(100'000'000);
  run(lone, 20'000'000, 1, 4096, now);
  EXPECT_EQ(lone.carried_bytes_per_s(), 100'000'000u);
}

TEST(LinkMeter, ALoneWriterSaysLittleOfTheRate) {
  LinkMeter meter(10 * kGigabit);
  uint64_t now = kSecond_ns;
  meter.round_trip(100'000, now, now);
  EXPECT_EQ(run(meter, kGigabit / 10, 1, 4096, now), 10 * kGigabit);
}

// The loop was busy elsewhere: answers have piled up, and come all at once. What is sent among them
// waits behind nothing any more, and is answered soon.
TEST(LinkMeter, AnswersThatHavePiledUpAreNoFastLink) {
  LinkMeter meter;
  uint64_t now = kSecond_ns;
  meter.round_trip(100'000, now, now);
  constexpr uint64_t kBytes = 64 * kKiB;
  constexpr uint64_t kEach_ns = kBytes * kSecond_ns / kGigabit;
  struct Flying {
    LinkMeter::Stamp stamp;
    uint64_t answered_ns;
  };
  std::deque<Flying> flying;
  uint64_t free_ns = now;  // when the link has moved all it has
  const auto send = [&] {
    free_ns = std::max(free_ns, now) + kEach_ns;
    flying.push_back({meter.sent(kBytes, now), free_ns});
  };
  for (int i = 0; i < 16; ++i) send();
  for (int turn = 0; turn < 500; ++turn) {
    // Now and then for long.
    now = std::max(now, flying.front().answered_ns) + (turn % 7 == 0 ? 8 * kMillisecond_ns : 0);
    while (!flying.empty() && flying.front().answered_ns <= now) {
      meter.answered(flying.front().stamp, 0, now, now);
      flying.pop_front();
      send();
      now += 1000;
    }
  }
  EXPECT_LT(meter.rate_bytes_per_s(), 2 * kGigabit);
  EXPECT_GT(meter.rate_bytes_per_s(), kGigabit / 2);
}

// `depth` frames of `bytes` under way over a link whose way there and back takes `way_ns`; the peer has each for
// `held_ns`, all at once. What the link is known to carry then.
struct FarLink {
  uint64_t rate_bytes_per_s, way_ns, held_ns = 0;
  uint64_t late_ns = 0;  // each tenth answer is seen so late

  uint64_t carried(LinkMeter& meter, size_t depth, uint64_t bytes, uint64_t& now) const {
    struct Flying {
      LinkMeter::Stamp stamp;
      uint64_t answered_ns;
    };
    std::deque<Flying> flying;
    uint64_t free_ns = now;
    const auto send = [&] {
      free_ns = std::max(free_ns, now) + bytes * kSecond_ns / rate_bytes_per_s;
      flying.push_back({meter.sent(bytes, now), free_ns + way_ns + held_ns});
    };
    while (flying.size() < depth) send();
    for (int i = 0; i < 2000; ++i) {
      const uint64_t arrived_ns = flying.front().answered_ns;
      now = std::max(now, arrived_ns + (i % 10 == 0 ? late_ns : 0));
      meter.answered(flying.front().stamp, held_ns, arrived_ns, now);
      flying.pop_front();
      send();
    }
    for (const Flying& each : flying) {
      now = std::max(now, each.answered_ns);
      meter.answered(each.stamp, held_ns, now, now);
    }
    return meter.carried_bytes_per_s();
  }
};

// Its way would hold more than is ever under way, were it a fast one.
TEST(LinkMeter, KnowsTheRateOfAFarLinkThatIsFull) {
  for (const uint64_t way_ns : {kMillisecond_ns, 5 * kMillisecond_ns, 20 * kMillisecond_ns}) {
    LinkMeter meter;
    uint64_t now = kSecond_ns;
    meter.round_trip(way_ns, now, now);
    const uint64_t carried = FarLink{kGigabit / 5, way_ns}.carried(meter, 8, 128 * kKiB, now);
    EXPECT_NEAR(static_cast<double>(carried), kGigabit / 5.0, 0.1 * kGigabit / 5) << way_ns;
  }
}

TEST(LinkMeter, AFarLinkWithRoomOnItIsNotFull) {
  for (const uint64_t held_ns : {uint64_t{0}, 50 * kMillisecond_ns}) {
    LinkMeter meter;
    uint64_t now = kSecond_ns;
    meter.round_trip(20 * kMillisecond_ns, now, now);
    EXPECT_EQ((FarLink{10 * kGigabit, 20 * kMillisecond_ns, held_ns}.carried(meter, 32, 64 * kKiB, now)), 0u)
        << held_ns;
    EXPECT_EQ(meter.rate_bytes_per_s(), LinkMeter::kRateUnknown_bytes_per_s);
  }
}

// A turn of the loop that is late, or a way that is uneven by less than a millisecond, is no wait for the link.
TEST(LinkMeter, AnAnswerThatIsSeenLateHasNotWaitedForTheLink) {
  LinkMeter meter;
  uint64_t now = kSecond_ns;
  meter.round_trip(kMillisecond_ns, now, now);
  const FarLink link{.rate_bytes_per_s = 10 * kGigabit, .way_ns = kMillisecond_ns, .late_ns = 20 * kMillisecond_ns};
  EXPECT_EQ(link.carried(meter, 8, 128 * kKiB, now), 0u);
  LinkMeter uneven;
  uneven.round_trip(kMillisecond_ns, now, now);
  const FarLink longer{.rate_bytes_per_s = 10 * kGigabit, .way_ns = kMillisecond_ns * 3 / 2};
  EXPECT_EQ(longer.carried(uneven, 4, 128 * kKiB, now), 0u);
}

// A connection that is new under load: nobody has seen a round trip yet.
TEST(LinkMeter, ALinkWhoseWayIsNotKnownIsNotFull) {
  for (const uint64_t nominal : {uint64_t{0}, 10 * kGigabit}) {
    LinkMeter meter(nominal);
    uint64_t now = kSecond_ns;
    const FarLink link{10 * kGigabit, 20 * kMillisecond_ns};
    EXPECT_EQ(link.carried(meter, 16, 128 * kKiB, now), nominal);
    meter.round_trip(20 * kMillisecond_ns, now - 20 * kMillisecond_ns, now);
    EXPECT_EQ(link.carried(meter, 16, 128 * kKiB, now), nominal);
  }
}

TEST(LinkMeter, FollowsAFarLinkThatBecomesSlower) {
  constexpr uint64_t kWay_ns = 20 * kMillisecond_ns;
  LinkMeter meter;
  uint64_t now = kSecond_ns;
  meter.round_trip(kWay_ns, now, now);
  (void)FarLink{kGigabit, kWay_ns}.carried(meter, 64, 128 * kKiB, now);
  const uint64_t carried = FarLink{kGigabit / 10, kWay_ns}.carried(meter, 8, 128 * kKiB, now);
  EXPECT_NEAR(static_cast<double>(carried), kGigabit / 10.0, 0.1 * kGigabit / 10);
}

// What it has shown goes on to hold when less is asked of it.
TEST(LinkMeter, ALinkThatWasFullIsRememberedWhenItHasRoom) {
  constexpr uint64_t kWay_ns = 5 * kMillisecond_ns;
  LinkMeter meter;
  uint64_t now = kSecond_ns;
  meter.round_trip(kWay_ns, now, now);
  const FarLink link{kGigabit, kWay_ns};
  (void)link.carried(meter, 16, 128 * kKiB, now);
  const uint64_t carried = link.carried(meter, 4, 64 * kKiB, now);
  EXPECT_NEAR(static_cast<double>(carried), kGigabit, 0.1 * kGigabit);
}

// Its heartbeats wait behind what is written, each of them.
TEST(LinkMeter, ALinkThatIsFullForLongStaysFull) {
  LinkMeter meter;
  uint64_t now = kSecond_ns;
  meter.round_trip(kMillisecond_ns, now, now);
  const FarLink link{kGigabit / 5, kMillisecond_ns};
  for (int i = 0; i < 3; ++i) {
    (void)link.carried(meter, 8, 128 * kKiB, now);
    meter.round_trip(40 * kMillisecond_ns, now - 40 * kMillisecond_ns, now);
  }
  EXPECT_EQ(meter.way_ns(), kMillisecond_ns);
  EXPECT_EQ(meter.round_trip_ns(), 40 * kMillisecond_ns);
  EXPECT_NEAR(static_cast<double>(link.carried(meter, 8, 128 * kKiB, now)), kGigabit / 5.0, 0.1 * kGigabit / 5);
}

// What had nothing before it says how long the way is, also when that becomes longer.
TEST(LinkMeter, FollowsAWayThatBecomesLonger) {
  LinkMeter meter;
  meter.round_trip(100, kSecond_ns, kSecond_ns);
  EXPECT_EQ(meter.way_ns(), 100u);
  uint64_t now = kSecond_ns + 3 * LinkMeter::kWindow_ns;
  const LinkMeter::Stamp stamp = meter.sent(4096, now);
  meter.round_trip(900, now, now + 900);
  EXPECT_EQ(meter.way_ns(), 100u) << "something was under way with it";
  meter.answered(stamp, 0, now + 1000, now + 1000);
  now += 1000;
  meter.round_trip(900, now - 1, now + 899);
  EXPECT_EQ(meter.way_ns(), 100u) << "something was when it was sent";
  meter.round_trip(900, now, now + 900);
  meter.round_trip(900, now, now + 900 + 2 * LinkMeter::kWindow_ns);
  EXPECT_EQ(meter.way_ns(), 900u);
  (void)meter.sent(4096, now);
  meter.round_trip(50, now, now + 50);
  EXPECT_EQ(meter.way_ns(), 50u) << "it can't be longer";
}

TEST(LinkMeter, FollowsALinkThatBecomesSlower) {
  LinkMeter meter;
  uint64_t now = kSecond_ns;
  meter.round_trip(100'000, now, now);
  (void)run(meter, 8 * kGigabit, 16, 64 * kKiB, now);
  now += 3 * LinkMeter::kWindow_ns;
  const uint64_t rate = run(meter, kGigabit, 16, 64 * kKiB, now);
  EXPECT_LT(rate, 2 * kGigabit);
}

TEST(LinkMeter, NominalIsTheMost) {
  LinkMeter meter(kGigabit);
  uint64_t now = kSecond_ns;
  EXPECT_LE(run(meter, 4 * kGigabit, 16, 64 * kKiB, now), kGigabit);
}

TEST(LinkMeter, TheRoundTripIsTheLeastOfTheLastMoments) {
  LinkMeter meter;
  EXPECT_EQ(meter.round_trip_ns(), 0u);
  meter.round_trip(100, kSecond_ns, kSecond_ns);
  meter.round_trip(900, kSecond_ns + 1, kSecond_ns + 1);
  EXPECT_EQ(meter.round_trip_ns(), 100u);
  meter.round_trip(500, kSecond_ns + 2 * LinkMeter::kWindow_ns, kSecond_ns + 2 * LinkMeter::kWindow_ns);
  EXPECT_EQ(meter.round_trip_ns(), 100u);
  meter.round_trip(600, kSecond_ns + 4 * LinkMeter::kWindow_ns, kSecond_ns + 4 * LinkMeter::kWindow_ns);
  EXPECT_EQ(meter.round_trip_ns(), 500u);
}

TEST(LinkDamping, ASteadyLinkIsTriedAtOnceAFlappingOneLaterAndLater) {
  LinkDamping damping;
  EXPECT_EQ(damping.lost(LinkDamping::kSteady_ns), 0u);
  EXPECT_EQ(damping.lost(kSecond_ns), LinkDamping::kPenaltyMin_ns);
  EXPECT_EQ(damping.lost(kSecond_ns), 2 * LinkDamping::kPenaltyMin_ns);
  for (int i = 0; i < 20; ++i) (void)damping.lost(kSecond_ns);
  EXPECT_EQ(damping.lost(kSecond_ns), LinkDamping::kPenaltyMax_ns);
  EXPECT_EQ(damping.lost(LinkDamping::kSteady_ns), 0u);
}

TEST(LinkDamping, WhoWasSteadySinceBeginsAnew) {
  LinkDamping damping;
  for (int i = 0; i < 20; ++i) (void)damping.lost(kSecond_ns);
  EXPECT_EQ(damping.lost(LinkDamping::kSteady_ns), 0u);
  EXPECT_EQ(damping.lost(kSecond_ns), LinkDamping::kPenaltyMin_ns);
}

TEST(LinkDamping, AttemptsThatFailBackOff) {
  LinkDamping damping;
  EXPECT_EQ(damping.failed(), LinkDamping::kRetryMin_ns);
  EXPECT_EQ(damping.failed(), 2 * LinkDamping::kRetryMin_ns);
  for (int i = 0; i < 20; ++i) (void)damping.failed();
  EXPECT_EQ(damping.failed(), LinkDamping::kRetryMax_ns);
  damping.joined();
  EXPECT_EQ(damping.failed(), LinkDamping::kRetryMin_ns);
}

constexpr uint64_t kMs = kMillisecond_ns;

TEST(OwnLateness, TimeInWhichTheLoopStoodStillDoesNotPass) {
  OwnLateness own;
  own.expect(200 * kMs);
  EXPECT_FALSE(own.looks(205 * kMs));  // timers are a little late
  EXPECT_EQ(own.passed_ns(100 * kMs, 205 * kMs), 105 * kMs);
  own.expect(300 * kMs);
  EXPECT_TRUE(own.looks(700 * kMs));
  EXPECT_EQ(own.passed_ns(100 * kMs, 700 * kMs), 200 * kMs);
  EXPECT_EQ(own.passed_ns(600 * kMs, 800 * kMs), 100 * kMs);  // began in the midst of it
  EXPECT_EQ(own.passed_ns(700 * kMs, 800 * kMs), 100 * kMs);
  EXPECT_EQ(own.passed_ns(900 * kMs, 800 * kMs), 0u);
  EXPECT_EQ(own.passed_ns(100 * kMs, 300 * kMs), 200 * kMs) << "before it";
  EXPECT_EQ(own.passed_ns(100 * kMs, 500 * kMs), 200 * kMs);
  EXPECT_EQ(own.total_ns(), 400 * kMs);
}

TEST(OwnLateness, ItCountsWhileItLasts) {
  OwnLateness own;
  own.expect(200 * kMs);
  EXPECT_EQ(own.passed_ns(100 * kMs, 1000 * kMs), 100 * kMs);
  EXPECT_EQ(own.passed_ns(400 * kMs, 1000 * kMs), 0u);
}

TEST(OwnLateness, OfWhatIsLongAgoTheSumIsKept) {
  OwnLateness own;
  uint64_t now = 0;
  for (size_t i = 0; i < 2 * OwnLateness::kKept; ++i) {
    own.expect(now + 10 * kMs);
    now += 110 * kMs;
    EXPECT_TRUE(own.looks(now));
  }
  EXPECT_EQ(own.passed_ns(0, now), 2 * OwnLateness::kKept * 10 * kMs);
}

// Else whoever waits for longer than what is remembered would wait for hours.
TEST(OwnLateness, WhatIsLongAgoDoesNotCountAsIfItHadAllBeenJustNow) {
  OwnLateness own;
  uint64_t now = 0;
  for (size_t i = 0; i < 40 * OwnLateness::kKept; ++i) {  // one fifth of the time
    own.expect(now + 80 * kMs);
    now += 100 * kMs;
    EXPECT_TRUE(own.looks(now));
  }
  for (const uint64_t asked_ns : {30 * kSecond_ns, 60 * kSecond_ns, 300 * kSecond_ns}) {
    const uint64_t passed_ns = own.passed_ns(now - asked_ns, now);
    EXPECT_NEAR(static_cast<double>(passed_ns), static_cast<double>(asked_ns) * 0.8, static_cast<double>(100 * kMs));
  }
}

TEST(LinkPatience, RaisedByRepeatedLossesThatWereNone) {
  LinkPatience patience(500 * kMs, 2500 * kMs);
  uint64_t now = kSecond_ns;
  const auto lose_wrongly = [&] {
    patience.given_up(now, false);
    now += LinkPatience::kBack_ns;
    return patience.returned(now);
  };
  EXPECT_FALSE(lose_wrongly());  // once may be anything
  EXPECT_EQ(patience.limit_ns(now), 500 * kMs);
  EXPECT_TRUE(lose_wrongly());
  EXPECT_EQ(patience.limit_ns(now), 1000 * kMs);
  EXPECT_TRUE(lose_wrongly());
  EXPECT_TRUE(lose_wrongly());
  EXPECT_EQ(patience.limit_ns(now), 2500 * kMs);  // and no more
  EXPECT_FALSE(lose_wrongly());
  EXPECT_TRUE(patience.raised(now));
  now += LinkPatience::kDecay_ns;
  EXPECT_EQ(patience.limit_ns(now), 2000 * kMs);
  now += 3 * LinkPatience::kDecay_ns;
  EXPECT_EQ(patience.limit_ns(now), 500 * kMs);
  EXPECT_FALSE(patience.raised(now));
}

TEST(LinkPatience, NotByALinkThatWasGone) {
  LinkPatience patience(500 * kMs, 2500 * kMs);
  uint64_t now = kSecond_ns;
  for (int i = 0; i < 5; ++i) {
    patience.given_up(now, false);
    now += LinkPatience::kBack_ns + 1;
    EXPECT_FALSE(patience.returned(now));
    // It may have been dead for as long as it was left alone, or for a moment.
    patience.given_up(now, true);
    EXPECT_FALSE(patience.returned(now + 1));
  }
  EXPECT_FALSE(patience.returned(now));  // up again after another kind of loss
}

}  // namespace
}  // namespace twinblock
