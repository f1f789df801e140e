#include "io/posix/memory.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <thread>

#include "io/posix/child_process.h"
#include "temporary_directory.h"

namespace twinblock {
namespace {

// What is asked for stays for as long as a process lives: each test has one of its own. Its exit
// status is what `body` returns.
int in_a_child(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

long locked_kib() {
  std::ifstream file("/proc/self/status");
  std::string word;
  long kib = 0;
  while (file >> word)
    if (word == "VmLck:") file >> kib;
  return kib;
}

// With a limit that it may not pass; at most `locked_bytes`, if this process may have as much.
bool become_ordinary(rlim_t locked_bytes) {
  rlimit limit{};
  (void)::getrlimit(RLIMIT_MEMLOCK, &limit);
  limit.rlim_cur = limit.rlim_max = std::min(limit.rlim_max, locked_bytes);
  if (::setrlimit(RLIMIT_MEMLOCK, &limit) != 0) return false;
  return ::geteuid() != 0 || ::setresuid(65534, 65534, 65534) == 0;
}

TEST(Memory, AScoreThatSomebodyChoseStays) {
  EXPECT_EQ(oom_score_to_set(0), kOomScoreWanted);
  EXPECT_EQ(oom_score_to_set(300), kOomScoreWanted);
  EXPECT_EQ(oom_score_to_set(-1), -1);
  EXPECT_EQ(oom_score_to_set(-1000), -1000);
}

TEST(Memory, WhatIsGrantedIsInEveryThreadAndAfterExec) {
  EXPECT_EQ(in_a_child([] {
              const MemoryStanding standing = stand_memory_shortage();
              const int wanted = standing.io_flusher_error == 0 ? 1 : 0;
              int seen = -1;
              std::thread([&seen] { seen = ::prctl(PR_GET_IO_FLUSHER, 0, 0, 0, 0); }).join();
              if (wanted == 1 && seen != 1) return 1;
              if (standing.oom_error == 0 && standing.oom_score_adj >= 0) return 2;
              // Field 9 of stat(5): PF_MEMALLOC_NOIO and PF_LOCAL_THROTTLE of the kernel.
              const std::string look = "f=$(cut -d' ' -f9 /proc/self/stat); [ $(( (f >> 19) & 1 )) = " +
                                       std::to_string(wanted) + " ]";
              return ::system(look.c_str()) == 0 ? 0 : 3;
            }),
            0);
}

TEST(Memory, NothingIsLockedWhereALaterAllocationWouldFail) {
  EXPECT_EQ(in_a_child([] {
              if (!become_ordinary(256 << 20)) return 1;
              const MemoryStanding standing = stand_memory_shortage_locked();
              // Sanitizers leave out the call, and say that it worked.
              if (standing.lock_error == 0 && locked_kib() > 0) return 2;
              rlimit after{};
              if (::getrlimit(RLIMIT_MEMLOCK, &after) != 0 || after.rlim_cur == 0) return 3;
              constexpr size_t kMore = 512 << 20;
              return ::mmap(nullptr, kMore, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                            0) == MAP_FAILED
                         ? 4
                         : 0;
            }),
            0);
}

TEST(Memory, WithoutALimitAllIsLockedAndNothingIsBroughtIn) {
  const int status = in_a_child([] {
    if (stand_memory_shortage_locked().lock_error != 0) return 77;
    constexpr size_t kMore = 256 << 20;
    if (::mmap(nullptr, kMore, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) ==
        MAP_FAILED)
      return 2;
    // Sanitizers leave out the call, and say that it worked.
    const bool locked = locked_kib() > 0;
    rusage usage{};
    (void)::getrusage(RUSAGE_SELF, &usage);
    return locked && usage.ru_maxrss > 200 << 10 ? 3 : 0;
  });
  if (status == 77) GTEST_SKIP() << "this user may not lock its memory";
  EXPECT_EQ(status, 0);
}

// In kB, as shells have it.
std::string limit_words(rlim_t bytes) {
  return bytes == RLIM_INFINITY ? "unlimited\n" : std::to_string(bytes / 1024) + "\n";
}

// The node locks all of its memory, and takes a limit that allows that.
TEST(Memory, WhatItStartsHasTheLimitThatItWasGivenItself) {
  const TemporaryDirectory directory;
  const std::string program = directory / "program", said = directory / "said";
  std::ofstream(program) << "#!/bin/sh\n(ulimit -S -l; ulimit -H -l) > " << said << "\n";
  ASSERT_EQ(::chmod(program.c_str(), 0700), 0);
  rlimit given{};
  ASSERT_EQ(::getrlimit(RLIMIT_MEMLOCK, &given), 0);
  given.rlim_cur = std::min<rlim_t>(given.rlim_max, 64 << 10);
  const int status = in_a_child([&] {
    if (::setrlimit(RLIMIT_MEMLOCK, &given) != 0) return 1;
    (void)stand_memory_shortage_locked();
    rlimit now{};
    (void)::getrlimit(RLIMIT_MEMLOCK, &now);
    // Who may not raise it as far as the node would has the test's own.
    if (now.rlim_cur == given.rlim_cur) now.rlim_cur = now.rlim_max;
    if (now.rlim_cur == given.rlim_cur) return 77;
    (void)::setrlimit(RLIMIT_MEMLOCK, &now);
    Result<ChildProcess> child = ChildProcess::start(program, {});
    if (!child) return 2;
    pollfd ended{child.value().end_fd(), POLLIN, 0};
    (void)::poll(&ended, 1, -1);
    return child.value().wait().value().status == 0 ? 0 : 3;
  });
  if (status == 77) GTEST_SKIP() << "this user may lock next to nothing";
  ASSERT_EQ(status, 0);
  std::ifstream file(said);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), limit_words(given.rlim_cur) + limit_words(given.rlim_max));
}

// What counts is the least that any of the groups around a process is allowed.
TEST(GroupMemory, TheLeastOfAllGroupsAroundAProcessCounts) {
  const TemporaryDirectory mount;
  const std::string own = "1:name=systemd:/elsewhere\n0::/slice/service\n";
  EXPECT_EQ(group_memory_bytes(own, mount.path()), UINT64_MAX) << "there is no such thing";
  std::filesystem::create_directories(mount / "slice/service");
  const auto allow = [&](const std::string& group, const std::string& bytes) {
    std::ofstream(mount / (group + "/memory.max")) << bytes << "\n";
  };
  allow("slice/service", "max");
  EXPECT_EQ(group_memory_bytes(own, mount.path()), UINT64_MAX);
  allow("slice", "2000");
  EXPECT_EQ(group_memory_bytes(own, mount.path()), 2000u);
  allow("slice/service", "1000");
  EXPECT_EQ(group_memory_bytes(own, mount.path()), 1000u);
  allow("slice/service", "3000");
  EXPECT_EQ(group_memory_bytes(own, mount.path()), 2000u);
  EXPECT_EQ(group_memory_bytes("0::/\n", mount.path()), UINT64_MAX);
  EXPECT_EQ(group_memory_bytes("", mount.path()), UINT64_MAX);
  EXPECT_GT(usable_memory_bytes(), 0u);
}

}  // namespace
}  // namespace twinblock
