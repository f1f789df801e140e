// A link's stream, with a key and without: when a byte of it got on, over which interface, and who stops reading
// in the midst of it.
#include <net/if.h>

#include <memory>

#include "io/posix/tcp_connection.h"
#include "io/posix/tcp_network.h"
#include "io_posix_tcp_support.h"

namespace twinblock {
namespace {

class LinkStreamTest : public LinkTest {};

INSTANTIATE_TEST_SUITE_P(Links, LinkStreamTest, ::testing::Bool(), link_test_name);

struct PausingEnd : End {
  void readable() override {
    End::readable();
    if (!received.empty()) connection->pause_reading(true);
  }
};

TEST_P(LinkStreamTest, who_pauses_with_a_part_read_is_left_alone_until_it_reads_on) {
  listen();
  PausingEnd end;
  end.read_at_most = 100;
  loop_.call([&] { end.take(network_->dial(dialler())); });
  ASSERT_TRUE(loop_.eventually([&] { return end.up && accepted_.connection != nullptr; }));
  loop_.call([&] { accepted_.connection->send(pattern(5000, 1)); });
  EXPECT_TRUE(loop_.eventually([&] { return end.received.size() >= 100; }));
  for (int turn = 0; turn < 20; ++turn) loop_.call([] {});
  loop_.call([&] { EXPECT_EQ(end.received.size(), 100u); });
  EXPECT_TRUE(loop_.eventually([&] {
    end.connection->pause_reading(false);
    return end.received.size() == 5000;
  }));
  loop_.call([&] { end.connection.reset(); });
}

TEST_P(LinkStreamTest, what_follows_a_socket_that_was_full_has_not_waited_for_it) {
  connect();
  const Bytes body = pattern(16 * kMiB, 2);
  loop_.call([&] {
    accepted_.connection->pause_reading(true);
    dialled_.connection->send(body);
  });
  ASSERT_TRUE(loop_.eventually([&] {
    return dialled_.connection->sent_bytes_total() > kMiB &&
           dialled_.connection->sent_bytes_total() < dialled_.connection->queued_bytes_total();
  }));
  loop_.call([&] { accepted_.connection->pause_reading(false); });
  ASSERT_TRUE(loop_.eventually([&] { return accepted_.received.size() == body.size(); }));
  uint64_t before_ns = 0, begin = 0;
  loop_.call([&] {
    before_ns = loop_->now_ns();
    begin = dialled_.connection->queued_bytes_total();
    dialled_.connection->send(pattern(64, 1));
  });
  ASSERT_TRUE(loop_.eventually([&] { return accepted_.received.size() == body.size() + 64; }));
  loop_.call([&] { EXPECT_GE(dialled_.connection->taken_ns(begin), before_ns); });
}

TEST_P(LinkStreamTest, when_a_byte_left_long_ago_is_not_known_any_more) {
  connect();
  constexpr unsigned kSends = 300;  // more than there are marks
  for (unsigned i = 0; i < kSends; ++i) loop_.call([&] { dialled_.connection->send(pattern(64, i)); });
  ASSERT_TRUE(loop_.eventually([&] { return dialled_.connection->sent_bytes_total() == kSends * 64; }));
  loop_.call([&] {
    EXPECT_NE(dialled_.connection->taken_ns((kSends - 1) * 64), 0u);
    EXPECT_EQ(dialled_.connection->taken_ns(0), 0u);
  });
}

// Whose cable may be pulled: both have to know it.
TEST_P(LinkStreamTest, both_ends_know_their_interface) {
  connect();
  loop_.call([&] {
    for (const End* end : {&dialled_, &accepted_}) {
      const auto* tcp = dynamic_cast<const TcpConnection*>(end->connection.get());
      ASSERT_NE(tcp, nullptr);
      EXPECT_EQ(tcp->interface_index(), ::if_nametoindex("lo")) << (end == &dialled_ ? "dialled" : "accepted");
    }
  });
}

}  // namespace
}  // namespace twinblock
