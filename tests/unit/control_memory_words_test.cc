#include "control/memory_words.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace twinblock {
namespace {

TEST(MemoryWords, NothingIsSaidWhereAllWasGranted) {
  MemoryStanding standing;
  standing.oom_score_adj = -900;
  EXPECT_TRUE(memory_words(standing).refused.empty());
  EXPECT_TRUE(memory_words(standing).action.empty());
}

TEST(MemoryWords, WhatWasRefusedIsOneSentenceWithItsReasons) {
  MemoryStanding standing;
  standing.lock_error = ENOMEM;
  EXPECT_EQ(memory_words(standing).refused,
            "When memory is short this node may stand still or be killed: it was refused to stay in "
            "memory (Cannot allocate memory)");
  standing.io_flusher_error = EPERM;
  standing.oom_error = EACCES;
  EXPECT_EQ(memory_words(standing).refused,
            "When memory is short this node may stand still or be killed: it was refused to "
            "allocate without waiting for disks (Operation not permitted), to stay in memory "
            "(Cannot allocate memory) and to be killed last (Permission denied)");
  EXPECT_FALSE(memory_words(standing).action.empty());
}

}  // namespace
}  // namespace twinblock
