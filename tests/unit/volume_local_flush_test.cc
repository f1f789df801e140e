// Flushes of a node's own: which writes each of them covers, and who hears how it ended.
#include "volume/local_flush.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <vector>

#include "metadata_support.h"

namespace twinblock {
namespace {

class LocalFlushTest : public testing::Test {
 protected:
  void ask() {
    flush_.flush([this](const DiskRequest& flushed) { ends_.push_back(flushed.error); });
  }

  metadata::CrashDisk disk_{4096};
  LocalFlush flush_{disk_};
  std::vector<int> ends_;  // of each that was asked for, an errno value
};

// What was written since the one under way began is not covered by it.
TEST_F(LocalFlushTest, WhoAsksDuringOneWaitsForTheNext) {
  ask();
  ask();
  ask();
  ASSERT_EQ(disk_.pending(), 1u);
  disk_.finish();
  EXPECT_EQ(ends_, (std::vector<int>{0}));
  ASSERT_EQ(disk_.pending(), 1u) << "the next one, for both";
  disk_.finish();
  EXPECT_EQ(ends_, (std::vector<int>{0, 0, 0}));
  EXPECT_EQ(disk_.pending(), 0u);
}

TEST_F(LocalFlushTest, WhoeverWaitedForOneHearsThatItFailed) {
  ask();
  ask();
  ask();
  disk_.finish();
  disk_.finish(0, EIO);
  EXPECT_EQ(ends_, (std::vector<int>{0, EIO, EIO}));
  ask();
  disk_.finish();
  EXPECT_EQ(ends_, (std::vector<int>{0, EIO, EIO, 0})) << "of the one that it asked for";
}

TEST_F(LocalFlushTest, WhoAsksAsOneEndsGetsAnother) {
  flush_.flush([this](const DiskRequest& flushed) {
    ends_.push_back(flushed.error);
    ask();
  });
  disk_.finish();
  EXPECT_EQ(ends_, (std::vector<int>{0}));
  ASSERT_EQ(disk_.pending(), 1u);
  disk_.finish();
  EXPECT_EQ(ends_, (std::vector<int>{0, 0}));
}

}  // namespace
}  // namespace twinblock
