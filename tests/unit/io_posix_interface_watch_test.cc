// What is told of network interfaces, and of this host's end of a link: of real ones, in a network of this program's
// own.
#include "io/posix/interface_watch.h"

#include <linux/if_packet.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "io/posix/link_host.h"
#include "io_posix_support.h"

namespace twinblock {
namespace {

// tba and tbb, which a cable joins.
class CableTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::unshare(CLONE_NEWNET) != 0) GTEST_SKIP() << "a network of one's own takes root";
    if (!ip("link add name tba type veth peer name tbb")) GTEST_SKIP() << "there is no ip, or no veth";
    ASSERT_TRUE(ip("link set tba up") && ip("link set tbb up"));
    ASSERT_TRUE(soon([] { return (flags_of("tba") & IFF_RUNNING) != 0 && (flags_of("tbb") & IFF_RUNNING) != 0; }));
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
};

class InterfaceWatchTest : public CableTest {
 protected:
  void SetUp() override {
    CableTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    watch_ = std::make_unique<InterfaceWatch>(
        *loop_, [this](unsigned index, const std::string& name) { told_[name] = index; });
    loop_.start();
  }
  void TearDown() override {
    loop_.stop();
    watch_.reset();
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

class LinkHostTest : public CableTest {
 protected:
  static LinkHost host_of(const std::string& address) {
    const Result<TcpAddress> local = parse_tcp_address(address + ":7700");
    EXPECT_TRUE(local.ok());
    return link_host_of(local.value(), "bbr");
  }
  // Frames of a kind that nobody takes: the interface at the other end drops them.
  static void send_for_nobody(const std::string& name, int frames) {
    const int fd = ::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
    ASSERT_GE(fd, 0);
    sockaddr_ll to{};
    to.sll_family = AF_PACKET;
    to.sll_ifindex = static_cast<int>(::if_nametoindex(name.c_str()));
    std::array<unsigned char, 64> frame{};
    std::fill_n(frame.begin(), 6, 0xff);
    frame[12] = 0x88;  // the kind 88b5, for local experiments
    frame[13] = 0xb5;
    for (int i = 0; i < frames; ++i)
      EXPECT_EQ(::sendto(fd, frame.data(), frame.size(), 0, reinterpret_cast<sockaddr*>(&to), sizeof to), 64);
    ::close(fd);
  }
  // By the kernel's own table.
  static uint64_t dropped_by(const std::string& name) {
    std::ifstream table("/proc/self/net/dev");
    for (std::string word; table >> word;) {
      if (word != name + ":") continue;
      std::array<uint64_t, 16> counted{};
      for (uint64_t& each : counted) table >> each;
      return counted[3] + counted[11];
    }
    ADD_FAILURE() << name << " is missing";
    return 0;
  }
};

TEST_F(LinkHostTest, says_what_its_own_interface_has_dropped) {
  ASSERT_TRUE(ip("addr add 10.9.0.1/24 dev tba") && ip("addr add 10.9.0.2/24 dev tbb"));
  send_for_nobody("tbb", 3);
  ASSERT_TRUE(soon([] { return dropped_by("tba") >= 3; }));
  send_for_nobody("tba", 7);
  ASSERT_TRUE(soon([] { return dropped_by("tbb") >= 7; }));
  for (const auto& [address, name] : {std::pair("10.9.0.1", "tba"), std::pair("10.9.0.2", "tbb")}) {
    const LinkHost host = host_of(address);
    EXPECT_EQ(host.interface, name);
    EXPECT_EQ(host.dropped, dropped_by(name));
    EXPECT_EQ(host.receive_errors + host.send_errors + host.collisions, 0u);
  }
  EXPECT_NE(dropped_by("tba"), dropped_by("tbb"));
}

TEST_F(LinkHostTest, says_what_bounds_a_link) {
  ASSERT_TRUE(ip("addr add 10.9.0.1/24 dev tba") && ip("link set tba mtu 1400"));
  const LinkHost host = host_of("10.9.0.1");
  EXPECT_EQ(host.mtu_bytes, 1400u);
  EXPECT_EQ(host.rate_bits_per_s, 10'000'000'000u) << "as the kernel says of any such pair";
  EXPECT_FALSE(host.half_duplex);
  EXPECT_EQ(host.congestion, "bbr");
  EXPECT_GT(host.receive_buffer_max_bytes, 0u);
  EXPECT_GT(host.send_buffer_max_bytes, 0u);
}

TEST_F(LinkHostTest, knows_no_interface_of_an_address_that_is_not_here) {
  ASSERT_TRUE(ip("addr add 10.9.0.1/24 dev tba"));
  const LinkHost host = host_of("10.9.0.9");
  EXPECT_EQ(host.interface, "");
  EXPECT_EQ(host.mtu_bytes, 0u);
}

}  // namespace
}  // namespace twinblock
