// The fence command as a program: how it is run, what becomes of it, and of what it leaves behind.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>
#include <mutex>

#include "base/limits.h"
#include "io/posix/fence_command_process.h"
#include "io/posix/witness_files.h"
#include "io_posix_support.h"

namespace twinblock {
namespace {

constexpr uint64_t kLong_ns = 600 * kSecond_ns;
const FenceCall kCall{"r0", "alpha", "beta", "10.0.0.2", false};

class KeptLog final : public Log {
 public:
  void log(Severity severity, const std::string& line) override {
    const std::lock_guard lock(mutex_);
    lines_.push_back((severity == Severity::kInfo ? "info: " : "warning: ") + line);
  }
  std::vector<std::string> lines() {
    const std::lock_guard lock(mutex_);
    return lines_;
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> lines_;
};

class FenceTest : public ::testing::Test {
 protected:
  void TearDown() override {
    if (fence_) end();
  }
  std::string script(const std::string& body, const std::string& first = "#!/bin/sh\n", mode_t mode = 0755) {
    const std::string path = directory_ / "fence";
    std::ofstream(path) << first << body;
    ::chmod(path.c_str(), mode);
    return path;
  }
  void open(const std::string& path, uint64_t timeout_ns = kLong_ns) {
    if (!started_) loop_.start();
    started_ = true;
    loop_.call([&] { fence_ = std::make_unique<FenceCommandProcess>(*loop_, log_, path, timeout_ns); });
  }
  void end() {
    loop_.call([&] { fence_.reset(); });
  }
  std::future<Result<int>> begin(const FenceCall& call = kCall) {
    auto said = std::make_shared<std::promise<Result<int>>>();
    loop_->post([this, said, call] {
      inside_ = true;
      fence_->fence(call, [this, said](Result<int> status) {
        EXPECT_FALSE(inside_) << "never from within the request";
        EXPECT_TRUE(loop_->on_loop());
        said->set_value(std::move(status));
      });
      inside_ = false;
    });
    return said->get_future();
  }
  Result<int> run(const std::string& body, uint64_t timeout_ns = kLong_ns) {
    open(script(body), timeout_ns);
    return begin().get();
  }
  [[nodiscard]] std::string text(const std::string& name) const {
    std::ifstream file(directory_ / name);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  // A command with a second thread, which tells its number.
  std::string script_of_two_threads() {
    return script("import os, threading, time\n"
                  "def second():\n"
                  "    with open('" + (directory_ / "new") + "', 'w') as file:\n"
                  "        file.write(str(threading.get_native_id()))\n"
                  "    os.rename('" + (directory_ / "new") + "', '" + (directory_ / "thread") + "')\n"
                  "    time.sleep(1000)\n"
                  "threading.Thread(target=second, daemon=True).start()\n"
                  "time.sleep(1000)\n",
                  "#!/usr/bin/python3\n");
  }
  [[nodiscard]] bool runs(const std::string& name) const {
    const std::string pid = text(name);
    if (pid.empty() || ::kill(std::stoi(pid), 0) != 0) return false;
    std::ifstream file("/proc/" + std::to_string(std::stoi(pid)) + "/stat");
    const std::string stat{std::istreambuf_iterator<char>(file), {}};
    return stat.find(") Z ") == std::string::npos;
  }

  const TemporaryDirectory directory_;
  KeptLog log_;
  RunningLoop loop_;
  bool started_ = false;
  bool inside_ = false;
  std::unique_ptr<FenceCommandProcess> fence_;
};

::testing::AssertionResult failed(const Result<int>& result, const std::vector<std::string>& parts) {
  if (result.ok()) return ::testing::AssertionFailure() << "status " << result.value();
  const std::string said = result.error().what + "; " + result.error().action;
  for (const std::string& part : parts)
    if (said.find(part) == std::string::npos)
      return ::testing::AssertionFailure() << "'" << said << "' does not have '" << part << "'";
  return ::testing::AssertionSuccess();
}

TEST_F(FenceTest, its_exit_status_is_told) {
  for (const int status : {0, 1, 3, 4, 5, 6, 7, 20, 126, 127, 255}) {
    const Result<int> said = run("exit " + std::to_string(status) + "\n");
    ASSERT_TRUE(said.ok()) << said.error().what;
    EXPECT_EQ(said.value(), status);
    end();
  }
}

TEST_F(FenceTest, it_is_run_again_and_again) {
  open(script("exit 5\n"));
  EXPECT_EQ(fence_->name(), directory_ / "fence");
  for (int i = 0; i < 20; ++i) EXPECT_EQ(begin().get().value(), 5);
}

TEST_F(FenceTest, it_knows_what_it_is_about) {
  open(script("env | sort > " + (directory_ / "env") + "\nexit $#\n"));
  ::setenv("LD_PRELOAD", "", 1);
  ::setenv("NOTIFY_SOCKET", "/run/x", 1);
  EXPECT_EQ(begin().get().value(), 0) << "without arguments";
  const std::string loss = text("env");
  for (const char* line :
       {"TWINBLOCK_VOLUME=r0", "TWINBLOCK_NODE=alpha", "TWINBLOCK_PEER=beta", "TWINBLOCK_PEER_ADDRESS=10.0.0.2",
        "TWINBLOCK_REASON=loss", "DRBD_RESOURCE=r0", "DRBD_VOLUME=0", "DRBD_PEER=beta", "DRBD_PEERS=beta",
        "DRBD_PEER_ADDRESS=10.0.0.2", "DRBD_PEER_AF=ipv4", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin"})
    EXPECT_NE(("\n" + loss).find(std::string("\n") + line), std::string::npos) << line << " is not in\n" << loss;
  for (const char* foreign : {"LD_PRELOAD", "NOTIFY_SOCKET", "HOME="})
    EXPECT_EQ(loss.find(foreign), std::string::npos) << loss;
  EXPECT_EQ(begin({"r0", "alpha", "beta", "fd00::2", true}).get().value(), 0);
  const std::string promotion = text("env");
  EXPECT_NE(promotion.find("TWINBLOCK_REASON=promotion\n"), std::string::npos);
  EXPECT_NE(promotion.find("TWINBLOCK_PEER_ADDRESS=fd00::2\n"), std::string::npos);
  EXPECT_NE(promotion.find("DRBD_PEER_AF=ipv6\n"), std::string::npos);
  ::unsetenv("LD_PRELOAD");
  ::unsetenv("NOTIFY_SOCKET");
}

// The node is the last to be killed when memory is short, and need not wait for disks to get some: a user's program is and does.
TEST_F(FenceTest, it_is_an_ordinary_process_when_memory_is_short) {
  const auto set_score = [](int score) { std::ofstream("/proc/self/oom_score_adj") << score << std::flush; };
  int before = 0;
  std::ifstream("/proc/self/oom_score_adj") >> before;
  set_score(300);  // a lower one takes a right that few have
#ifdef PR_SET_IO_FLUSHER
  const bool flusher = ::prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0) == 0;
#else
  const bool flusher = false;
#endif
  const std::string to = (directory_ / "score") + "\ncut -d' ' -f9 /proc/$$/stat > " + (directory_ / "flags");
  EXPECT_EQ(run("cat /proc/$$/oom_score_adj > " + to + "\n").value(), 0);
  EXPECT_EQ(text("score"), "0\n");
  // PF_MEMALLOC_NOIO and PF_LOCAL_THROTTLE of linux/sched.h.
  if (flusher) {
    EXPECT_EQ(std::stoul(text("flags")) & 0x180000, 0u);
  }
  set_score(before);
}

TEST_F(FenceTest, it_inherits_nothing_of_the_node) {
  const int open_fd = ::open("/dev/zero", O_RDONLY);  // without O_CLOEXEC
  ASSERT_GE(open_fd, 0);
  const std::string body = "ls -l /proc/$$/fd > fds\n"
                           "cut -d' ' -f5,6 /proc/$$/stat > group\necho $$ > pid\nread line && exit 1\nexit 0\n";
  EXPECT_EQ(run("pwd > " + (directory_ / "cwd") + "\ncd " + directory_.path() + "\n" + body).value(), 0)
      << "its input is empty";
  ::close(open_fd);
  EXPECT_EQ(text("fds").find("/dev/zero"), std::string::npos) << text("fds");
  EXPECT_NE(text("fds").find("/dev/null"), std::string::npos) << text("fds");
  EXPECT_EQ(text("fds").find("eventpoll"), std::string::npos) << text("fds");
  EXPECT_EQ(text("cwd"), "/\n");
  const std::string pid = text("pid").substr(0, text("pid").find('\n'));
  EXPECT_EQ(text("group"), pid + " " + pid + "\n") << "a group and a session of its own";
}

TEST_F(FenceTest, no_signal_is_blocked_or_ignored) {
  const auto before = ::signal(SIGUSR1, SIG_IGN);
  // A shell would block and unblock some by itself.
  open(script("", "#!/bin/cat /proc/self/status\n"));
  EXPECT_EQ(begin().get().value(), 0);
  ::signal(SIGUSR1, before);
  constexpr uint64_t kOfGlibc = 0x180000000;  // 32 and 33, which no program may use
  int found = 0;
  for (const std::string& line : log_.lines())
    for (const std::string name : {"SigBlk: ", "SigIgn: "})
      if (const size_t at = line.find(name); at != std::string::npos) {
        ++found;
        EXPECT_EQ(std::stoull(line.substr(at + name.size()), nullptr, 16) & ~kOfGlibc, 0u) << line;
      }
  EXPECT_EQ(found, 2);
}

TEST_F(FenceTest, a_process_that_ignores_how_its_children_end_learns_it_all_the_same) {
  const auto before = ::signal(SIGCHLD, SIG_IGN);
  const Result<int> said = run("exit 7\n");
  ::signal(SIGCHLD, before);
  ASSERT_TRUE(said.ok()) << said.error().what;
  EXPECT_EQ(said.value(), 7);
}

TEST_F(FenceTest, what_it_writes_is_logged) {
  EXPECT_EQ(run("echo one; echo two >&2; printf 'a\\033[31mb\\r\\n\\n'; printf 'no end'\nexit 4\n").value(), 4);
  std::vector<std::string> lines = log_.lines();
  std::sort(lines.begin(), lines.end());
  EXPECT_EQ(lines, (std::vector<std::string>{"info: fence command: a [31mb", "info: fence command: no end",
                                             "info: fence command: one", "warning: fence command: two"}));
}

TEST_F(FenceTest, a_flood_is_cut_and_does_not_hold_it_up) {
  EXPECT_EQ(run("head -c 5000 /dev/zero | tr '\\0' x; echo; yes twinblock | head -n 300000; exit 3\n").value(), 3);
  const std::vector<std::string> lines = log_.lines();
  ASSERT_EQ(lines.size(), limits::kFenceLinesMax + 1);
  EXPECT_EQ(lines[0], "info: fence command: " + std::string(limits::kFenceLineBytesMax, 'x') + "...");
  EXPECT_EQ(lines[1], "info: fence command: twinblock");
  EXPECT_EQ(lines.back(), "info: fence command: " + std::to_string(300'001 - limits::kFenceLinesMax) +
                              " more lines were dropped");
}

TEST_F(FenceTest, a_flood_without_end_does_not_pass_the_deadline) {
  EXPECT_TRUE(failed(run("yes\n", 500 * kMillisecond_ns), {"did not end within", "and was ended"}));
}

TEST_F(FenceTest, a_signal_is_no_status) {
  EXPECT_TRUE(failed(run("kill -9 $$\n"), {"the fence command " + directory_ / "fence", "signal 9 (Killed)"}));
  end();
  EXPECT_TRUE(failed(run("kill -TERM $$\n"), {"was ended by signal 15 (Terminated)"}));
}

TEST_F(FenceTest, one_that_hangs_is_ended_at_the_deadline) {
  const std::string body = "echo $$ > " + (directory_ / "pid") + "\nsleep 1000 & echo $! > " + (directory_ / "child") +
                           "\nwait\nexit 7\n";
  EXPECT_TRUE(failed(run(body, 700 * kMillisecond_ns), {"did not end within 700", "and was ended", "[witness]"}));
  // On a busy host it may not even have come so far.
  if (!text("child").empty()) {
    EXPECT_TRUE(soon([this] { return !runs("pid") && !runs("child"); }));
  }
}

TEST_F(FenceTest, one_that_does_not_want_to_end_is_killed_with_all_of_its_group) {
  open(script("trap '' TERM\necho $$ > " + (directory_ / "pid") + "\n(trap '' TERM; exec sleep 1000) &\necho $! > " +
              (directory_ / "child") + "\nwhile :; do sleep 0.1; done\n"),
       kSecond_ns);
  EXPECT_TRUE(failed(begin().get(), {"did not end within 1.00 s, and was ended"}));
  if (!text("child").empty()) {
    EXPECT_TRUE(soon([this] { return !runs("pid") && !runs("child"); }));
  }
}

TEST_F(FenceTest, what_it_has_started_is_killed_where_only_the_command_itself_ends) {
  const std::string body = "(trap '' TERM; echo > " + (directory_ / "ignores") + "; exec sleep 1000) &\necho $! > " +
                           (directory_ / "child") + "\nwait\n";
  EXPECT_TRUE(failed(run(body, 700 * kMillisecond_ns), {"did not end within 700", "and was ended"}));
  // On a busy host it may not even have come so far.
  if (!std::filesystem::exists(directory_ / "ignores") || text("child").empty()) return;
  EXPECT_TRUE(soon([this] { return !runs("child"); }));
  if (runs("child")) ::kill(std::stoi(text("child")), SIGKILL);
}

// A thread that has ended, and that its tracer has not waited for, keeps a process, as one that waits for a disk does.
TEST_F(FenceTest, one_that_no_signal_ends_is_answered_for_and_holds_nothing_up) {
  if (!std::filesystem::exists("/usr/bin/python3")) GTEST_SKIP() << "needs python3";
  std::future<Result<int>> said;
  pid_t held = 0;
  // On a busy host it may not have come so far by its deadline.
  for (uint64_t timeout_ns = 500 * kMillisecond_ns; held == 0 && timeout_ns < kLong_ns; timeout_ns *= 4) {
    std::filesystem::remove(directory_ / "thread");
    open(script_of_two_threads(), timeout_ns);
    said = begin();
    const auto over = [&said] { return said.wait_for(std::chrono::seconds(0)) == std::future_status::ready; };
    while (text("thread").empty() && !over()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (text("thread").empty()) continue;
    held = std::stoi(text("thread"));
    if (::ptrace(PTRACE_SEIZE, held, nullptr, nullptr) == 0) break;
    held = 0;
    if (!over()) GTEST_SKIP() << "no thread of another process can be held here";
  }
  ASSERT_NE(held, 0) << "it has never come so far";
  EXPECT_TRUE(failed(said.get(), {"nor by SIGKILL", "see dmesg"}));
  auto again = begin();
  const bool answered = again.wait_for(kNever) == std::future_status::ready;
  EXPECT_TRUE(answered) << "the loop waits for it";
  if (answered) {
    EXPECT_TRUE(failed(again.get(), {"still runs", "when it has ended"}));
  }
  EXPECT_EQ(::waitpid(held, nullptr, __WALL), held);
  (void)script("exit 3\n");
  EXPECT_TRUE(soon([this] {
    const Result<int> next = begin().get();
    return next.ok() && next.value() == 3;
  }));
}

TEST_F(FenceTest, one_that_says_at_the_deadline_that_it_has_done_it_is_not_believed) {
  EXPECT_TRUE(failed(run("trap 'exit 7' TERM\nwhile :; do sleep 0.05; done\n", kSecond_ns), {"did not end within"}));
}

TEST_F(FenceTest, what_it_leaves_behind_does_not_hold_the_answer_up) {
  const Result<int> said = run("(trap '' PIPE; while :; do echo still here; sleep 0.05; done) & echo $! > " +
                               (directory_ / "left") + "\nexit 7\n");
  ASSERT_TRUE(said.ok()) << said.error().what;
  EXPECT_EQ(said.value(), 7);
  EXPECT_TRUE(runs("left")) << "a daemon that it has started is its own affair";
  ::kill(std::stoi(text("left")), SIGKILL);
}

TEST_F(FenceTest, an_end_ends_it) {
  open(script("echo $$ > " + (directory_ / "pid") + "\nsleep 1000\n"));
  auto said = begin();
  ASSERT_TRUE(soon([this] { return runs("pid"); }));
  end();
  EXPECT_FALSE(runs("pid"));
  loop_.call([] {});
  EXPECT_THROW((void)said.get(), std::future_error) << "nobody is there to hear it, and none was told";
}

TEST_F(FenceTest, one_runs_at_a_time) {
  open(script("while [ ! -e " + (directory_ / "go") + " ]; do sleep 0.05; done\nexit 3\n"));
  auto first = begin();
  EXPECT_TRUE(failed(begin().get(), {"still runs"}));
  std::ofstream(directory_ / "go") << "now";
  EXPECT_EQ(first.get().value(), 3);
  EXPECT_EQ(begin().get().value(), 3);
}

TEST_F(FenceTest, what_can_t_be_run_says_why) {
  open("/nowhere/fence");
  EXPECT_TRUE(failed(begin().get(), {"the fence command /nowhere/fence: No such file", "correct command of"}));
  open(directory_.path());
  EXPECT_TRUE(failed(begin().get(), {"is not a file"}));
  open(script("exit 3\n", "#!/bin/sh\n", 0644));
  EXPECT_TRUE(failed(begin().get(), {"Permission denied", "chmod +x " + directory_ / "fence"}));
  for (const mode_t mode : {0757, 0775}) {
    open(script("exit 3\n", "#!/bin/sh\n", mode));
    EXPECT_TRUE(failed(begin().get(), {"can be changed by other users", "chmod go-w"}));
  }
  open(script("exit 3\n", "no interpreter\n"));
  EXPECT_TRUE(failed(begin().get(), {"can't be run", "Exec format error", "#!/bin/sh"}));
  open(script("exit 3\n", "#!/nowhere/sh\n"));
  EXPECT_TRUE(failed(begin().get(), {"can't be run", "No such file", "first line"}));
}

TEST_F(FenceTest, nothing_of_it_stays) {
  open(script("exit 3\n"));
  (void)begin().get();
  const auto count = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator());
  };
  const auto before = count();
  for (int i = 0; i < 10; ++i) (void)begin().get();
  EXPECT_EQ(count(), before) << "descriptors";
  std::ifstream children("/proc/self/task/" + std::to_string(::getpid()) + "/children");
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "no child that nobody waits for";
}

TEST_F(FenceTest, another_user_s_command_is_refused) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  const std::string path = script("exit 3\n");
  ASSERT_EQ(::chown(path.c_str(), 65534, 65534), 0);
  EXPECT_FALSE(check_fence_command(path).ok());
  EXPECT_NE(check_fence_command(path).error().what.find("belongs to user 65534"), std::string::npos);
}

}  // namespace
}  // namespace twinblock
