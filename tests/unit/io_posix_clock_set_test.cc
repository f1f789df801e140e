// When bytes arrived, beside a wall clock that somebody sets. This program's own clock_gettime() stands before that of
// the C library: it tells of another wall clock than the one by which the kernel stamps, until a test has both agree.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <span>

#include "base/units.h"
#include "io/posix/monotonic.h"
#include "io/posix/socket_times.h"

namespace {

std::atomic<int64_t> wall_ahead_s{0};

}  // namespace

// Visible to the shared libraries, too.
extern "C" [[gnu::visibility("default")]] int clock_gettime(clockid_t id, timespec* now) noexcept {
  if (::syscall(SYS_clock_gettime, id, now) != 0) return -1;
  if (id == CLOCK_REALTIME) now->tv_sec += wall_ahead_s;
  return 0;
}

namespace twinblock {
namespace {

class ClockSetTest : public testing::Test {
 protected:
  ClockSetTest() {
    const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(::bind(listener, any, length), 0);
    EXPECT_EQ(::listen(listener, 1), 0);
    EXPECT_EQ(::getsockname(listener, any, &length), 0);
    sender_ = ::socket(AF_INET, SOCK_STREAM, 0);
    EXPECT_EQ(::connect(sender_, any, length), 0);
    receiver_ = ::accept(listener, nullptr, nullptr);
    ::close(listener);
    times_.enable(receiver_);
  }
  ~ClockSetTest() override {
    wall_ahead_s = 0;
    ::close(sender_);
    ::close(receiver_);
  }
  // Of bytes that say when they arrived, as not all do. Whether that was when they did.
  bool tells_the_truth() {
    for (int i = 0; i < 1000; ++i) {
      std::array<std::byte, 8> bytes{};
      const uint64_t before_ns = monotonic_ns();
      EXPECT_EQ(::send(sender_, bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
      EXPECT_GT(times_.receive(receiver_, bytes), 0);
      const uint64_t arrived_ns = times_.arrived_ns();
      if (arrived_ns == 0) continue;
      return before_ns < arrived_ns + kMillisecond_ns && arrived_ns < monotonic_ns() + kMillisecond_ns;
    }
    ADD_FAILURE() << "the kernel does not tell when bytes arrive";
    return false;
  }

  SocketTimes times_;
  int sender_ = -1, receiver_ = -1;
};

class ClockSetBothWaysTest : public ClockSetTest, public testing::WithParamInterface<int64_t> {};
INSTANTIATE_TEST_SUITE_P(Ways, ClockSetBothWaysTest, testing::Values(-30, 30));

TEST_P(ClockSetBothWaysTest, the_first_bytes_behind_it_are_told_rightly) {
  wall_ahead_s = GetParam();
  EXPECT_FALSE(tells_the_truth()) << "this is how the test sets a clock";
  wall_ahead_s = 0;
  EXPECT_TRUE(tells_the_truth());
}

TEST_F(ClockSetTest, bytes_are_told_rightly_where_it_is_left_alone) {
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(tells_the_truth());
}

}  // namespace
}  // namespace twinblock
