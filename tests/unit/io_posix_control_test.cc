// ControlServer against plain Unix socket clients: requests, limits, clients that misbehave.
#include "io/posix/control_server.h"

#include <grp.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <fstream>
#include <string>
#include <vector>

#include "io_posix_server_support.h"

namespace twinblock {
namespace {

class ControlServerTest : public ServerTest<ControlServer> {
 protected:
  void SetUp() override { path_ = directory_ / "r0.ctl"; }
  void open(ControlLimits limits = {}, ControlServer::Dropped dropped = {}) {
    start(ControlServer::open(
        *loop_, path_,
        [this](const std::string& request, ControlServer::Reply reply) {
          if (request == "later")
            kept_.push_back(std::move(reply));
          else
            reply("got " + (request.size() < 100 ? request : std::to_string(request.size())));
        },
        limits, std::move(dropped)));
  }

  TemporaryDirectory directory_;
  std::string path_;
  std::vector<ControlServer::Reply> kept_;
};

TEST_F(ControlServerTest, requests_are_answered_in_order) {
  open();
  const RawClient client(path_);
  client.send("a\nb\n");
  client.send("par");
  EXPECT_EQ(client.line(), "got a");
  EXPECT_EQ(client.line(), "got b");
  client.send("tial\n\n");
  EXPECT_EQ(client.line(), "got partial");
  EXPECT_EQ(client.line(), "got ");
}

TEST_F(ControlServerTest, an_answer_may_come_later_and_the_next_request_waits_for_it) {
  open();
  const RawClient client(path_);
  client.send("later\nnext\n");
  EXPECT_TRUE(loop_.eventually([&] { return kept_.size() == 1; }));
  const RawClient other(path_);
  other.send("other\n");
  EXPECT_EQ(other.line(), "got other");
  client.end_sending();
  loop_.call([&] {
    kept_[0]("done");
    kept_[0]("twice");
  });
  EXPECT_EQ(client.line(), "done");
  EXPECT_EQ(client.line(), "got next");
  EXPECT_EQ(client.line(), "EOF");
}

TEST_F(ControlServerTest, answers_for_who_has_gone_do_no_harm) {
  open();
  {
    const RawClient client(path_);
    client.send("later\n");
    EXPECT_TRUE(loop_.eventually([&] { return kept_.size() == 1; }));
  }
  loop_.call([&] { kept_[0]("to nobody"); });
  const RawClient client(path_);
  client.send("later\n");
  EXPECT_TRUE(loop_.eventually([&] { return kept_.size() == 2; }));
  loop_.call([&] { server_.reset(); });
  loop_.call([&] { kept_[1]("from nobody"); });
  EXPECT_EQ(client.line(), "EOF");
  EXPECT_NE(::access(path_.c_str(), F_OK), 0) << "the socket is removed";
}

TEST_F(ControlServerTest, what_was_withdrawn_before_it_began_is_not_carried_out) {
  std::vector<std::string> dropped;
  open({}, [&dropped](const std::string& request) { dropped.push_back(request); });
  std::unique_ptr<RawClient> stays;
  loop_.call([&] {  // while the loop stands still
    const RawClient gone(path_);
    gone.send("later\n");
    stays = std::make_unique<RawClient>(path_);
    stays->send("a\n");
    stays->end_sending();
  });
  EXPECT_EQ(stays->line(), "got a") << "who only sends no more waits for its answer";
  EXPECT_EQ(stays->line(), "EOF");
  EXPECT_TRUE(loop_.eventually([&] { return dropped.size() == 1; }));
  EXPECT_TRUE(kept_.empty()) << "the handler has it";
  EXPECT_EQ(dropped, std::vector<std::string>{"later"});
}

TEST_F(ControlServerTest, who_has_gone_while_his_request_is_answered_is_known) {
  open();
  const auto gone = [this](size_t index) {
    bool is = false;
    loop_.call([&] { is = kept_[index].gone(); });
    return is;
  };
  {
    const RawClient client(path_);
    client.send("later\n");
    EXPECT_TRUE(loop_.eventually([&] { return kept_.size() == 1; }));
    EXPECT_FALSE(gone(0));
    client.end_sending();
    EXPECT_FALSE(gone(0)) << "who only sends no more waits for his answer";
  }
  EXPECT_TRUE(gone(0));
  const RawClient client(path_);
  client.send("later\n");
  EXPECT_TRUE(loop_.eventually([&] { return kept_.size() == 2; }));
  loop_.call([&] { server_.reset(); });
  EXPECT_TRUE(gone(1));
}

TEST_F(ControlServerTest, a_request_that_is_too_long_is_refused) {
  ControlLimits limits;
  limits.request_bytes = 1000;
  open(limits);
  const RawClient exact(path_);
  exact.send(std::string(1000, 'x') + "\n");
  EXPECT_EQ(exact.line(), "got 1000");
  for (const char* end : {"", "\n"}) {
    const RawClient client(path_);
    client.send(std::string(1001, 'x') + end);
    EXPECT_NE(client.line().find("1000 bytes at most"), std::string::npos);
    EXPECT_EQ(client.line(), "EOF");
  }
}

TEST_F(ControlServerTest, garbage_is_the_handlers_business_and_the_server_lives) {
  open();
  const RawClient client(path_);
  client.send(std::string("\0\xff\x01\n", 4));
  EXPECT_EQ(client.line().substr(0, 4), "got ");
  const RawClient other(path_);
  other.send("a\n");
  EXPECT_EQ(other.line(), "got a");
}

TEST_F(ControlServerTest, the_oldest_idle_client_gives_way_and_busy_ones_do_not) {
  ControlLimits limits;
  limits.connections = 2;
  open(limits);
  const RawClient busy(path_);
  busy.send("later\n");
  EXPECT_TRUE(loop_.eventually([&] { return kept_.size() == 1; }));
  const RawClient idle(path_);
  idle.send("a\n");
  EXPECT_EQ(idle.line(), "got a");
  const RawClient third(path_);
  third.send("later\n");
  EXPECT_EQ(idle.line(), "EOF");
  EXPECT_TRUE(loop_.eventually([&] { return kept_.size() == 2; }));
  const RawClient fourth(path_);
  EXPECT_NE(fourth.line().find("too many"), std::string::npos);
  EXPECT_EQ(fourth.line(), "EOF");
  loop_.call([&] { kept_[0]("served"); });
  EXPECT_EQ(busy.line(), "served");
}

TEST_F(ControlServerTest, one_that_went_away_while_it_waited_gives_way) {
  ControlLimits limits;
  limits.connections = 2;
  open(limits);
  {
    const RawClient one(path_);
    const RawClient two(path_);
    one.send("later\n");
    two.send("later\n");
    ASSERT_TRUE(loop_.eventually([this] { return kept_.size() == 2; }));
    two.end_sending();
    const RawClient refused(path_);
    EXPECT_NE(refused.line().find("too many"), std::string::npos)
        << "who has only said that it sends no more still waits";
  }
  const RawClient next(path_);
  next.send("hello\n");
  EXPECT_EQ(next.line(), "got hello");
}

TEST_F(ControlServerTest, the_last_answers_leave_before_the_end) {
  open();
  const RawClient client(path_);
  client.send("later\n");
  ASSERT_TRUE(loop_.eventually([this] { return kept_.size() == 1; }));
  loop_.call([this] {
    kept_[0]("farewell");
    server_.reset();
  });
  EXPECT_EQ(client.line(), "farewell");
  EXPECT_EQ(client.line(), "EOF");
}

TEST_F(ControlServerTest, half_a_request_is_not_waited_for_forever) {
  ControlLimits limits;
  limits.timeout_ns = 50 * kMillisecond_ns;
  open(limits);
  const RawClient idle(path_);
  const RawClient half(path_);
  half.send("hal");
  EXPECT_NE(half.line().find("not finished in time"), std::string::npos);
  EXPECT_EQ(half.line(), "EOF");
  idle.send("a\n");
  EXPECT_EQ(idle.line(), "got a") << "a client that has begun nothing may stay";
}

TEST_F(ControlServerTest, a_client_that_does_not_read_is_dropped) {
  ControlLimits limits;
  limits.timeout_ns = 50 * kMillisecond_ns;
  open(limits);
  const RawClient client(path_);
  client.send("later\n");
  EXPECT_TRUE(loop_.eventually([&] { return kept_.size() == 1; }));
  loop_.call([&] { kept_[0](std::string(8 * kMiB, 'x')); });
  EXPECT_TRUE(client.closed_soon());
  std::string line = client.line();
  EXPECT_EQ(line, "EOF");
}

TEST_F(ControlServerTest, the_socket_is_private) {
  open();
  struct stat status {};
  ASSERT_EQ(::stat(path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777u, 0600u);
}

// What a process of a user that is nobody here hears: 0: that it may not, 1: something else, 2: it can't be one, 3: it could
// not ask.
int ask_as_nobody(const std::string& directory, const char* name) {
  constexpr unsigned kNobody = 65534;
  const TcpAddress address = unix_address(name);
  const pid_t child = ::fork();
  if (child == 0) {  // a copy of a process with threads: nothing but calls of the system
    const timeval limit{kNever.count(), 0};
    char said[200] = {};
    const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
    ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    // Whatever the way to the directory is like for others.
    if (::chdir(directory.c_str()) != 0 || ::setgroups(0, nullptr) != 0 || ::setgid(kNobody) != 0 ||
        ::setuid(kNobody) != 0)
      ::_exit(2);
    if (::connect(fd, address.get(), address.length) != 0) ::_exit(3);
    (void)!::send(fd, "a\n", 2, MSG_NOSIGNAL);
    (void)!::recv(fd, said, sizeof said - 1, 0);
    ::_exit(std::strstr(said, "permission denied") != nullptr ? 0 : 1);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// Whatever the file's mode lets through: an order is obeyed as this process's own.
TEST_F(ControlServerTest, another_user_s_requests_are_not_heard) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can be somebody else";
  open();
  ASSERT_EQ(::chmod(path_.c_str(), 0666), 0);
  ASSERT_EQ(::chmod(directory_.path().c_str(), 0755), 0);
  const int heard = ask_as_nobody(directory_.path(), "r0.ctl");
  if (heard == 2) GTEST_SKIP() << "nobody else can be had in this user namespace";
  EXPECT_EQ(heard, 0);
}

TEST_F(ControlServerTest, a_stale_socket_is_replaced_and_a_living_one_is_not) {
  {
    // What a killed process leaves.
    const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
    const TcpAddress address = unix_address(path_);
    ASSERT_EQ(::bind(fd, address.get(), address.length), 0);
    ::close(fd);
  }
  open();
  loop_.call([this] {
    auto second = ControlServer::open(*loop_, path_, {});
    ASSERT_FALSE(second.ok());
    EXPECT_EQ(second.error().code, EADDRINUSE);
    std::ofstream(directory_ / "file") << "data";
    EXPECT_FALSE(ControlServer::open(*loop_, directory_ / "file", {}).ok());
    EXPECT_FALSE(ControlServer::open(*loop_, directory_ / std::string(120, 'x'), {}).ok());
    EXPECT_FALSE(ControlServer::open(*loop_, directory_ / "none" + "/r0.ctl", {}).ok());
  });
}

TEST_F(ControlServerTest, an_answer_that_is_sent_in_parts_arrives_as_it_is) {
  open();
  const RawClient client(path_);
  client.send("later\n");
  ASSERT_TRUE(loop_.eventually([&] { return kept_.size() == 1; }));
  std::string answer;
  for (int i = 0; answer.size() < kMiB; ++i) answer += std::to_string(i) + " ";
  loop_.call([&] { kept_[0](answer); });
  EXPECT_TRUE(client.line() == answer);
  client.send("a\n");
  EXPECT_EQ(client.line(), "got a");
}

}  // namespace
}  // namespace twinblock
