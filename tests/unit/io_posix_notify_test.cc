// What the service manager is told, and that nobody waits for one that does not listen.
#include "io/posix/notify.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <string>

#include "temporary_directory.h"

namespace twinblock {
namespace {

class Notify : public testing::Test {
 protected:
  Notify() {
    sockaddr_un here{};
    here.sun_family = AF_UNIX;
    const std::string path = directory_.path() + "/n";
    path.copy(here.sun_path, sizeof here.sun_path - 1);
    manager_ = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    EXPECT_EQ(bind(manager_, reinterpret_cast<const sockaddr*>(&here), sizeof here), 0);
    setenv("NOTIFY_SOCKET", path.c_str(), 1);
  }
  ~Notify() override {
    unsetenv("NOTIFY_SOCKET");
    close(manager_);
  }

  // The next message; empty: there is none.
  std::string heard() const {
    std::array<char, 256> text{};
    const ssize_t got = recv(manager_, text.data(), text.size(), 0);
    return got <= 0 ? "" : std::string(text.data(), static_cast<size_t>(got));
  }

  const TemporaryDirectory directory_;
  int manager_ = -1;
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
