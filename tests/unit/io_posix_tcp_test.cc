// TcpNetwork between two ends of this process: bytes, order, backpressure, and every way in which a
// connection can end or never begin.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <set>
#include <vector>

#include "io/posix/congestion.h"
#include "io/posix/socket_times.h"
#include "io/posix/tcp_address.h"
#include "io/posix/tcp_network.h"
#include "io_posix_tcp_support.h"

namespace twinblock {
namespace {

// What the kernel calls the congestion control of each of this process's connections of `port`.
std::set<std::string> congestion_of_connections(uint16_t port) {
  std::set<std::string> names;
  for (int fd = 0; fd < 256; ++fd) {
    sockaddr_in local{};
    sockaddr_in peer{};
    socklen_t length = sizeof local;
    if (::getsockname(fd, reinterpret_cast<sockaddr*>(&local), &length) != 0) continue;
    length = sizeof peer;
    if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &length) != 0) continue;
    if (local.sin_port != htons(port) && peer.sin_port != htons(port)) continue;
    char name[16] = {};
    socklen_t name_length = sizeof name;
    EXPECT_EQ(::getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &name_length), 0);
    names.insert((local.sin_port == htons(port) ? "accepted " : "dialled ") + std::string(name));
  }
  return names;
}

INSTANTIATE_TEST_SUITE_P(Links, LinkTest, ::testing::Bool(), link_test_name);

TEST_F(TcpTest, both_ends_use_the_congestion_control_that_was_asked_for) {
  // Each kernel has it, and it is nobody's default.
  loop_.call([&] { network_ = std::make_unique<TcpNetwork>(*loop_, "reno"); });
  connect();
  const auto port = static_cast<uint16_t>(std::stoul(address_.substr(address_.rfind(':') + 1)));
  EXPECT_EQ(congestion_of_connections(port),
            (std::set<std::string>{"accepted reno", "dialled reno"}));
}

TEST_F(TcpTest, small_frames_wait_at_neither_end) {
  connect();
  const auto port = htons(static_cast<uint16_t>(std::stoul(address_.substr(address_.rfind(':') + 1))));
  int ends = 0;
  for (int fd = 0; fd < 256; ++fd) {
    sockaddr_in local{}, peer{};
    socklen_t length = sizeof local, peer_length = sizeof peer;
    if (::getsockname(fd, reinterpret_cast<sockaddr*>(&local), &length) != 0 || local.sin_family != AF_INET) continue;
    if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &peer_length) != 0) continue;
    if (local.sin_port != port && peer.sin_port != port) continue;
    int on = 0;
    socklen_t size = sizeof on;
    EXPECT_EQ(::getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, &size), 0);
    EXPECT_NE(on, 0) << (local.sin_port == port ? "accepted" : "dialled");
    ++ends;
  }
  EXPECT_EQ(ends, 2);
}

TEST(TcpCongestionTest, what_the_kernel_does_not_have_is_refused_with_what_to_do) {
  EXPECT_TRUE(check_congestion("").ok());
  EXPECT_TRUE(check_congestion("system").ok());
  EXPECT_TRUE(check_congestion("reno").ok());
  const Status refused = check_congestion("nosuch");
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().what.find("congestion = \"nosuch\""), std::string::npos);
  EXPECT_NE(refused.error().action.find("tcp_available_congestion_control"), std::string::npos);
}

TEST_P(LinkTest, heads_and_bodies_arrive_in_order) {
  connect();
  const Bytes body = pattern(100000, 7);
  const Bytes short_body = pattern(40, 8);
  Bytes expected;
  loop_.call([&] {
    for (unsigned i = 0; i < 3000; ++i) {
      const Bytes head = pattern(1 + i % 90, i);
      const Bytes& with = i % 100 == 0 ? body : short_body;
      dialled_.connection->send(head, with);
      expected.insert(expected.end(), head.begin(), head.end());
      expected.insert(expected.end(), with.begin(), with.end());
    }
    EXPECT_EQ(dialled_.connection->queued_bytes_total(), expected.size());
    EXPECT_EQ(dialled_.connection->sent_bytes_total(), 0u) << "sent before the turn's end";
  });
  EXPECT_TRUE(loop_.eventually([&] { return accepted_.received.size() >= expected.size(); }));
  loop_.call([&] {
    EXPECT_EQ(accepted_.received, expected);
    EXPECT_EQ(dialled_.connection->sent_bytes_total(), expected.size());
    EXPECT_EQ(dialled_.connection->peer_address(), address_);
  });
}

// Frames that are sampled arrive like the others, and their moments are in order.
TEST_P(LinkTest, the_kernel_tells_when_a_frame_got_on) {
  connect();
  Bytes expected;
  size_t asked = 0, arrivals = 0;
  const Bytes body = pattern(200000, 5);
  for (unsigned i = 0; i < 40; ++i) {
    uint64_t before = 0, begin = 0;
    loop_.call([&] {
      before = loop_->now_ns();
      const Bytes first = pattern(i % 3 * 100, i), head = pattern(64, i + 1);
      const std::span<const std::byte> with(body.data(), i % 4 * 60000);
      if (!first.empty()) dialled_.connection->send(first);
      begin = dialled_.connection->queued_bytes_total();
      if (dialled_.connection->sample_next()) ++asked;
      EXPECT_FALSE(dialled_.connection->sample_next()) << "one at a time";
      dialled_.connection->send(head, with);
      dialled_.connection->send(pattern(i % 2, i));
      for (const Bytes& each : {first, head, Bytes(with.begin(), with.end()), pattern(i % 2, i)})
        expected.insert(expected.end(), each.begin(), each.end());
    });
    ASSERT_TRUE(loop_.eventually([&] {
      return accepted_.received.size() == expected.size() && dialled_.samples.size() == asked;
    }));
    loop_.call([&] {
      const uint64_t now = loop_->now_ns();
      const uint64_t taken = dialled_.connection->taken_ns(begin);
      EXPECT_LE(before, taken);
      EXPECT_EQ(taken, dialled_.samples.back().taken_ns);
      EXPECT_EQ(dialled_.connection->taken_ns(dialled_.connection->sent_bytes_total()), 0u)
          << "not sent yet";
      // The wall clock that the kernel goes by is read apart from ours.
      constexpr uint64_t kSlack_ns = 20 * kMicrosecond_ns;
      const SendMoments& moments = dialled_.samples.back();
      EXPECT_LE(taken, moments.queued_ns + kSlack_ns);
      EXPECT_LE(moments.queued_ns, moments.sent_ns + kSlack_ns);
      EXPECT_LE(moments.sent_ns, moments.acknowledged_ns + kSlack_ns);
      EXPECT_LE(moments.acknowledged_ns, now + kSlack_ns);
      // (Not every reading brings a stamp along: on a busy host the kernel joins what it has.)
      const uint64_t arrived = accepted_.connection->arrived_ns();
      if (arrived == 0) return;
      ++arrivals;
      EXPECT_LE(before, arrived + kSlack_ns);
      EXPECT_LE(arrived, now + kSlack_ns);
    });
  }
  EXPECT_EQ(asked, 40u);
  EXPECT_GT(arrivals, 0u);
  loop_.call([&] { EXPECT_EQ(accepted_.received, expected); });
}

// Who reads nothing fills the socket: what is sent then waits, and the moments tell so.
TEST_P(LinkTest, the_moments_tell_what_a_frame_waited_for) {
  connect();
  const Bytes head = pattern(64, 1);
  const Bytes body = pattern(16 * kMiB, 2);
  loop_.call([&] {
    ASSERT_TRUE(dialled_.connection->sample_next());
    dialled_.connection->send(head);
  });
  ASSERT_TRUE(loop_.eventually([&] { return dialled_.samples.size() == 1; }));
  loop_.call([&] {
    EXPECT_EQ(dialled_.samples[0].ahead_bytes, 0u);
    EXPECT_FALSE(dialled_.samples[0].peer_full);
    accepted_.connection->pause_reading(true);
    dialled_.connection->send(head, body);
  });
  // The socket is full; what follows is put before the peer reads again.
  uint64_t put_ns = 0, begin = 0;
  ASSERT_TRUE(loop_.eventually([&] {
    return dialled_.connection->sent_bytes_total() > kMiB &&
           dialled_.connection->sent_bytes_total() < dialled_.connection->queued_bytes_total();
  }));
  loop_.call([&] {
    put_ns = loop_->now_ns();
    begin = dialled_.connection->queued_bytes_total();
    ASSERT_TRUE(dialled_.connection->sample_next());
    dialled_.connection->send(head);
    accepted_.read_at_most = 64 * kKiB;  // slowly
    accepted_.connection->pause_reading(false);
  });
  ASSERT_TRUE(loop_.eventually([&] { return dialled_.samples.size() == 2; }));
  loop_.call([&] {
    EXPECT_GT(dialled_.samples[1].ahead_bytes, 0u);
    const uint64_t taken_ns = dialled_.connection->taken_ns(begin);
    EXPECT_NE(taken_ns, 0u);
    EXPECT_LE(taken_ns, put_ns) << "it has waited for the socket since it was put";
  });
}

// The dialled end of this process's connection to `address`.
int dialled_descriptor(const std::string& address) {
  const auto port = static_cast<uint16_t>(std::stoul(address.substr(address.rfind(':') + 1)));
  for (int fd = 0; fd < 256; ++fd) {
    sockaddr_in peer{};
    socklen_t length = sizeof peer;
    if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &length) == 0 && peer.sin_port == htons(port)) return fd;
  }
  return -1;
}

bool has_something_to_tell(int fd) {
  pollfd look{fd, 0, 0};
  return ::poll(&look, 1, 0) == 1 && (look.revents & POLLERR) != 0;
}

// Sends a byte whose times nobody expects, as those of a frame that goes out a second time: until somebody
// takes them, the socket counts as ready.
void leave_times(int fd) {
  char byte = 0;
  iovec vector{&byte, 1};
  msghdr message{};
  message.msg_iov = &vector;
  message.msg_iovlen = 1;
  SocketTimes::Room room;
  SocketTimes::ask(message, room);
  ASSERT_EQ(::sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT), 1);
  ASSERT_TRUE(soon([&] { return has_something_to_tell(fd); }));
}

TEST_F(TcpTest, times_that_nobody_expects_do_not_wake_for_ever) {
  connect();
  loop_.call([&] {
    ASSERT_TRUE(dialled_.connection->sample_next());
    dialled_.connection->send(pattern(64, 1));
  });
  ASSERT_TRUE(loop_.eventually([&] { return dialled_.samples.size() == 1; }));
  const int fd = dialled_descriptor(address_);
  loop_.call([&] { leave_times(fd); });
  EXPECT_TRUE(soon([&] { return !has_something_to_tell(fd); }));
  loop_.call([&] { EXPECT_EQ(dialled_.samples.size(), 1u) << "nobody's times are no sample"; });
}

TEST_F(TcpTest, times_do_not_wake_a_full_socket_that_is_not_read) {
  connect();
  const int fd = dialled_descriptor(address_);
  loop_.call([&] {
    ASSERT_TRUE(dialled_.connection->sample_next());
    dialled_.connection->send(pattern(64, 1));
  });
  ASSERT_TRUE(loop_.eventually([&] { return dialled_.samples.size() == 1; }));
  const Bytes body = pattern(16 * kMiB, 2);
  loop_.call([&] {
    dialled_.connection->pause_reading(true);
    accepted_.connection->pause_reading(true);
    leave_times(fd);
    dialled_.connection->send(body);
  });
  EXPECT_TRUE(soon([&] { return !has_something_to_tell(fd); }));
  loop_.call([&] {
    EXPECT_LT(dialled_.connection->sent_bytes_total(), dialled_.connection->queued_bytes_total());
    accepted_.connection->pause_reading(false);
  });
  EXPECT_TRUE(loop_.eventually([&] { return accepted_.received.size() == 64 + 1 + body.size(); }));
}

TEST_P(LinkTest, what_is_sent_while_connecting_follows) {
  listen();
  loop_.call([&] {
    dialled_.take(network_->dial(dialler()));
    dialled_.connection->send(pattern(10, 1));
  });
  EXPECT_TRUE(loop_.eventually([&] { return accepted_.received == pattern(10, 1); }));
}

TEST_P(LinkTest, a_reader_that_pauses_stops_the_sender_and_loses_nothing) {
  connect();
  const Bytes body = pattern(1 * kMiB, 3);
  loop_.call([&] {
    accepted_.connection->pause_reading(true);
    for (int i = 0; i < 64; ++i) dialled_.connection->send(pattern(64, 9), body);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  uint64_t stuck_at = 0;
  loop_.call([&] {
    stuck_at = dialled_.connection->sent_bytes_total();
    EXPECT_LT(stuck_at, dialled_.connection->queued_bytes_total());
    EXPECT_TRUE(accepted_.received.empty());
    accepted_.connection->pause_reading(false);
  });
  const size_t total = 64 * (64 + body.size());
  EXPECT_TRUE(loop_.eventually([&] { return accepted_.received.size() == total; }));
  loop_.call([&] {
    for (size_t i = 0; i < 64; ++i) {
      const size_t at = i * (64 + body.size()) + 64;
      ASSERT_EQ(std::memcmp(accepted_.received.data() + at, body.data(), body.size()), 0);
    }
  });
}

TEST_P(LinkTest, a_reader_that_stops_early_is_called_again) {
  connect();
  loop_.call([&] {
    accepted_.read_at_most = 100;
    dialled_.connection->send(pattern(5000, 1));
  });
  EXPECT_TRUE(loop_.eventually([&] { return accepted_.received.size() == 5000; }));
}

TEST_P(LinkTest, bytes_before_the_end_are_read_then_the_end_is_reported_once) {
  connect();
  loop_.call([&] {
    accepted_.destroy_when_closed = false;
    dialled_.connection->send(pattern(1000, 1));
  });
  EXPECT_TRUE(loop_.eventually([&] { return dialled_.connection->sent_bytes_total() == 1000; }));
  loop_.call([&] { dialled_.connection.reset(); });
  EXPECT_TRUE(loop_.eventually([&] { return accepted_.closings > 0; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  loop_.call([&] {
    EXPECT_EQ(accepted_.closings, 1);
    EXPECT_EQ(accepted_.why, "closed by the peer");
    EXPECT_EQ(accepted_.received.size(), 1000u);
    accepted_.connection->send(pattern(10, 1));  // dropped, without harm
  });
}

TEST_F(TcpTest, a_reset_is_reported) {
  listen();
  const int fd = raw_client();
  EXPECT_TRUE(loop_.eventually([&] { return accepted_.connection != nullptr; }));
  const linger now{1, 0};
  ::setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
  ::close(fd);
  EXPECT_TRUE(loop_.eventually([&] { return accepted_.why == "Connection reset by peer"; }));
}

TEST_F(TcpTest, a_write_error_is_reported_later_and_once) {
  listen();
  const int fd = raw_client();
  EXPECT_TRUE(loop_.eventually([&] { return accepted_.connection != nullptr; }));
  loop_.call([&] { accepted_.connection->pause_reading(true); });
  const linger now{1, 0};
  ::setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
  ::close(fd);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  loop_.call([&] {
    accepted_.connection->send(pattern(10, 1));
    EXPECT_EQ(accepted_.closings, 0);
  });
  EXPECT_TRUE(loop_.eventually([&] { return accepted_.closings == 1; }));
}

TEST_F(TcpTest, a_refused_connect_says_so) {
  dial();
  EXPECT_TRUE(loop_.eventually([&] { return dialled_.closings == 1; }));
  EXPECT_EQ(dialled_.why, "connect to " + address_ + ": Connection refused");
}

TEST_F(TcpTest, an_address_of_another_host_is_no_source) {
  loop_.call([&] {
    dialled_.take(network_->dial(LinkAddresses{"main", "192.0.2.1:7700", address_}));
    EXPECT_EQ(dialled_.closings, 0) << "closed() from within dial()";
  });
  EXPECT_TRUE(loop_.eventually([&] { return dialled_.closings == 1; }));
  EXPECT_EQ(dialled_.why, "bind to 192.0.2.1:0: Cannot assign requested address");
}

TEST_F(TcpTest, listening_fails_with_what_to_do) {
  listen();
  loop_.call([&] {
    const Status taken = network_->listen(LinkAddresses{"main", address_, "127.0.0.1:1"}, {}, {});
    ASSERT_FALSE(taken.ok());
    EXPECT_EQ(taken.error().what, "listen on " + address_ + ": Address already in use");
    EXPECT_NE(taken.error().action, "");
    EXPECT_FALSE(network_->listen(LinkAddresses{"m", "192.0.2.1:1", "127.0.0.1:1"}, {}, {}).ok());
    EXPECT_FALSE(network_->listen(LinkAddresses{"m", "host:1", "127.0.0.1:1"}, {}, {}).ok());
  });
}

TEST_F(TcpTest, strangers_are_closed_and_reported_and_the_peer_is_not) {
  listen("127.0.0.7:7700");
  const int stranger = raw_client("127.0.0.8");
  char byte = 0;
  EXPECT_EQ(::recv(stranger, &byte, 1, 0), 0);
  ::close(stranger);
  loop_.call([&] {
    EXPECT_EQ(accepted_.connection, nullptr);
    ASSERT_EQ(refusals_.size(), 1u);
    EXPECT_NE(refusals_[0].why.find("127.0.0.8"), std::string::npos);
    EXPECT_FALSE(refusals_[0].from_peers_address);
  });
  const int peer = raw_client("127.0.0.7");
  EXPECT_TRUE(loop_.eventually([&] { return accepted_.connection != nullptr; }));
  ::close(peer);
}

TEST_F(TcpTest, a_process_without_file_descriptors_pauses_and_recovers) {
#ifdef __SANITIZE_ADDRESS__
  // That build has UBSan too, which makes a pipe to look at an object's type: it would report a
  // wrong type where there is no descriptor left.
  GTEST_SKIP() << "UBSan itself needs file descriptors";
#endif
  listen();
  const int fd = raw_client();
  EXPECT_TRUE(loop_.eventually([&] { return accepted_.connection != nullptr; }));
  loop_.call([&] { accepted_.connection.reset(); });
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const int second = ::socket(AF_INET, SOCK_STREAM, 0);
  rlimit none = before;
  none.rlim_cur = 3;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const TcpAddress to = parse_tcp_address(address_).value();
  EXPECT_EQ(::connect(second, to.get(), to.length), 0);
  const bool refused = static_cast<bool>(loop_.eventually([&] { return !refusals_.empty(); }));
  ::setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_TRUE(refused);
  EXPECT_TRUE(loop_.eventually([&] { return accepted_.connection != nullptr; }));
  EXPECT_NE(refusals_[0].why.find("Too many open files"), std::string::npos);
  ::close(fd);
  ::close(second);
}

TEST_P(LinkTest, a_handler_may_destroy_its_connection) {
  connect();
  loop_.call([&] {
    accepted_.destroy_when_readable = true;
    dialled_.connection->send(pattern(10, 1));
  });
  EXPECT_TRUE(loop_.eventually([&] { return accepted_.connection == nullptr; }));
  EXPECT_TRUE(loop_.eventually([&] { return dialled_.connection == nullptr; }));
}

TEST(TcpAddressTest, only_numeric_addresses_with_a_port_are_taken) {
  for (const char* good : {"127.0.0.1:7700", "[::1]:7700", "[fe80::1%lo]:1"})
    EXPECT_TRUE(parse_tcp_address(good).ok()) << good;
  for (const char* bad : {"", ":1", "127.0.0.1", "127.0.0.1:", "localhost:1", "::1:7700", "[::1]",
                          "[127.0.0.1]:1", "127.0.0.1:http", "127.0.0.1:70000", "127.0.0.1:-1"})
    EXPECT_FALSE(parse_tcp_address(bad).ok()) << bad;
  EXPECT_EQ(parse_tcp_address("[::1]:7700").value().text(), "[::1]:7700");
}

TEST(TcpAddressTest, another_address_of_the_same_network_is_another_one) {
  const auto same = [](const char* a, const char* b) {
    return parse_tcp_address(a).value().same_ip(parse_tcp_address(b).value());
  };
  EXPECT_TRUE(same("[fd00::1]:1", "[fd00:0::1]:2"));
  EXPECT_FALSE(same("[fd00::1]:1", "[fd00::2]:1"));
  EXPECT_FALSE(same("10.0.0.1:1", "10.0.0.2:1"));
  EXPECT_FALSE(same("127.0.0.1:1", "[::1]:1"));
}

TEST_F(TcpTest, no_time_of_arrival_is_that_of_an_earlier_byte) {
  connect();
  size_t sent = 0;
  uint64_t arrived_ns = 0;
  const auto hear = [&] {
    loop_.call([&] { accepted_.connection->send(pattern(64, 1)); });
    sent += 64;
    ASSERT_TRUE(loop_.eventually([&] { return dialled_.received.size() == sent; }));
    loop_.call([&] { arrived_ns = dialled_.connection->arrived_ns(); });
  };
  ASSERT_TRUE(soon([&] {
    hear();
    return arrived_ns != 0;
  }));
  const int none = 0;
  ASSERT_EQ(::setsockopt(dialled_descriptor(address_), SOL_SOCKET, SO_TIMESTAMPING, &none, sizeof none), 0);
  hear();
  EXPECT_EQ(arrived_ns, 0u);
}

// As each node does: from the address that it listens on, where its own listening socket has the port.
TEST_F(TcpTest, an_ipv6_link_comes_up_beside_its_own_listening_socket) {
  const std::vector<std::string> free = free_ipv6_addresses(2);
  if (free.empty()) GTEST_SKIP() << "this host has no ::1";
  std::unique_ptr<TcpNetwork> other;
  loop_.call([&] {
    other = std::make_unique<TcpNetwork>(*loop_, "");  // the loop runs: only its own thread may
    const auto take = [this](std::unique_ptr<Connection> connection) { accepted_.take(std::move(connection)); };
    const auto refuse = [this](const Refusal& refusal) { refusals_.push_back(refusal); };
    ASSERT_TRUE(network_->listen({"main", free[0], free[1]}, take, refuse).ok());
    ASSERT_TRUE(other->listen({"main", free[1], free[0]}, take, refuse).ok());
    dialled_.take(network_->dial({"main", free[0], free[1]}));
  });
  EXPECT_TRUE(loop_.eventually(
      [&] { return dialled_.closings > 0 || (dialled_.up && accepted_.connection != nullptr); }));
  loop_.call([&] {
    EXPECT_TRUE(dialled_.up) << dialled_.why;
    accepted_.connection.reset();
    other.reset();
  });
}

}  // namespace
}  // namespace twinblock
