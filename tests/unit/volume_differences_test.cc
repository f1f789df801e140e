// Differences: what a resync leaves for later, as its source's disk can't be read there.
#include "volume/differences.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/limits.h"

namespace twinblock {
namespace {

constexpr uint64_t kBlock = limits::kBlockBytes;
constexpr uint64_t kVolumeBytes = 100 * kBlock + 512;

using Runs = std::vector<std::pair<uint64_t, uint64_t>>;

// By the number of the first block, and of the first behind it.
Runs readable(const Differences& differences) {
  Runs runs;
  uint64_t from = 0;
  while (const auto run = differences.next_readable(from)) {
    runs.emplace_back(run->begin_bytes / kBlock, (run->end_bytes + kBlock - 1) / kBlock);
    from = run->end_bytes;
  }
  return runs;
}

ByteRange block(uint64_t number) { return {number * kBlock, std::min((number + 1) * kBlock, kVolumeBytes)}; }

TEST(Differences, WhatCanNotBeReadIsMissedAndLeftOut) {
  Differences differences(kVolumeBytes);
  differences.missed(0, 10 * kBlock);
  differences.missed(100 * kBlock, 512);
  for (const uint64_t number : {0, 4, 5, 100}) differences.found_unreadable(block(number));
  EXPECT_EQ(readable(differences), (Runs{{1, 4}, {6, 10}}));
  EXPECT_FALSE(differences.none_readable());
  EXPECT_FALSE(differences.next_readable(4 * kBlock, 6 * kBlock).has_value());
  differences.synced({kBlock, 4 * kBlock});
  differences.synced({6 * kBlock, 10 * kBlock});
  EXPECT_TRUE(differences.none_readable());
  EXPECT_FALSE(differences.none_known());
  EXPECT_EQ(differences.dirty().set_blocks(), 4u);
  differences.try_unreadable_again();
  EXPECT_EQ(readable(differences), (Runs{{0, 1}, {4, 6}, {100, 101}}));
}

TEST(Differences, WhatIsWrittenInPartIsTriedAgainAndStillMissed) {
  Differences differences(kVolumeBytes);
  differences.missed(0, kVolumeBytes);
  for (uint64_t number = 0; number <= 100; ++number) differences.found_unreadable(block(number));
  differences.acknowledged(3 * kBlock - 1, kBlock + 2);
  differences.acknowledged(100 * kBlock, 512);
  EXPECT_EQ(readable(differences), (Runs{{2, 5}, {100, 101}}));
  EXPECT_EQ(differences.dirty().set_blocks(), 101u);
}

TEST(Differences, WhatIsNotMissedIsNotLeftForLater) {
  Differences differences(kVolumeBytes);
  differences.found_unreadable(block(1));
  EXPECT_TRUE(differences.unreadable().empty());
  differences.missed(kBlock, kBlock);
  differences.found_unreadable(block(1));
  differences.synced(block(1));
  EXPECT_TRUE(differences.unreadable().empty());
}

TEST(Differences, ThePeerMayHaveWhatWasToBeComparedAndLacksWhatIsKnown) {
  Differences differences(kVolumeBytes);
  EXPECT_FALSE(differences.peer_may_have_unreadable()) << "there is none";
  differences.may_differ(8 * kBlock, 8 * kBlock);
  differences.missed(16 * kBlock, kBlock);
  for (const uint64_t number : {9, 14, 15}) differences.found_unreadable(block(number));
  EXPECT_TRUE(differences.peer_may_have_unreadable());
  differences.found_unreadable(block(16));
  EXPECT_FALSE(differences.peer_may_have_unreadable());
  differences.synced(block(16));
  EXPECT_TRUE(differences.peer_may_have_unreadable());
}

TEST(Differences, WhatIsNewOfALargerVolumeMayBeUnreadableToo) {
  Differences differences(kVolumeBytes);
  differences.grow(200 * kBlock);
  differences.missed(150 * kBlock, kBlock);
  differences.found_unreadable({150 * kBlock, 151 * kBlock});
  EXPECT_EQ(differences.unreadable().set_blocks(), 1u);
  EXPECT_TRUE(differences.none_readable());
}

}  // namespace
}  // namespace twinblock
