// What the service manager is told, and that nobody waits for one that does not listen.
#include "io/posix/notify.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "service_manager.h"
#include "temporary_directory.h"

namespace twinblock {
namespace {

class Notify : public testing::Test {
 protected:
  std::string heard() const { return manager_.heard(); }

  const TemporaryDirectory directory_;
  const ServiceManager manager_{directory_ / "n"};
};

TEST_F(Notify, WhatIsToldComes) {
  notify_ready("primary,\nduplex");
  notify_alive();
  notify_stopping();
  notify_stopping_lasts(std::chrono::seconds(10));
  EXPECT_EQ(heard(), "READY=1\nSTATUS=primary, duplex");
  EXPECT_EQ(heard(), "WATCHDOG=1");
  EXPECT_EQ(heard(), "STOPPING=1");
  EXPECT_EQ(heard(), "EXTEND_TIMEOUT_USEC=10000000");
  EXPECT_EQ(heard(), "");
}

// More than any kernel keeps for it.
TEST_F(Notify, NobodyWaitsForAManagerThatDoesNotListen) {
  constexpr int kMessages = 5000;
  for (int i = 0; i < kMessages; ++i) notify_alive();
  int kept = 0;
  while (!heard().empty()) ++kept;
  EXPECT_GT(kept, 0);
  EXPECT_LT(kept, kMessages);
  notify_status("duplex");
  EXPECT_EQ(heard(), "STATUS=duplex");
}

}  // namespace
}  // namespace twinblock
