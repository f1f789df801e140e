// The pace of a resync.
#include "volume/pacer.h"

#include <gtest/gtest.h>

namespace twinblock {
namespace {

constexpr uint64_t kRun = limits::kResyncRunBytesMax;

TEST(Pacer, ByItselfTakesWhatClientsLeave) {
  Pacer pacer;
  const auto alone = pacer.allowance(false, kSecond_ns);
  const auto beside = pacer.allowance(true, kSecond_ns);
  EXPECT_EQ(alone.runs, limits::kResyncRunsMax);
  EXPECT_EQ(alone.run_bytes, kRun);
  EXPECT_LT(beside.runs * beside.run_bytes, alone.runs * alone.run_bytes);
  EXPECT_GT(beside.runs, 0u) << "a busy client does not stop it";
}

TEST(Pacer, PausesAndGoesOnAsBefore) {
  Pacer pacer;
  pacer.set_rate(10 * kMiB);
  pacer.pause();
  EXPECT_EQ(pacer.allowance(false, kSecond_ns).runs, 0u);
  pacer.resume();
  EXPECT_EQ(pacer.rate_bytes_per_s(), 10 * kMiB);
  EXPECT_GT(pacer.allowance(false, 2 * kSecond_ns).runs, 0u);
}

// Runs as often as it is allowed to, asked every `step_ns`, for `seconds`.
uint64_t bytes_run(Pacer& pacer, uint64_t seconds, uint64_t step_ns) {
  uint64_t bytes = 0;
  const uint64_t begin = 100 * kSecond_ns;
  for (uint64_t now = begin; now < begin + seconds * kSecond_ns; now += step_ns) {
    while (pacer.allowance(false, now).runs > 0) {
      pacer.began(kRun);
      bytes += kRun;
    }
  }
  return bytes;
}

TEST(Pacer, KeepsARateHoweverOftenItIsAsked) {
  for (const uint64_t step_ns :
       {100 * kMicrosecond_ns, 5 * kMillisecond_ns, 50 * kMillisecond_ns}) {
    for (const uint64_t rate : {1 * kMiB, 64 * kMiB, 1 * kGiB}) {
      Pacer pacer;
      pacer.set_rate(rate);
      const uint64_t bytes = bytes_run(pacer, 10, step_ns);
      EXPECT_LE(bytes, rate * 10 + rate / 10 + kRun) << "rate " << rate << ", step " << step_ns;
      EXPECT_GE(bytes, rate * 9 - kRun) << "rate " << rate << ", step " << step_ns;
    }
  }
}

TEST(Pacer, SavesNothingUpWhileNobodyAsks) {
  Pacer pacer;
  pacer.set_rate(10 * kMiB);
  (void)bytes_run(pacer, 1, kMillisecond_ns);
  uint64_t burst = 0;
  while (pacer.allowance(false, 1000 * kSecond_ns).runs > 0) {
    pacer.began(kRun);
    burst += kRun;
  }
  EXPECT_LE(burst, 1 * kMiB + kRun) << "a tenth of a second's worth";
}

TEST(Pacer, ARateCountsFromItsOrderOn) {
  Pacer pacer;
  for (int i = 0; i < 4096; ++i) pacer.began(kRun);  // 1 GiB, by itself
  pacer.set_rate(10 * kMiB);
  EXPECT_GT(bytes_run(pacer, 1, kMillisecond_ns), 8 * kMiB);
}

}  // namespace
}  // namespace twinblock
