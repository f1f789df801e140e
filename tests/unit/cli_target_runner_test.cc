#include "twinblock/target_runner.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <fstream>
#include <sstream>

#include "base/units.h"
#include "ignored_children.h"
#include "temporary_directory.h"
#include "twinblock/exit_status.h"
#include "twinblock/process.h"

namespace twinblock {
namespace {

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

class Programs {
 public:
  // A program of the shell.
  std::string make(const std::string& name, const std::string& script) {
    const std::string path = dir_ / name;
    std::ofstream(path) << "#!/bin/sh\n" << script << "\n";
    chmod(path.c_str(), 0755);
    return path;
  }
  [[nodiscard]] std::string operator/(const std::string& name) const { return dir_ / name; }

 private:
  const TemporaryDirectory dir_;
};

Status end_of(TargetRunner& runner) {
  while (true) {
    pollfd polled{runner.fd(), POLLIN, 0};
    EXPECT_EQ(poll(&polled, 1, 60'000), 1) << "it does not end";
    if (std::optional<Status> ended = runner.ended()) return *ended;
  }
}

TEST(TargetRunner, ProgramsAreToldTheVolume) {
  Programs programs;
  TargetRunner runner({"r0", "", programs.make("start", "echo start $# $1 >" + (programs / "did")),
                       programs.make("stop", "echo stop $1 >>" + (programs / "did"))});
  ASSERT_TRUE(runner.check().ok());
  EXPECT_EQ(runner.fd(), -1);
  EXPECT_FALSE(runner.ended().has_value());
  ASSERT_TRUE(runner.begin_start().ok());
  EXPECT_TRUE(end_of(runner).ok());
  EXPECT_FALSE(runner.ended().has_value()) << "it is told once";
  ASSERT_TRUE(runner.begin_stop().ok());
  EXPECT_TRUE(end_of(runner).ok());
  EXPECT_EQ(text_of(programs / "did"), "start 1 r0\nstop r0\n");
}

// What a promoter is while memory is short is nothing for what it starts, which may live long.
TEST(TargetRunner, ProgramsAreOrdinaryOnes) {
  Programs programs;
  const std::string look = "cat /proc/$$/oom_score_adj >" + (programs / "score") + "; cut -d' ' -f9 /proc/$$/stat >" +
                           (programs / "flags");
  TargetRunner runner({"r0", "", programs.make("start", look), programs.make("stop", "true")});
  const std::string before = text_of("/proc/self/oom_score_adj");
  std::ofstream("/proc/self/oom_score_adj") << 300 << std::flush;  // a lower one takes a right that few have
#ifdef PR_SET_IO_FLUSHER
  const bool flusher = prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0) == 0;
#else
  const bool flusher = false;
#endif
  ASSERT_TRUE(runner.begin_start().ok());
  EXPECT_TRUE(end_of(runner).ok());
  std::ofstream("/proc/self/oom_score_adj") << before << std::flush;
  EXPECT_EQ(text_of(programs / "score"), "0\n");
  if (!flusher) return;
  (void)prctl(PR_SET_IO_FLUSHER, 0, 0, 0, 0);
  constexpr unsigned long kNoIo = 0x180000;  // PF_MEMALLOC_NOIO and PF_LOCAL_THROTTLE of linux/sched.h
  EXPECT_EQ(std::stoul(text_of(programs / "flags")) & kNoIo, 0u);
}

TEST(TargetRunner, AFailureNamesTheProgramAndHowItEnded) {
  Programs programs;
  const std::string start = programs.make("start", "exit 7");
  TargetRunner runner({"r0", "", start, programs.make("stop", "kill -KILL $$")});
  ASSERT_TRUE(runner.begin_start().ok());
  const Status started = end_of(runner);
  ASSERT_FALSE(started.ok());
  EXPECT_EQ(started.error().what, start + " r0 ended with status 7");
  ASSERT_TRUE(runner.begin_stop().ok());
  const Status stopped = end_of(runner);
  ASSERT_FALSE(stopped.ok());
  EXPECT_NE(stopped.error().what.find("was ended by signal 9"), std::string::npos);
}

// Else the node would keep the role with nothing running, or lose it beside what goes on.
TEST(TargetRunner, AFailureIsOneAlsoWhereChildrenAreIgnored) {
  Programs programs;
  TargetRunner runner({"r0", "", programs.make("start", "exit 7"), programs.make("stop", "exit 8")});
  const IgnoredChildren ignored;
  ASSERT_TRUE(runner.begin_start().ok());
  const Status started = end_of(runner);
  ASSERT_FALSE(started.ok());
  EXPECT_EQ(started.error().what, (programs / "start") + " r0 ended with status 7");
}

TEST(TargetRunner, AnEndOfWhichNobodyKnowsHowIsNoSuccess) {
  Programs programs;
  TargetRunner runner({"r0", "", programs.make("start", "true"), programs.make("stop", "true")});
  ASSERT_TRUE(runner.begin_start().ok());
  ASSERT_GT(waitpid(-1, nullptr, 0), 0) << "somebody else has heard of it";
  const Status started = end_of(runner);
  ASSERT_FALSE(started.ok());
  EXPECT_NE(started.error().what.find("nobody knows"), std::string::npos) << started.error().what;
}

TEST(TargetRunner, WhatCanNotBeRunIsNamedBeforehand) {
  Programs programs;
  const std::string good = programs.make("good", "true");
  const Status no_start = TargetRunner({"r0", "", programs / "nothing", good}).check();
  ASSERT_FALSE(no_start.ok());
  EXPECT_EQ(no_start.error().code, kExitUsage);
  EXPECT_NE(no_start.error().what.find("--start: " + (programs / "nothing")), std::string::npos);
  const Status no_stop = TargetRunner({"r0", "", good, programs / "nothing"}).check();
  ASSERT_FALSE(no_stop.ok());
  EXPECT_NE(no_stop.error().what.find("--stop: "), std::string::npos);
}

// While there is one, SIGTERM does not end this program, as in a promoter.
class Blocked {
 public:
  Blocked() {
    sigset_t stops;
    sigemptyset(&stops);
    sigaddset(&stops, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &stops, &before_);
  }
  ~Blocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  Blocked(const Blocked&) = delete;
  Blocked& operator=(const Blocked&) = delete;

 private:
  sigset_t before_{};
};

// In order, and with all that it has started.
TEST(TargetRunner, AnAbortEndsWhatRuns) {
  const Blocked blocked;
  Programs programs;
  TargetRunner runner({"r0", "", programs.make("start", "sleep 1000 & echo $! >" + (programs / "pid") + "; wait"),
                       programs.make("stop", "true")});
  ASSERT_TRUE(runner.begin_start().ok());
  std::string pid;
  while ((pid = text_of(programs / "pid")).empty()) sleep_ns(10 * kMillisecond_ns);
  const ProcessId child = identify_process(std::stoi(pid));
  EXPECT_FALSE(runner.aborted());
  runner.abort(steady_now_ns());
  EXPECT_TRUE(runner.aborted());
  EXPECT_FALSE(end_of(runner).ok());
  EXPECT_TRUE(wait_process_end(child, 60 * kSecond_ns));
  ASSERT_TRUE(runner.begin_stop().ok());
  EXPECT_FALSE(runner.aborted());
  EXPECT_TRUE(end_of(runner).ok());
}

TEST(TargetRunner, AnAbortThatIsNotHeededUsesForce) {
  Programs programs;
  TargetRunner runner({"r0", "", programs.make("start", "trap '' TERM; echo >" + (programs / "there") +
                                                            "; while :; do sleep 0.01; done"),
                       programs.make("stop", "true")});
  ASSERT_TRUE(runner.begin_start().ok());
  while (text_of(programs / "there").empty()) sleep_ns(10 * kMillisecond_ns);
  const uint64_t now_ns = steady_now_ns();
  runner.abort(now_ns);
  sleep_ns(50 * kMillisecond_ns);
  EXPECT_FALSE(runner.ended().has_value());
  runner.abort(now_ns + 60 * kSecond_ns);
  const Status ended = end_of(runner);
  ASSERT_FALSE(ended.ok());
  EXPECT_NE(ended.error().what.find("signal 9"), std::string::npos);
}

// systemctl, as far as it matters here: what it is told to do.
class Systemctl {
 public:
  explicit Systemctl(const std::string& script) {
    programs_.make("systemctl", "echo \"$@\" >>" + (programs_ / "did") + "\n" + script);
    const char* path = getenv("PATH");
    before_ = path == nullptr ? "" : path;
    setenv("PATH", (programs_ / "").c_str(), 1);
  }
  ~Systemctl() { setenv("PATH", before_.c_str(), 1); }
  Systemctl(const Systemctl&) = delete;
  Systemctl& operator=(const Systemctl&) = delete;
  [[nodiscard]] std::string did() const { return text_of(programs_ / "did"); }

 private:
  Programs programs_;
  std::string before_;
};

// A target's own job ends before its members have stopped.
TEST(TargetRunner, AUnitIsStoppedWithItsMembers) {
  const Systemctl systemctl("[ \"$1\" != show ] || echo 'twinblock-attach@r0.service srv-r0.mount'");
  TargetRunner runner({"r0", "twinblock-r0.target", "", ""});
  ASSERT_TRUE(runner.begin_start().ok());
  EXPECT_TRUE(end_of(runner).ok());
  ASSERT_TRUE(runner.begin_stop().ok());
  EXPECT_TRUE(end_of(runner).ok());
  EXPECT_EQ(systemctl.did(),
            "start twinblock-r0.target\n"
            "show --property=ConsistsOf --value twinblock-r0.target\n"
            "stop twinblock-r0.target twinblock-attach@r0.service srv-r0.mount\n");
}

TEST(TargetRunner, AUnitThatThereIsNotIsNamed) {
  const Systemctl systemctl("echo not-found");
  const Status there = TargetRunner({"r0", "twinblock-r0.target", "", ""}).check();
  ASSERT_FALSE(there.ok());
  EXPECT_EQ(there.error().code, kExitUsage);
  EXPECT_NE(there.error().what.find("twinblock-r0.target"), std::string::npos);
}

TEST(TargetRunner, AUnitThatIsLoadedWillDo) {
  const Systemctl systemctl("echo loaded");
  EXPECT_TRUE(TargetRunner({"r0", "twinblock-r0.target", "", ""}).check().ok());
}

}  // namespace
}  // namespace twinblock
