#include "twinblock/process.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "base/units.h"
#include "ignored_children.h"
#include "temporary_directory.h"

namespace twinblock {
namespace {

TEST(Process, ReturnsOutputOrTheReasonOfAFailure) {
  EXPECT_EQ(run_program({"echo", "a b", "$HOME"}, 60 * kSecond_ns).value(), "a b $HOME");
  const Result<std::string> failed = run_program({"ls", "/nonexistent"}, 60 * kSecond_ns);
  ASSERT_FALSE(failed.ok());
  EXPECT_NE(failed.error().what.find("ls failed: "), std::string::npos);
  EXPECT_NE(failed.error().what.find("/nonexistent"), std::string::npos);
  EXPECT_EQ(run_program({"no-such-program"}, 60 * kSecond_ns).error().what,
            "no-such-program is not installed");
  EXPECT_NE(run_program({"sleep", "1000"}, 50 * kMillisecond_ns).error().what.find("did not end"),
            std::string::npos);
}

TEST(Process, AFailureIsOneAlsoWhereChildrenAreIgnored) {
  for (const bool succeeds : {false, true}) {
    const IgnoredChildren ignored;
    const Result<std::string> done = run_program({succeeds ? "true" : "false"}, 60 * kSecond_ns);
    EXPECT_EQ(done.ok() ? "" : done.error().what, succeeds ? "" : "false failed: it ended with status 1");
  }
}

TEST(Process, AnEndOfWhichNobodyKnowsHowIsNoSuccess) {
  const Result<int> ended = reap(getpid(), 60 * kSecond_ns);  // nobody's own child
  ASSERT_FALSE(ended.ok());
  EXPECT_NE(ended.error().what.find("nobody knows"), std::string::npos) << ended.error().what;
}

// One that the kernel holds outlives this program, whose output is read to its end, say by `dev=$(twinblock attach r0)`.
TEST(Process, WhoWaitsApartHoldsNothingOpen) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  const int output = dup(STDOUT_FILENO);
  ASSERT_EQ(dup2(ends[1], STDOUT_FILENO), STDOUT_FILENO);
  const auto reaches_the_pipe = [write_end = ends[1]] {
    return write(STDOUT_FILENO, "a", 1) == 1 && write(write_end, "b", 1) < 0 && errno == EBADF ? 0 : 1;
  };
  const std::optional<int> done = apart(reaches_the_pipe, 60 * kSecond_ns);
  dup2(output, STDOUT_FILENO);
  close(output);
  close(ends[1]);
  char byte = 0;
  EXPECT_EQ(read(ends[0], &byte, 1), 0) << "what it writes is nobody's";
  close(ends[0]);
  EXPECT_EQ(done, 0);
}

TEST(Process, WhoWaitsApartAndIsKilledHasNotDoneIt) {
  EXPECT_EQ(apart([] { return kill(getpid(), SIGKILL); }, 60 * kSecond_ns), EINTR);
  EXPECT_EQ(apart([] { return pause(); }, 50 * kMillisecond_ns), std::nullopt);
}

// Root's PATH may hold ".", and the current directory be anybody's.
TEST(Process, NothingIsFoundByARelativePath) {
  const TemporaryDirectory dir;
  std::ofstream(dir / "twinblock-trap") << "#!/bin/sh\n";
  ASSERT_EQ(chmod((dir / "twinblock-trap").c_str(), 0755), 0);
  const char* path = getenv("PATH");
  const std::string before = path == nullptr ? "" : path;
  const auto was = std::filesystem::current_path();
  std::filesystem::current_path(dir.path());
  setenv("PATH", ".:./", 1);
  EXPECT_EQ(find_program("twinblock-trap"), "");
  setenv("PATH", dir.path().c_str(), 1);
  EXPECT_EQ(find_program("twinblock-trap"), dir / "twinblock-trap");
  setenv("PATH", before.c_str(), 1);
  std::filesystem::current_path(was);
}

TEST(Process, IsKnownByNumberAndStartTime) {
  const ProcessId own = identify_process(getpid());
  EXPECT_EQ(own.pid, getpid());
  EXPECT_TRUE(process_runs(own));
  EXPECT_FALSE(process_runs(ProcessId{own.pid, own.start_ticks + 1}));
  EXPECT_FALSE(process_runs(ProcessId{}));
  const Result<pid_t> child = start_background({"sleep", "1000"}, "/dev/null");
  ASSERT_TRUE(child.ok());
  EXPECT_EQ(getsid(child.value()), child.value()) << "the end of a terminal, and a Ctrl-C there, are nothing to it";
  const ProcessId id = identify_process(child.value());
  EXPECT_FALSE(wait_process_end(id, 20 * kMillisecond_ns));
  EXPECT_EQ(kill(child.value(), SIGKILL), 0);
  // It stays a zombie until this process ends, and counts as ended nevertheless.
  EXPECT_TRUE(wait_process_end(id, 60 * kSecond_ns));
}

}  // namespace
}  // namespace twinblock
