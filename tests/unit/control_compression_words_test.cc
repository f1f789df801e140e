// The sentence about what compression decided: one for each mode and reason.
#include <gtest/gtest.h>

#include "base/units.h"
#include "control/compression_words.h"

namespace twinblock {
namespace {

using Reason = CompressionDecision::Reason;

CompressionDecision decided(Reason reason, bool pays) {
  return {.reason = reason,
          .rate_bytes_per_s = 100 * kMiB,
          .piece_bytes_max = 64 * kKiB,
          .pieces_together = 32,
          .raw_ns = 560'000,
          .compressed_ns = 430'000,
          .pays = pays,
          .sent_per_million = 340'000};
}

TEST(CompressionWords, AnOrderIsSaidAsAnOrder) {
  EXPECT_EQ(compression_words(Compression::kOff, {}), "everything travels raw, as ordered");
  EXPECT_EQ(compression_words(Compression::kOn, {}), "everything that shrinks is compressed, as ordered");
}

TEST(CompressionWords, EachReasonHasItsSentence) {
  const auto words = [](Reason reason, bool pays) {
    return compression_words(Compression::kAuto, decided(reason, pays));
  };
  EXPECT_EQ(words(Reason::kNone, false), "nothing was written yet");
  EXPECT_EQ(words(Reason::kRateUnknown, false), "raw: what the links carry is not known yet");
  EXPECT_EQ(words(Reason::kLinksIdle, false),
            "everything travels raw: what is written fills less than a quarter of the links' 100 MiB/s, so that "
            "compressing it would only cost CPU time");
  EXPECT_EQ(words(Reason::kRandom, false), "pieces of up to 64 KiB travel raw: the latest looks random");
  EXPECT_EQ(words(Reason::kPays, true),
            "pieces of up to 64 KiB are compressed: at 100 MiB/s 32 at a time take 560 us raw, 430 us compressed (to "
            "34% lately)");
  for (const Reason reason : {Reason::kNoGain, Reason::kRetry})
    EXPECT_EQ(words(reason, false).substr(0, 37), "pieces of up to 64 KiB travel raw: at");
}

TEST(CompressionWords, APieceAloneIsSaidSo) {
  CompressionDecision alone = decided(Reason::kPays, true);
  alone.pieces_together = 1;
  alone.sent_per_million = 0;
  EXPECT_EQ(compression_words(Compression::kAuto, alone),
            "pieces of up to 64 KiB are compressed: at 100 MiB/s they take 560 us raw, 430 us compressed");
}

}  // namespace
}  // namespace twinblock
