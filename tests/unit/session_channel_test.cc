#include <gtest/gtest.h>

#include "session/channel_phase.h"
#include "session/link.h"
#include "session/signs_of_life.h"
#include "session/trip_sample.h"

namespace twinblock {
namespace {

TEST(ChannelPhase, EachMayEnd) {
  for (size_t at = 0; at < kChannelPhases; ++at)
    EXPECT_TRUE(may_follow(static_cast<ChannelPhase>(at), ChannelPhase::kClosed));
}

TEST(LinkErrors, TellsEachOnceInAWhile) {
  LinkErrors errors;
  EXPECT_TRUE(errors.note("refused", 1));
  EXPECT_FALSE(errors.note("refused", 2));
  EXPECT_TRUE(errors.note("unreachable", 3));
  EXPECT_FALSE(errors.note("refused", 4)) << "two that take turns";
  EXPECT_EQ(errors.last(), "refused");
  EXPECT_TRUE(errors.note("unreachable", 4 + limits::kErrorRepeat_ns));
}

TEST(LinkErrors, WhatALostLinkSaidLastStays) {
  LinkErrors errors;
  (void)errors.note("refused", 1);
  errors.came_up();
  EXPECT_EQ(errors.last(), "") << "of before it was ever up";
  EXPECT_TRUE(errors.note("refused", 2)) << "news again";
  errors.lost("reset");
  errors.came_up();
  EXPECT_EQ(errors.last(), "reset");
  EXPECT_EQ(errors.losses(), 1u);
}

TEST(SignsOfLife, AQueueMovesWhereBytesHaveLeftAndWaitsWhereSomeHaveNot) {
  SignsOfLife life;
  (void)life.look_at_queue(100, 300);
  const auto some = life.look_at_queue(200, 300);
  EXPECT_TRUE(some.waits && some.moves);
  const auto none = life.look_at_queue(200, 300);
  EXPECT_TRUE(none.waits && !none.moves);
  const auto all = life.look_at_queue(300, 400);
  EXPECT_TRUE(!all.waits && all.moves);
}

SendMoments sent_at(uint64_t sent_ns, uint64_t acknowledged_ns = 0) {
  SendMoments moments;
  moments.sent_ns = sent_ns;
  moments.acknowledged_ns = acknowledged_ns;
  return moments;
}

TEST(TripSamples, ARequestIsCompleteWhenAllThreeHaveCome) {
  TripSamples samples;
  samples.begin(7, 4096, true);
  EXPECT_FALSE(samples.told({.request = 8}));
  EXPECT_TRUE(samples.told({.request = 7, .turnaround_ns = 5}));
  EXPECT_FALSE(samples.take_complete());
  EXPECT_TRUE(samples.sent(sent_at(10)));
  EXPECT_FALSE(samples.sent(sent_at(11))) << "once";
  EXPECT_FALSE(samples.take_complete());
  EXPECT_TRUE(samples.answered(7, 20, 21));
  const auto complete = samples.take_complete();
  ASSERT_TRUE(complete);
  EXPECT_EQ(complete->turnaround_ns, 5u);
  EXPECT_EQ(complete->moments.sent_ns, 10u);
  EXPECT_EQ(complete->read_ns, 21u);
  EXPECT_FALSE(samples.take_complete());
  EXPECT_FALSE(samples.acknowledged(sent_at(10), 40));
  EXPECT_TRUE(samples.acknowledged(sent_at(10, 30), 40)) << "may come later than all";
  EXPECT_FALSE(samples.acknowledged(sent_at(10, 30), 40));
}

constexpr uint64_t kTaken_ns = 1000 * kSecond_ns, kStep_ns = 30 * kSecond_ns;

// Of a write that took 700 us: whether it counts, when the kernel says that it went so much later than it did, and the
// peer how long it had it.
bool counts(int64_t later_ns, const wire::TimesFrame& peer) {
  TripSamples samples;
  samples.begin(7, 65536, true);
  SendMoments moments;
  moments.taken_ns = kTaken_ns;
  moments.queued_ns = moments.sent_ns = kTaken_ns + 10'000 + static_cast<uint64_t>(later_ns);
  EXPECT_TRUE(samples.sent(moments));
  EXPECT_TRUE(samples.answered(7, kTaken_ns + 690'000, kTaken_ns + 700'000));
  EXPECT_TRUE(samples.told(peer));
  return samples.take_complete().has_value();
}

// One such sample takes the wire from a link's figures for minutes.
TEST(TripSamples, OneInWhichAClockWasSetIsNone) {
  const wire::TimesFrame sound{
      .request = 7, .turnaround_ns = 100'000, .receive_ns = 20'000, .send_ns = 10'000, .queue_ns = 2'000};
  EXPECT_TRUE(counts(0, sound));
  EXPECT_TRUE(counts(-20'000, sound)) << "the wall clock is read apart from ours";
  EXPECT_FALSE(counts(kStep_ns, sound));
  EXPECT_FALSE(counts(-static_cast<int64_t>(kStep_ns), sound));
  for (auto set : {&wire::TimesFrame::turnaround_ns, &wire::TimesFrame::receive_ns, &wire::TimesFrame::send_ns,
                   &wire::TimesFrame::queue_ns}) {
    wire::TimesFrame theirs = sound;
    theirs.*set += kStep_ns;
    EXPECT_FALSE(counts(0, theirs));
  }
}

TEST(TripSamples, AnAcknowledgementBesideAClockThatWasSetIsNone) {
  const auto counts = [](uint64_t sent_ns, uint64_t acknowledged_ns) {
    TripSamples samples;
    samples.begin(7, 65536, true);
    SendMoments moments;
    moments.taken_ns = kTaken_ns;
    moments.sent_ns = sent_ns;
    moments.acknowledged_ns = acknowledged_ns;
    EXPECT_TRUE(samples.sent(moments));
    return samples.acknowledged(moments, kTaken_ns + 800'000);
  };
  const uint64_t sent_ns = kTaken_ns + 10'000, acknowledged_ns = kTaken_ns + 600'000;
  EXPECT_TRUE(counts(sent_ns, acknowledged_ns));
  EXPECT_FALSE(counts(sent_ns, acknowledged_ns + kStep_ns));
  EXPECT_FALSE(counts(sent_ns, acknowledged_ns - kStep_ns));
  EXPECT_FALSE(counts(sent_ns + kStep_ns, acknowledged_ns));
  EXPECT_FALSE(counts(sent_ns - kStep_ns, acknowledged_ns));
}

TEST(TripSamples, AnAnswerTakesTheRequestsPlace) {
  TripSamples samples;
  samples.begin(7, 4096, true);
  samples.begin_answer({3, 1, 2, 3});
  EXPECT_FALSE(samples.answered(7, 20, 21));
  const auto answer = samples.take_answer();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->sequence, 3u);
  EXPECT_FALSE(samples.take_answer());
}

}  // namespace
}  // namespace twinblock
