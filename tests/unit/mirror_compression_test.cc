// Whether a piece is compressed, from made-up figures of links and processors.
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "base/units.h"
#include "mirror/compression_policy.h"
#include "mirror/link_demand.h"

namespace twinblock {
namespace {

using Bytes = std::vector<std::byte>;
using Reason = CompressionDecision::Reason;

constexpr size_t kPiece = 64 * kKiB;
constexpr uint64_t kGigabit = 118'000'000;
constexpr uint64_t kLoopback = 2'000'000'000;

Bytes random_bytes(size_t length, unsigned seed = 1) {
  std::mt19937 random(seed);
  Bytes bytes(length);
  for (std::byte& b : bytes) b = static_cast<std::byte>(random());
  return bytes;
}

Bytes patterned(size_t length, size_t period, size_t random_part) {
  Bytes bytes = random_bytes(length);
  for (size_t i = 0; i < length; ++i)
    if (i % period >= random_part) bytes[i] = std::byte{0};
  return bytes;
}

// Pieces as a worker treats them; how many of `count` were tried.
size_t run(CompressionPolicy& policy, const Bytes& piece, uint64_t rate, size_t count,
           double speed_bytes_per_s, double share) {
  size_t tried = 0;
  for (size_t i = 0; i < count; ++i) {
    const CompressionPolicy::Choice choice = policy.choose(piece, {rate, true});
    if (!choice.compress) continue;
    ++tried;
    const auto took_ns =
        static_cast<uint64_t>(static_cast<double>(piece.size()) * 1e9 / speed_bytes_per_s);
    policy.tried(
        choice, piece.size(),
        share >= 0.875 ? 0 : static_cast<size_t>(static_cast<double>(piece.size()) * share),
        took_ns);
  }
  return tried;
}

TEST(Coincidence, RandomBytesAreToldFromOthersWhateverTheirPatternsPeriod) {
  for (const size_t length : {512u, 4096u, 12288u, 65536u, 131072u, 1048576u}) {
    for (unsigned seed = 0; seed < 50; ++seed)
      ASSERT_LT(coincidence(random_bytes(length, seed)), 1.4) << length;
    for (const size_t period : {512u, 1024u, 4096u}) {
      if (period * 2 > length) continue;
      EXPECT_GT(coincidence(patterned(length, period, period / 3)), 10) << length << ' ' << period;
    }
    EXPECT_GT(coincidence(patterned(length, 512, 384)), 3) << "a quarter of it is zeroes";
  }
  EXPECT_GT(coincidence(Bytes(4096)), 200);
  EXPECT_GT(coincidence(Bytes(1)), 0);
}

TEST(Coincidence, BytesOfFewerThanEightBitsCount) {
  Bytes seven = random_bytes(65536);
  for (std::byte& b : seven) b &= std::byte{0x7F};
  EXPECT_NEAR(coincidence(seven), 2, 0.3);
}

TEST(Policy, OffAndOnDoNotLookAtTheData) {
  CompressionPolicy policy({Compression::kOff, 1});
  EXPECT_FALSE(policy.choose(Bytes(kPiece), {kGigabit, true}).compress);
  policy.set({Compression::kOn, 1});
  EXPECT_TRUE(policy.choose(random_bytes(kPiece), {kLoopback, true}).compress);
}

TEST(Policy, AutoCompressesForASlowLinkAndNotForAFastOne) {
  CompressionPolicy policy({Compression::kAuto, 1});
  const Bytes piece = patterned(kPiece, 512, 170);
  EXPECT_EQ(run(policy, piece, kGigabit, 1000, 500e6, 0.34), 1000u);
  EXPECT_LT(run(policy, piece, kLoopback, 1000, 500e6, 0.34), 20u);
  EXPECT_EQ(run(policy, piece, kGigabit, 100, 500e6, 0.34), 100u) << "back at once";
}

TEST(Policy, AutoDoesNothingWhileNobodyKnowsWhatTheLinksCarry) {
  CompressionPolicy policy({Compression::kAuto, 1});
  EXPECT_FALSE(policy.choose(patterned(kPiece, 512, 170), {0, true}).compress);
}

TEST(Policy, AutoLeavesLinksAloneThatHaveTimeToSpare) {
  CompressionPolicy policy({Compression::kAuto, 1});
  const Bytes piece = patterned(kPiece, 512, 170);
  for (int i = 0; i < 1000; ++i) EXPECT_FALSE(policy.choose(piece, {kGigabit, false}).compress);
  EXPECT_EQ(policy.decision().reason, Reason::kLinksIdle);
  EXPECT_EQ(policy.decision().rate_bytes_per_s, kGigabit);
  EXPECT_TRUE(policy.choose(piece, {kGigabit, true}).compress);
  policy.set({Compression::kOn, 1});
  EXPECT_TRUE(policy.choose(piece, {kGigabit, false}).compress) << "ordered";
}

// Writes of 64 KiB at an even rate, for `seconds`; for how many of them the link was busy.
double busy_share(LinkDemand& demand, uint64_t& now_ns, uint64_t bytes_per_s, double seconds) {
  const auto count =
      static_cast<size_t>(static_cast<double>(bytes_per_s) * seconds / static_cast<double>(kPiece));
  size_t busy = 0;
  for (size_t i = 0; i < count; ++i) {
    demand.begin(kPiece, now_ns);
    demand.end(kPiece);
    if (demand.busy(kGigabit)) ++busy;
    now_ns += kPiece * kSecond_ns / bytes_per_s;
  }
  return static_cast<double>(busy) / static_cast<double>(count);
}

TEST(LinkDemand, IsBusyFromAQuarterOfTheRateOn) {
  for (const uint64_t percent : {1u, 5u, 20u, 30u, 100u}) {
    LinkDemand demand;
    uint64_t now_ns = 1'000'000'000'000;
    busy_share(demand, now_ns, kGigabit * percent / 100, 1);
    EXPECT_EQ(busy_share(demand, now_ns, kGigabit * percent / 100, 5), percent > 25 ? 1 : 0)
        << percent;
  }
}

TEST(LinkDemand, FillsTheLinksFromThreeQuartersOfTheRateOn) {
  for (const uint64_t percent : {50u, 70u, 80u, 150u}) {
    LinkDemand demand;
    uint64_t now_ns = 1'000'000'000'000;
    busy_share(demand, now_ns, kGigabit * percent / 100, 5);
    EXPECT_EQ(demand.full(kGigabit), percent > 75) << percent;
    EXPECT_EQ(demand.under_way_bytes(), 0U);
  }
}

TEST(LinkDemand, NoticesABurstAndItsEnd) {
  LinkDemand demand;
  uint64_t now_ns = 1'000'000'000'000;
  EXPECT_EQ(busy_share(demand, now_ns, kGigabit / 50, 2), 0);
  EXPECT_GT(busy_share(demand, now_ns, kGigabit, 0.3), 0.85);
  busy_share(demand, now_ns, kGigabit / 50, 0.3);
  EXPECT_EQ(busy_share(demand, now_ns, kGigabit / 50, 2), 0);
  EXPECT_GT(busy_share(demand, now_ns, kGigabit, 0.3), 0.85);
  now_ns += 10 * kSecond_ns;
  demand.begin(kPiece, now_ns);
  EXPECT_FALSE(demand.busy(kGigabit)) << "long ago";
  EXPECT_EQ(demand.under_way_bytes(), kPiece);
}

TEST(LinkDemand, OfAnUnknownRateIsBusy) {
  const LinkDemand demand;
  EXPECT_TRUE(demand.busy(0));
}

TEST(Policy, RandomDataIsNotTriedAndCounted) {
  CompressionPolicy policy({Compression::kAuto, 1});
  const Bytes piece = random_bytes(kPiece);
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(policy.choose(piece, {kGigabit, true}).compress);
  EXPECT_EQ(policy.figures().incompressible_bytes, 100 * kPiece);
}

TEST(Policy, OfAMixtureOnlyTheCompressiblePartIsTried) {
  CompressionPolicy policy({Compression::kAuto, 1});
  const Bytes random = random_bytes(kPiece);
  const Bytes text = patterned(kPiece, 512, 170);
  for (int i = 0; i < 200; ++i) {
    EXPECT_EQ(run(policy, random, kGigabit, 1, 500e6, 1), 0u);
    EXPECT_EQ(run(policy, text, kGigabit, 1, 500e6, 0.34), 1u);
  }
}

// Data of a little coincidence but that does not shrink, among text: what the one does says
// nothing of the other.
TEST(Policy, WhatShrinksIsCompressedAllTheSameBesideWhatOnlyLooksAsIfItDid) {
  CompressionPolicy policy({Compression::kAuto, 1});
  const Bytes doubtful = patterned(kPiece, 512, 488);
  const Bytes text = patterned(kPiece, 512, 170);
  ASSERT_GT(coincidence(doubtful), 1.5);
  ASSERT_LT(coincidence(doubtful), 2);
  size_t doubtful_tried = 0;
  for (int i = 0; i < 1000; ++i) {
    doubtful_tried += run(policy, doubtful, kGigabit, 1, 500e6, 1);
    EXPECT_EQ(run(policy, text, kGigabit, 1, 500e6, 0.34), 1u);
  }
  EXPECT_LT(doubtful_tried, 20u);
}

TEST(Policy, WhatWasOrderedToBeCompressedSaysNothingOfWhatPays) {
  CompressionPolicy policy({Compression::kOn, 1});
  run(policy, random_bytes(kPiece), kGigabit, 100, 500e6, 1);
  policy.set({Compression::kAuto, 1});
  EXPECT_EQ(run(policy, patterned(kPiece, 512, 170), kGigabit, 100, 500e6, 0.34), 100u);
}

// Looks compressible by its bytes, but is not: tried ever more seldom.
TEST(Policy, WhatDoesNotShrinkIsTriedSeldomAndFoundOutWhenItDoesAgain) {
  CompressionPolicy policy({Compression::kAuto, 1});
  const Bytes piece = patterned(kPiece, 512, 400);
  run(policy, piece, kGigabit, 100, 500e6, 1);
  EXPECT_LT(run(policy, piece, kGigabit, 1000, 500e6, 1), 20u);
  // Within a second of writes at the rate of the link.
  run(policy, piece, kGigabit, 1800, 500e6, 0.34);
  EXPECT_EQ(run(policy, piece, kGigabit, 100, 500e6, 0.34), 100u);
}

// Compressing a lone piece takes as long as sending it raw; of many, the wire has the most to do.
TEST(Policy, WherePiecesWaitForFullLinksTheSlowerOfWireAndProcessorCounts) {
  CompressionPolicy policy({Compression::kAuto, 1});
  const Bytes piece = patterned(kPiece, 512, 170);
  for (int i = 0; i < 50; ++i) policy.peer_took(kPiece, false, 20'000);
  for (int i = 0; i < 50; ++i) policy.peer_took(kPiece, true, 160'000);
  constexpr double kSpeed = 300e6;
  run(policy, piece, kGigabit, 100, kSpeed, 0.37);
  EXPECT_LT(run(policy, piece, kGigabit, 1000, kSpeed, 0.37), 20u);
  for (const uint64_t together : {2u, 4u, 32u}) {
    EXPECT_TRUE(policy.choose(piece, {kGigabit, true, together * kPiece}).compress) << together;
    EXPECT_TRUE(policy.decision().pays);
  }
  EXPECT_EQ(policy.decision().pieces_together, 32u);
  // A processor that is slower than the wire.
  policy.set({Compression::kAuto, 19});
  for (int i = 0; i < 50; ++i) policy.peer_took(kPiece, true, 160'000);
  run(policy, piece, kGigabit, 1000, 50e6, 0.30);
  size_t tried = 0;
  for (int i = 0; i < 1000; ++i)
    tried += policy.choose(piece, {kGigabit, true, 32 * kPiece}).compress ? 1 : 0;
  EXPECT_LT(tried, 20u);
}

TEST(Policy, AHighLevelIsFoundToBeTooSlow) {
  CompressionPolicy policy({Compression::kAuto, 19});
  const Bytes piece = patterned(kPiece, 512, 170);
  EXPECT_LT(run(policy, piece, kGigabit, 1000, 5e6, 0.30), 20u);
  policy.set({Compression::kAuto, 1});
  EXPECT_EQ(run(policy, piece, kGigabit, 100, 500e6, 0.34), 100u) << "its figures are forgotten";
}

// Two hand-overs at the peer take longer than the wire saves.
TEST(Policy, WhatDoesNotDependOnTheLengthWeighsMoreForShortPieces) {
  CompressionPolicy policy({Compression::kAuto, 1});
  const Bytes piece = patterned(4096, 512, 170);
  for (int i = 0; i < 50; ++i) policy.peer_took(4096, false, 10'000);
  for (int i = 0; i < 50; ++i) policy.peer_took(4096, true, 40'000);
  EXPECT_LT(run(policy, piece, kGigabit, 500, 600e6, 0.34), 20u);
  EXPECT_EQ(run(policy, piece, kGigabit / 10, 500, 600e6, 0.34), 500u);
}

TEST(Policy, WhatThePeersQueuesCostIsNotPutDownToCompression) {
  CompressionPolicy policy({Compression::kAuto, 1});
  const Bytes piece = patterned(kPiece, 512, 170);
  policy.peer_took(kPiece, false, 20'000);
  for (uint64_t i = 0; i < 200; ++i)
    policy.peer_took(kPiece, true, i % 4 == 0 ? 60'000 : 2'000'000);
  EXPECT_EQ(run(policy, piece, kGigabit, 100, 600e6, 0.34), 100u);
}

TEST(Policy, ASlowPeerIsAReasonNotTo) {
  CompressionPolicy policy({Compression::kAuto, 1});
  const Bytes piece = patterned(kPiece, 512, 170);
  for (int i = 0; i < 50; ++i) policy.peer_took(kPiece, false, 20'000);
  EXPECT_EQ(run(policy, piece, kGigabit, 100, 500e6, 0.34), 100u);
  for (int i = 0; i < 50; ++i) policy.peer_took(kPiece, true, 500'000);
  EXPECT_LT(run(policy, piece, kGigabit, 500, 500e6, 0.34), 20u);
}

TEST(Policy, OneInterruptedPieceChangesLittle) {
  CompressionPolicy policy({Compression::kAuto, 1});
  const Bytes piece = patterned(kPiece, 512, 170);
  run(policy, piece, kGigabit, 100, 500e6, 0.34);
  policy.tried(policy.choose(piece, {kGigabit, true}), kPiece, kPiece / 3, 50 * kMillisecond_ns);
  EXPECT_EQ(run(policy, piece, kGigabit, 100, 500e6, 0.34), 100u);
}

TEST(Policy, SaysWhatItDecidedAndWhy) {
  CompressionPolicy policy({Compression::kAuto, 1});
  EXPECT_EQ(policy.decision().reason, Reason::kNone);
  const Bytes piece = patterned(kPiece, 512, 170);
  run(policy, piece, kGigabit, 10, 500e6, 0.34);
  const CompressionDecision slow = policy.decision();
  EXPECT_EQ(slow.reason, Reason::kPays);
  EXPECT_TRUE(slow.pays);
  EXPECT_EQ(slow.piece_bytes_max, kPiece);
  EXPECT_LT(slow.compressed_ns, slow.raw_ns);
  EXPECT_NEAR(static_cast<double>(slow.sent_per_million), 340e3, 10e3);
  run(policy, piece, kLoopback, 10, 500e6, 0.34);
  EXPECT_FALSE(policy.decision().pays);
  EXPECT_GT(policy.decision().compressed_ns, policy.decision().raw_ns);
  (void)policy.choose(random_bytes(kPiece), {kGigabit, true});
  EXPECT_EQ(policy.decision().reason, Reason::kRandom);
}

}  // namespace
}  // namespace twinblock
