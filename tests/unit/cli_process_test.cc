#include "twinblock/process.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
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
