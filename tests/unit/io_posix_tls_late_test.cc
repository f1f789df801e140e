// Who connects and does not prove the key in time is not kept. This program's own clock_gettime() stands before that of
// the C library: the time of the code under test stands still, and passes when a test says so.
#include <poll.h>
#include <sys/syscall.h>
#include <time.h>

#include <array>
#include <atomic>
#include <span>
#include <vector>

#include "base/limits.h"
#include "io_posix_tcp_support.h"
#include "io_posix_tls_support.h"

namespace {

std::atomic<uint64_t> passed_ns{0};

}  // namespace

// The other clocks go on besides: what waits goes by them. Visible to the shared libraries, of which one is libev.
extern "C" [[gnu::visibility("default")]] int clock_gettime(clockid_t id, timespec* now) noexcept {
  using twinblock::kSecond_ns;
  constexpr uint64_t kBegin_ns = 1000 * kSecond_ns;
  if (id != CLOCK_BOOTTIME && ::syscall(SYS_clock_gettime, id, now) != 0) return -1;
  if (id == CLOCK_BOOTTIME) *now = {kBegin_ns / kSecond_ns, 0};
  const uint64_t ns = static_cast<uint64_t>(now->tv_nsec) + passed_ns;
  now->tv_sec += static_cast<time_t>(ns / kSecond_ns);
  now->tv_nsec = static_cast<int64_t>(ns % kSecond_ns);
  return 0;
}

namespace twinblock {
namespace {

constexpr uint64_t kMoment_ns = kMillisecond_ns;

class TlsLateTest : public TcpTest {
 protected:
  Keys keys() override { return keys_of({key_}); }
  void TearDown() override {
    for (const int fd : strangers_) ::close(fd);
    TcpTest::TearDown();
  }
  // A stranger that says this, and has been accepted.
  int stranger(std::span<const std::byte> says = {}) {
    const int fd = strangers_.emplace_back(raw_client());
    EXPECT_EQ(::send(fd, says.data(), says.size(), MSG_NOSIGNAL), static_cast<ssize_t>(says.size()));
    dial();  // behind it
    EXPECT_TRUE(loop_.eventually([&] { return dialled_.up && accepted_.connection != nullptr; }));
    loop_.call([&] {
      dialled_.connection.reset();
      dialled_.up = false;
      accepted_.connection.reset();
    });
    return fd;
  }
  void pass(uint64_t ns) {
    passed_ns += ns;
    loop_.call([] {});  // it looks at its clock
    loop_.call([] {});
  }
  static bool is_closed(int fd) {
    pollfd end{fd, POLLRDHUP, 0};
    return ::poll(&end, 1, 0) != 0;
  }
  static bool will_be_closed(int fd) {
    return static_cast<bool>(soon([&] { return is_closed(fd); }));
  }

  const LinkKey key_ = make_link_key();
  std::vector<int> strangers_;
};

TEST_F(TlsLateTest, who_does_not_prove_the_key_is_not_kept) {
  listen();
  const Bytes hello = hello_of_a_stranger();
  const std::array<int, 3> fds{stranger(), stranger(std::span(hello).first(hello.size() / 2)), stranger(hello)};
  pass(limits::kHandshakeTimeout_ns - kMoment_ns);
  for (const int fd : fds) EXPECT_FALSE(is_closed(fd)) << fd;
  pass(kMoment_ns);
  for (const int fd : fds) ASSERT_TRUE(will_be_closed(fd)) << fd;
  loop_.call([&] {
    ASSERT_FALSE(refusals_.empty());
    EXPECT_NE(refusals_[0].why.find("127.0.0.1 took too long to prove the key"), std::string::npos) << refusals_[0].why;
  });
}

// Each has its own time, whoever comes before and after it.
TEST_F(TlsLateTest, who_comes_later_is_not_kept_either) {
  listen();
  const int first = stranger();
  pass(limits::kHandshakeTimeout_ns / 2);
  const int second = stranger();
  pass(limits::kHandshakeTimeout_ns / 2);
  ASSERT_TRUE(will_be_closed(first));
  EXPECT_FALSE(is_closed(second));
  pass(limits::kHandshakeTimeout_ns / 2);
  ASSERT_TRUE(will_be_closed(second));
  pass(limits::kHandshakeTimeout_ns);
  const int third = stranger();
  pass(limits::kHandshakeTimeout_ns);
  ASSERT_TRUE(will_be_closed(third)) << "when there was nobody for a while";
}

}  // namespace
}  // namespace twinblock
