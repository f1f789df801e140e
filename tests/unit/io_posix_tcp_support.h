// What the tests of connections share: two ends of this process, and everything they can tell.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "io/posix/link_key.h"
#include "io/posix/tcp_address.h"
#include "io/posix/tcp_network.h"
#include "io_posix_support.h"
#include "pattern.h"
#include "reserved_port.h"

namespace twinblock {

inline std::string free_address() { return "127.0.0.1:" + std::to_string(reserve_port()); }

// So many; none: this host has no IPv6.
inline std::vector<std::string> free_ipv6_addresses(size_t count) {
  std::vector<std::string> addresses;
  while (addresses.size() < count) {
    const uint16_t port = reserve_port("::1");
    if (port == 0) return {};
    addresses.push_back("[::1]:" + std::to_string(port));
  }
  return addresses;
}

// One end: collects what it reads.
struct End : ConnectionHandler {
  std::unique_ptr<Connection> connection;
  Bytes received;
  std::vector<SendMoments> samples;
  std::string why;
  bool up = false;
  int closings = 0;
  size_t read_at_most = SIZE_MAX;  // of one readable()
  bool destroy_when_readable = false;
  bool destroy_when_closed = true;

  void take(std::unique_ptr<Connection> taken) {
    connection = std::move(taken);
    connection->set_handler(this);
  }
  void connected() override { up = true; }
  void readable() override {
    if (destroy_when_readable) return connection.reset();
    Bytes buffer(64 * kKiB);
    size_t got = 0;
    while (got < read_at_most) {
      const size_t n =
          connection->read(std::span(buffer).first(std::min(buffer.size(), read_at_most - got)));
      if (n == 0) break;
      got += n;
      received.insert(received.end(), buffer.begin(), buffer.begin() + static_cast<ptrdiff_t>(n));
    }
  }
  void sampled(const SendMoments& moments) override {
    if (moments.acknowledged_ns != 0) samples.push_back(moments);
  }
  void closed(const std::string& reason) override {
    ++closings;
    why = reason;
    if (destroy_when_closed) connection.reset();
  }
};

class TcpTest : public ::testing::Test {
 protected:
  void SetUp() override {
    address_ = free_address();
    network_ = std::make_unique<TcpNetwork>(*loop_, "", keys());
    loop_.start();
  }
  void TearDown() override {
    loop_.call([this] {
      dialled_.connection.reset();
      accepted_.connection.reset();
      network_.reset();
    });
    loop_.stop();
  }
  // Of the network; null: nothing is encrypted.
  virtual std::shared_ptr<const LinkKeys> keys() { return nullptr; }
  [[nodiscard]] LinkAddresses dialler() const { return {"main", "127.0.0.1:0", address_}; }
  void listen(const std::string& peer = "127.0.0.1:1") {
    loop_.call([&] {
      const Status status = network_->listen(
          LinkAddresses{"main", address_, peer},
          [this](std::unique_ptr<Connection> connection) { accepted_.take(std::move(connection)); },
          [this](const Refusal& refusal) { refusals_.push_back(refusal); });
      ASSERT_TRUE(status.ok()) << status.error().what;
    });
  }
  void dial() {
    loop_.call([&] {
      dialled_.take(network_->dial(dialler()));
      EXPECT_EQ(dialled_.closings, 0);
    });
  }
  void connect() {
    listen();
    dial();
    ASSERT_TRUE(loop_.eventually([&] { return dialled_.up && accepted_.connection != nullptr; }));
  }
  // A plain socket that has connected to us.
  int raw_client(const char* from = "127.0.0.1") {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in source{};
    source.sin_family = AF_INET;
    ::inet_pton(AF_INET, from, &source.sin_addr);
    EXPECT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&source), sizeof source), 0);
    const TcpAddress to = parse_tcp_address(address_).value();
    EXPECT_EQ(::connect(fd, to.get(), to.length), 0);
    return fd;
  }

  RunningLoop loop_;
  std::string address_;
  std::unique_ptr<TcpNetwork> network_;
  End dialled_;
  End accepted_;
  std::vector<Refusal> refusals_;
};

// What holds with a key as well as without.
class LinkTest : public TcpTest, public ::testing::WithParamInterface<bool> {
 protected:
  std::shared_ptr<const LinkKeys> keys() override {
    return GetParam() ? std::make_shared<const LinkKeys>(1, make_link_key()) : nullptr;
  }
};

inline std::string link_test_name(const ::testing::TestParamInfo<bool>& which) { return which.param ? "tls" : "plain"; }

}  // namespace twinblock
