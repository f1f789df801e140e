// A node's sockets are nobody else's, unless it runs with the group twinblock (tests/packages/use, tests/vm).
#include "io/posix/users_group.h"

#include <grp.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <string>

#include "temporary_directory.h"

namespace twinblock {
namespace {

// Whether these tests were started with the group, in which they could show nothing.
bool runs_with_the_group() {
  const group* own = getgrgid(getegid());
  return own != nullptr && std::string(own->gr_name) == "twinblock";
}

TEST(UsersGroup, another_group_is_nobodys_leave) {
  ASSERT_FALSE(runs_with_the_group()) << "start this with another group";
  const TemporaryDirectory dir;
  const std::string path = dir / "r0.nbd";
  std::ofstream(path) << "";
  ASSERT_EQ(chmod(path.c_str(), 0777), 0);
  ASSERT_TRUE(open_to_users_group(path).ok());
  struct stat info {};
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777u, 0600u);
  std::array<int, 2> ends{};
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
  EXPECT_FALSE(from_users_group(ends[0])) << "its group is that of this process";
  for (const int end : ends) close(end);
}

TEST(UsersGroup, a_socket_that_is_not_there_is_open_to_nobody) {
  const TemporaryDirectory dir;
  EXPECT_TRUE(open_to_users_group(dir / "none").ok()) << "nbdkit may serve somewhere else";
  std::ofstream(dir / "file") << "";
  EXPECT_FALSE(open_to_users_group(dir / "file/r0.nbd").ok());
}

}  // namespace
}  // namespace twinblock
