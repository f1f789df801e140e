// Connections to an NBD server that does not answer: a listener of the test's own.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/units.h"
#include "temporary_directory.h"
#include "twinblock/exit_status.h"
#include "twinblock/nbd_connection.h"

namespace twinblock {
namespace {

class NbdConnectionTest : public testing::Test {
 protected:
  NbdConnectionTest() {
    address_.sun_family = AF_UNIX;
    path_.copy(address_.sun_path, path_.size());
    listener_ = new_socket(SOCK_STREAM);
    EXPECT_EQ(bind(listener_, generic(), sizeof address_), 0);
    EXPECT_EQ(listen(listener_, 1), 0);
  }
  ~NbdConnectionTest() override {
    for (const int fd : fds_) close(fd);
  }
  int new_socket(int type) {
    fds_.push_back(socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
    return fds_.back();
  }
  const sockaddr* generic() const { return reinterpret_cast<const sockaddr*>(&address_); }
  void fill_the_queue() {
    while (connect(new_socket(SOCK_STREAM | SOCK_NONBLOCK), generic(), sizeof address_) == 0) {
    }
    ASSERT_EQ(errno, EAGAIN);
  }

  const TemporaryDirectory directory_;
  const std::string path_ = directory_ / "s";
  sockaddr_un address_{};
  std::vector<int> fds_;
  int listener_;
};

// It was stopped, say, and who attaches would wait with it. (In a process of its own, which ends.)
TEST_F(NbdConnectionTest, AServerThatTakesNobodyIsNotWaitedForWithoutEnd) {
  fill_the_queue();
  const auto open_it = [this] {
    alarm(20);
    const Result<NbdConnection> connection = NbdConnection::open(path_, "r0", 10 * kMillisecond_ns);
    if (connection || connection.error().code != kExitUnreachable) std::exit(1);
    std::fputs(connection.error().what.c_str(), stderr);
    std::exit(0);
  };
  EXPECT_EXIT(open_it(), testing::ExitedWithCode(0), "takes no connection");
}

TEST_F(NbdConnectionTest, AServerThatIsSilentIsNotWaitedForWithoutEnd) {
  const Result<NbdConnection> connection = NbdConnection::open(path_, "r0", 10 * kMillisecond_ns);
  ASSERT_FALSE(connection);
  EXPECT_EQ(connection.error().code, kExitUnreachable);
  EXPECT_NE(connection.error().what.find("silent"), std::string::npos) << connection.error().what;
}

}  // namespace
}  // namespace twinblock
