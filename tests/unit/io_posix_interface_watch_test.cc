// What is told of network interfaces: of real ones, in a network of this program's own.
#include "io/posix/interface_watch.h"

#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>

#include "io_posix_support.h"

namespace twinblock {
namespace {

// tba and tbb, which a cable joins.
class InterfaceWatchTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::unshare(CLONE_NEWNET) != 0) GTEST_SKIP() << "a network of one's own takes root";
    if (!ip("link add name tba type veth peer name tbb")) GTEST_SKIP() << "there is no ip, or no veth";
    ASSERT_TRUE(ip("link set tba up") && ip("link set tbb up"));
    ASSERT_TRUE(soon([] { return (flags_of("tba") & IFF_RUNNING) != 0 && (flags_of("tbb") & IFF_RUNNING) != 0; }));
    watch_ = std::make_unique<InterfaceWatch>(
        *loop_, [this](unsigned index, const std::string& name) { told_[name] = index; });
    loop_.start();
  }
  void TearDown() override {
    loop_.stop();
    watch_.reset();
  }
  static bool ip(const std::string& words) { return ::system(("ip " + words + " 2>/dev/null").c_str()) == 0; }
  static int flags_of(const std::string& name) {
    ifreq request{};
    std::strncpy(request.ifr_name, name.c_str(), sizeof request.ifr_name - 1);
    const int fd = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    const bool known = ::ioctl(fd, SIOCGIFFLAGS, &request) == 0;
    ::close(fd);
    return known ? request.ifr_flags : 0;
  }

  RunningLoop loop_;
  std::unique_ptr<InterfaceWatch> watch_;
  std::map<std::string, unsigned> told_;  // their numbers; the loop's
};

TEST_F(InterfaceWatchTest, one_whose_cable_is_pulled_is_told_though_it_stays_up) {
  const unsigned index = ::if_nametoindex("tba");
  ASSERT_TRUE(ip("link set tbb down"));
  EXPECT_TRUE(loop_.eventually([&] { return told_.contains("tba"); }));
  loop_.call([&] { EXPECT_EQ(told_["tba"], index); });
  EXPECT_NE(flags_of("tba") & IFF_UP, 0);
}

TEST_F(InterfaceWatchTest, one_that_is_taken_down_is_told) {
  ASSERT_TRUE(ip("link set tba down"));
  EXPECT_TRUE(loop_.eventually([&] { return told_.contains("tba"); }));
}

TEST_F(InterfaceWatchTest, one_that_is_gone_is_told) {
  ASSERT_TRUE(ip("link set tba down") && ip("link set tbb down"));
  EXPECT_TRUE(loop_.eventually([&] { return told_.contains("tba") && told_.contains("tbb"); }));
  loop_.call([&] { told_.clear(); });
  ASSERT_TRUE(ip("link del tba"));
  EXPECT_TRUE(loop_.eventually([&] { return told_.contains("tba") && told_.contains("tbb"); }));
}

}  // namespace
}  // namespace twinblock
