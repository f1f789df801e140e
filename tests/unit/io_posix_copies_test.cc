// Copies of a backing: by reflinks, where the file system takes them, and by commands that do what they should, or
// fail, hang and are killed.
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <functional>
#include <future>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "io/posix/command_lock.h"
#include "io/posix/monotonic.h"
#include "io/posix/reflink.h"
#include "io_posix_copies_support.h"

namespace twinblock {
namespace {

TEST_F(CopiesTest, a_command_knows_what_it_is_about) {
  open_command(script("env > " + (directory_ / "env") + "; echo said; exit $#\n"));
  EXPECT_TRUE(run(CopyStep::kBeforeResync).ok());
  const std::string environment = text_of(directory_ / "env");
  for (const char* line : {"TWINBLOCK_STEP=before-resync\n", "TWINBLOCK_VOLUME=r0\n", "TWINBLOCK_NODE=beta\n",
                           "TWINBLOCK_SNAPSHOT=\n", "PATH=/usr/"})
    EXPECT_NE(environment.find(line), std::string::npos) << line << environment;
  EXPECT_NE(environment.find("TWINBLOCK_BACKING=" + (directory_ / "backing") + "\n"), std::string::npos);
  EXPECT_NE(log_.lines().find("before-resync command: said"), std::string::npos) << log_.lines();
  EXPECT_TRUE(run(CopyStep::kAfterResync).ok());
  EXPECT_NE(text_of(directory_ / "env").find("TWINBLOCK_STEP=after-resync\n"), std::string::npos);
  EXPECT_TRUE(run(CopyStep::kRollback).ok());
  EXPECT_NE(text_of(directory_ / "env").find("TWINBLOCK_STEP=rollback\n"), std::string::npos);
}

TEST_F(CopiesTest, a_command_that_fails_is_told_with_its_status) {
  open_command(script("exit 3\n"));
  EXPECT_TRUE(says(run(CopyStep::kBeforeResync), "ended with status 3"));
  EXPECT_TRUE(says(run(CopyStep::kBeforeResync), "ended with status 3")) << "and the next one is run";
}

TEST_F(CopiesTest, a_command_that_is_killed_is_told) {
  open_command(script("kill -9 $$\n"));
  EXPECT_TRUE(says(run(CopyStep::kBeforeResync), "signal"));
}

TEST_F(CopiesTest, a_command_that_hangs_is_ended_at_the_deadline) {
  open_command(script("trap '' TERM; echo $$ > " + (directory_ / "pid") + "; sleep 1000\n"), 300 * kMillisecond_ns);
  const uint64_t began_ns = monotonic_ns();
  const Status said = run(CopyStep::kBeforeResync);
  EXPECT_TRUE(says(said, "timeout in [copies]"));
  EXPECT_LT(monotonic_ns() - began_ns, 30 * kSecond_ns);
  const std::string pid = text_of(directory_ / "pid");
  if (pid.empty()) return;  // it was ended before it had begun
  EXPECT_TRUE(soon([&] { return ::kill(std::stoi(pid), 0) != 0; })) << "nothing of it is left";
}

TEST_F(CopiesTest, a_command_that_is_missing_or_anybodys_is_not_run) {
  open_command(directory_ / "nothing");
  EXPECT_TRUE(says(run(CopyStep::kBeforeResync), "nothing"));
  loop_.call([&] { copies_.reset(); });
  CopyWays ways;
  ways.timeout_ns = kSecond_ns;
  ways.before_resync.command = script("touch " + (directory_ / "ran") + "\n", 0777);
  make(ways, directory_ / "backing");
  EXPECT_FALSE(run(CopyStep::kBeforeResync).ok());
  EXPECT_FALSE(exists(directory_ / "ran"));
  EXPECT_FALSE(check_copies(ways, directory_ / "backing").ok());
}

// Before it is needed: the way back, say, when the source of a resync has died.
TEST_F(CopiesTest, a_command_that_is_missing_is_found_before_it_is_run) {
  for (CopyWay CopyWays::*const step :
       {&CopyWays::before_resync, &CopyWays::after_resync, &CopyWays::rollback, &CopyWays::snapshot}) {
    CopyWays ways;
    (ways.*step).command = script("true\n");
    EXPECT_TRUE(check_copies(ways, directory_ / "backing").ok());
    (ways.*step).command = directory_ / "nothing";
    const Status bad = check_copies(ways, directory_ / "backing");
    ASSERT_FALSE(bad.ok());
    EXPECT_NE(bad.error().what.find(directory_ / "nothing"), std::string::npos) << bad.error().what;
  }
}

TEST_F(CopiesTest, a_step_of_which_the_file_says_nothing_is_done) {
  CopyWays ways;
  ways.timeout_ns = kSecond_ns;
  open(ways, directory_ / "backing");
  EXPECT_FALSE(copies_->can(CopyStep::kAfterResync));
  EXPECT_TRUE(run(CopyStep::kAfterResync).ok());
}

TEST_F(CopiesTest, one_at_a_time) {
  open_command(script("sleep 2\n"));
  std::promise<Status> first;
  loop_.call([&] { copies_->begin(CopyStep::kBeforeResync, "", [&](Status status) { first.set_value(status); }); });
  const Status second = run(CopyStep::kBeforeResync);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code, EBUSY);
  EXPECT_TRUE(first.get_future().get().ok());
}

TEST_F(CopiesTest, its_end_ends_what_runs) {
  open_command(script("echo $$ > " + (directory_ / "pid") + "; exec sleep 1000\n"));
  loop_.call([&] { copies_->begin(CopyStep::kBeforeResync, "", [](const Status&) { ADD_FAILURE(); }); });
  ASSERT_TRUE(soon([&] { return text_of(directory_ / "pid").ends_with("\n"); }));
  loop_.call([&] { copies_.reset(); });
  EXPECT_TRUE(soon([&] { return ::kill(std::stoi(text_of(directory_ / "pid")), 0) != 0; }));
}

// What it has started, in a session of its own, may still write: nothing else is begun meanwhile, a rollback is not said to have
// ended, and whoever comes after a process that died ends it.
TEST_F(CopiesTest, what_a_command_has_started_counts_until_it_ends) {
  open_command(script("setsid sh -c 'while [ ! -e " + (directory_ / "go") + " ]; do sleep 0.02; done' & exit 0\n"));
  EXPECT_TRUE(run(CopyStep::kBeforeResync).ok());
  const Status second = run(CopyStep::kAfterResync);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code, EBUSY);
  write(directory_ / "go", "");
  EXPECT_TRUE(soon([&] { return run(CopyStep::kAfterResync).ok(); }));
  ASSERT_TRUE(soon([&] { return !CommandLock(directory_ / "lock").held(); }));
  ::unlink((directory_ / "go").c_str());
  std::promise<Status> rolled_back;
  std::atomic<bool> told{false};
  const std::function<void()> roll_back = [&] {
    copies_->begin(CopyStep::kRollback, "", [&](const Status& status) {
      // That the last one has ended is seen some moments later.
      if (!status && status.error().code == EBUSY) return roll_back();
      told = true;
      rolled_back.set_value(status);
    });
  };
  loop_.call(roll_back);
  ASSERT_TRUE(soon([&] { return CommandLock(directory_ / "lock").held(); }));
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_FALSE(told) << "it may still write";
  EXPECT_TRUE(CommandLock(directory_ / "lock").end_what_is_left().ok());
  EXPECT_FALSE(CommandLock(directory_ / "lock").held());
  EXPECT_TRUE(rolled_back.get_future().get().ok());
}

// A node stops in its time, and whoever comes next ends what still runs.
TEST_F(CopiesTest, its_end_does_not_wait_for_what_a_command_has_started) {
  const std::string go = directory_ / "go", lock = directory_ / "lock";
  open_command(script("setsid sh -c 'while [ -e " + lock + " ] && [ ! -e " + go + " ]; do sleep 0.02; done' & exit 0\n"));
  EXPECT_TRUE(run(CopyStep::kBeforeResync).ok());
  std::atomic<bool> ended{false};
  std::thread stop([&] {
    loop_.call([&] { copies_.reset(); });
    ended = true;
  });
  EXPECT_TRUE(soon([&] { return ended.load(); }));
  EXPECT_TRUE(CommandLock(lock).held()) << "it runs on";
  write(go, "");
  stop.join();
  EXPECT_TRUE(soon([&] { return !CommandLock(lock).held(); }));
}

// As one does whom no signal ends before the disk that it writes to answers. The one here is this program, where nobody
// looks for what is to be ended.
TEST(CommandLockTest, what_does_not_end_is_not_said_to_have_ended) {
  const TemporaryDirectory directory;
  const CommandLock lock(directory / "lock");
  Descriptor held;
  {
    const Result<Descriptor> taken = lock.take();
    ASSERT_TRUE(taken.ok()) << taken.error().what;
    held = Descriptor(::fcntl(taken.value().get(), F_DUPFD_CLOEXEC, 100));
    ASSERT_TRUE(held.open());
  }
  const Status ended = lock.end_what_is_left();
  ASSERT_TRUE(says(ended, "may write to the backing"));
  EXPECT_EQ(ended.error().code, EBUSY);
  held = Descriptor();
  EXPECT_TRUE(lock.end_what_is_left().ok());
}

TEST_F(CopiesTest, another_file_under_the_backings_name_is_not_copied) {
  open_command(script("touch " + (directory_ / "ran") + "\n"));
  ::rename((directory_ / "backing").c_str(), (directory_ / "moved").c_str());
  write(directory_ / "backing", "another");
  EXPECT_TRUE(says(run(CopyStep::kBeforeResync), "another file"));
  EXPECT_FALSE(exists(directory_ / "ran"));
}

// What a command takes may lie below the page cache, as a snapshot of LVM does.
class CopyBelowTest : public CopiesTest, public ::testing::WithParamInterface<CopyStep> {
 protected:
  CopyBelowTest() {
    CopyWays ways;
    ways.before_resync.command = ways.rollback.command = script("touch " + ran_ + "\n");
    ways.snapshot = ways.before_resync;
    ways.timeout_ns = 600 * kSecond_ns;
    write(backing_, "data");
    open(ways, backing_);
  }
  const std::string backing_ = directory_ / "backing";
  const std::string ran_ = directory_ / "ran";
};

TEST_P(CopyBelowTest, what_was_written_is_flushed_before_a_command_copies_it) {
  bool ran_before = false;
  noted_syncs().before = [&](const std::string& path) {
    if (path == backing_) ran_before = exists(ran_);
    return 0;
  };
  ASSERT_TRUE(run(GetParam(), "monday").ok());
  EXPECT_TRUE(exists(ran_));
  EXPECT_TRUE(noted_syncs().had(backing_));
  EXPECT_FALSE(ran_before);
}

TEST_P(CopyBelowTest, what_can_not_be_flushed_is_not_copied) {
  noted_syncs().before = [&](const std::string& path) { return path == backing_ ? EIO : 0; };
  EXPECT_TRUE(says(run(GetParam(), "monday"), "flush " + backing_));
  EXPECT_FALSE(exists(ran_));
  EXPECT_TRUE(run(CopyStep::kRollback).ok()) << "it writes over what can't be flushed";
}

INSTANTIATE_TEST_SUITE_P(Copies, CopyBelowTest, ::testing::Values(CopyStep::kBeforeResync, CopyStep::kTakeSnapshot));

TEST_F(CopiesTest, a_file_system_without_reflinks_is_told_with_what_to_do) {
  const std::string backing = "/dev/shm/twinblock-copies-test." + std::to_string(::getpid());
  write(backing, "data");
  const Status can = can_reflink(backing);
  EXPECT_TRUE(says(can, "XFS or btrfs")) << (can.ok() ? "it can" : can.error().what);
  open(reflinks(), backing);
  EXPECT_TRUE(says(run(CopyStep::kBeforeResync), "name a command in [copies]"));
  EXPECT_FALSE(exists(backing + ".before-resync"));
  EXPECT_FALSE(exists(backing + ".before-resync.part"));
  ::unlink(backing.c_str());
}

// Whether it can do it is tried with files that nobody else has.
TEST_F(CopiesTest, what_stands_beside_a_backing_stays_when_reflinks_are_tried) {
  write(directory_ / "backing", "data");
  write(directory_ / "backing.reflink-from", "somebody's");
  write(directory_ / "backing.reflink-to", "somebody's");
  (void)can_reflink(directory_ / "backing");
  EXPECT_EQ(text_of(directory_ / "backing.reflink-from"), "somebody's");
  EXPECT_EQ(text_of(directory_ / "backing.reflink-to"), "somebody's");
  const std::filesystem::directory_iterator first(std::filesystem::path(directory_ / "backing").parent_path());
  EXPECT_EQ(std::distance(first, std::filesystem::directory_iterator()), 3) << "nothing is left";
}

TEST_F(CopiesTest, what_a_killed_process_left_of_a_snapshot_is_removed_and_nothing_else) {
  CopyWays ways = reflinks();
  ways.snapshot.reflink = true;
  open(ways, directory_ / "backing");
  const std::vector<std::string> left{"backing.snapshot.monday.part", "backing.snapshot.a.b.part"};
  const std::vector<std::string> others{"backing", "backing.snapshot.monday", "backing.snapshot..part", "backing.part",
                                        "backing.snapshot.x.part.part", "backing2.snapshot.monday.part",
                                        "backing.before-resync.part", "backing.snapshot.part"};
  for (const auto& names : {left, others})
    for (const std::string& name : names) write(directory_ / name, "");
  loop_.call([&] { copies_->remove_unfinished(); });
  for (const std::string& name : left) EXPECT_FALSE(exists(directory_ / name)) << name;
  for (const std::string& name : others) EXPECT_TRUE(exists(directory_ / name)) << name;
  EXPECT_NE(log_.lines().find("monday.part"), std::string::npos);
}

TEST_F(CopiesTest, a_device_has_no_reflinks) {
  open(reflinks(), "/dev/null");
  EXPECT_TRUE(says(run(CopyStep::kBeforeResync), "XFS or btrfs"));
}

TEST_F(XfsCopiesTest, what_was_is_brought_back_and_removed) {
  EXPECT_TRUE(can_reflink(backing_).ok());
  const std::string copy = copies_->place(CopyStep::kBeforeResync, "");
  EXPECT_EQ(copy, backing_ + ".before-resync");
  ASSERT_TRUE(run(CopyStep::kBeforeResync).ok());
  write(backing_, std::string(1 << 20, 'b'));
  EXPECT_EQ(text_of(copy), std::string(1 << 20, 'a'));
  ASSERT_TRUE(run(CopyStep::kRollback).ok());
  EXPECT_EQ(text_of(backing_), std::string(1 << 20, 'a'));
  EXPECT_TRUE(exists(copy)) << "it stays until it is not needed";
  write(backing_, std::string(1 << 20, 'c'));
  ASSERT_TRUE(run(CopyStep::kBeforeResync).ok()) << "in the place of an older one";
  EXPECT_EQ(text_of(copy), std::string(1 << 20, 'c'));
  ASSERT_TRUE(run(CopyStep::kAfterResync).ok());
  EXPECT_FALSE(exists(copy));
  EXPECT_FALSE(exists(copy + ".part"));
  ASSERT_TRUE(run(CopyStep::kAfterResync).ok()) << "there is none";
  EXPECT_FALSE(run(CopyStep::kRollback).ok()) << "there is nothing to bring back";
  EXPECT_EQ(text_of(backing_), std::string(1 << 20, 'c'));
}

// It is the volume as it was: whoever may read the one may read the other, and nobody else.
TEST_F(XfsCopiesTest, a_copy_is_as_open_as_the_backing) {
  const auto mode_of = [](const std::string& path) {
    struct stat info {};
    EXPECT_EQ(::stat(path.c_str(), &info), 0) << path;
    return info.st_mode & 07777;
  };
  for (const mode_t mode : {0600u, 0640u}) {
    ASSERT_EQ(::chmod(backing_.c_str(), mode), 0);
    ASSERT_TRUE(run(CopyStep::kBeforeResync).ok());
    EXPECT_EQ(mode_of(copies_->place(CopyStep::kBeforeResync, "")), mode);
    const std::string name = "of" + std::to_string(mode);
    ASSERT_TRUE(run(CopyStep::kTakeSnapshot, name).ok());
    ASSERT_TRUE(run(CopyStep::kKeepSnapshot, name).ok());
    EXPECT_EQ(mode_of(copies_->place(CopyStep::kKeepSnapshot, name)), mode);
  }
}

// The resync that follows overwrites the only other one.
TEST_F(XfsCopiesTest, a_copy_is_durable_and_then_has_a_name_that_is) {
  expect_durable(CopyStep::kBeforeResync, "", copies_->place(CopyStep::kBeforeResync, ""));
  ASSERT_TRUE(run(CopyStep::kTakeSnapshot, "monday").ok());
  expect_durable(CopyStep::kKeepSnapshot, "monday", copies_->place(CopyStep::kKeepSnapshot, "monday"));
}

TEST_F(XfsCopiesTest, a_copy_that_is_not_durable_is_none) {
  const std::string copy = copies_->place(CopyStep::kBeforeResync, "");
  const std::string snapshot = copies_->place(CopyStep::kTakeSnapshot, "monday");
  fail_to_sync(copy + ".part");
  EXPECT_TRUE(says(run(CopyStep::kBeforeResync), copy + ".part"));
  EXPECT_FALSE(exists(copy));
  EXPECT_FALSE(exists(copy + ".part")) << "nobody else would remove it";
  fail_to_sync(snapshot + ".part");
  ASSERT_TRUE(run(CopyStep::kTakeSnapshot, "monday").ok());
  EXPECT_TRUE(says(run(CopyStep::kKeepSnapshot, "monday"), snapshot + ".part"));
  EXPECT_FALSE(exists(snapshot));
  fail_to_sync(mount_);
  EXPECT_TRUE(says(run(CopyStep::kBeforeResync), mount_));
  EXPECT_FALSE(exists(copy));
}

// It is looked for when a snapshot is taken; somebody may put something there after that.
TEST_F(XfsCopiesTest, a_snapshot_is_not_put_over_what_has_its_name_meanwhile) {
  const std::string place = copies_->place(CopyStep::kKeepSnapshot, "monday");
  ASSERT_TRUE(run(CopyStep::kTakeSnapshot, "monday").ok());
  write(place, "somebody's");
  EXPECT_TRUE(says(run(CopyStep::kKeepSnapshot, "monday"), place));
  EXPECT_TRUE(text_of(place) == "somebody's");
}

// It failed on the other node, say: half of a snapshot is none.
TEST_F(XfsCopiesTest, a_snapshot_that_was_kept_goes_when_it_is_dropped) {
  const std::string place = copies_->place(CopyStep::kKeepSnapshot, "monday");
  ASSERT_TRUE(run(CopyStep::kTakeSnapshot, "monday").ok());
  ASSERT_TRUE(run(CopyStep::kKeepSnapshot, "monday").ok());
  ASSERT_TRUE(exists(place));
  ASSERT_TRUE(run(CopyStep::kDropSnapshot, "monday").ok());
  EXPECT_FALSE(exists(place));
}

TEST_F(XfsCopiesTest, what_has_the_name_of_a_snapshot_that_is_dropped_stays) {
  const std::string place = copies_->place(CopyStep::kKeepSnapshot, "monday");
  ASSERT_TRUE(run(CopyStep::kTakeSnapshot, "monday").ok());
  write(place, "somebody's");
  ASSERT_FALSE(run(CopyStep::kKeepSnapshot, "monday").ok());
  ASSERT_TRUE(run(CopyStep::kDropSnapshot, "monday").ok());
  EXPECT_EQ(text_of(place), "somebody's");
  EXPECT_FALSE(exists(place + ".part"));
}

// It ended well, but the loop heard of its deadline first, and has told that there is none.
TEST_F(XfsCopiesTest, a_snapshot_that_was_kept_when_its_time_was_over_goes) {
  ASSERT_TRUE(run(CopyStep::kTakeSnapshot, "monday").ok());
  CopyWays ways = reflinks();
  ways.timeout_ns = 300 * kMillisecond_ns;
  make(ways, backing_);
  const std::string place = copies_->place(CopyStep::kKeepSnapshot, "monday");
  std::promise<Status> said;
  loop_.call([&] {
    copies_->begin(CopyStep::kKeepSnapshot, "monday", [&](Status status) { said.set_value(std::move(status)); });
    EXPECT_TRUE(soon([&] { return noted_syncs().had(mount_); }));  // the last thing that is done
    std::this_thread::sleep_for(std::chrono::nanoseconds(2 * ways.timeout_ns));
  });
  EXPECT_TRUE(says(said.get_future().get(), "did not end within"));
  EXPECT_TRUE(soon([&] { return !exists(place); }));
  loop_.call([&] { copies_.reset(); });  // waits for it
}

// Nor does one stay that was only taken, but for what was begun under its name since.
TEST_F(XfsCopiesTest, a_snapshot_that_was_taken_when_its_time_was_over_goes) {
  CopyWays ways = reflinks();
  ways.timeout_ns = 300 * kMillisecond_ns;
  make(ways, backing_);
  const std::string part = copies_->place(CopyStep::kTakeSnapshot, "monday") + ".part";
  for (const bool anew : {false, true}) {
    std::promise<Status> first, second;
    loop_.call([&] {
      copies_->begin(CopyStep::kTakeSnapshot, "monday", [&, anew](Status status) {
        if (anew) copies_->begin(CopyStep::kTakeSnapshot, "monday", [&](const Status& said) { second.set_value(said); });
        first.set_value(std::move(status));
      });
      EXPECT_TRUE(soon([&] { return exists(part); }));
      std::this_thread::sleep_for(std::chrono::nanoseconds(2 * ways.timeout_ns));
    });
    EXPECT_TRUE(says(first.get_future().get(), "did not end within"));
    EXPECT_TRUE(anew ? second.get_future().get().ok() : soon([&] { return !exists(part); })) << anew;
  }
  EXPECT_TRUE(run(CopyStep::kKeepSnapshot, "monday").ok());
}

// Nor that of a resync: in the last thing that is done, or when that was done and the loop had not heard of it.
TEST_F(XfsCopiesTest, a_copy_that_was_kept_when_its_time_was_over_goes) {
  CopyWays ways = reflinks();
  ways.timeout_ns = 300 * kMillisecond_ns;
  for (const bool hangs : {false, true}) {
    noted_syncs().clear();
    make(ways, backing_);
    const std::string copy = copies_->place(CopyStep::kBeforeResync, "");
    std::atomic<bool> over{!hangs};
    noted_syncs().before = [&](const std::string& path) {
      while (!over && path == mount_) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      return 0;
    };
    std::promise<Status> said;
    std::future<Status> told = said.get_future();
    loop_.call([&] {
      copies_->begin(CopyStep::kBeforeResync, "", [&](Status status) { said.set_value(std::move(status)); });
      if (hangs) return;
      EXPECT_TRUE(soon([&] { return noted_syncs().had(mount_); }));
      std::this_thread::sleep_for(std::chrono::nanoseconds(2 * ways.timeout_ns));
    });
    EXPECT_TRUE(says(told.get(), "did not end within"));
    over = true;
    EXPECT_TRUE(soon([&] { return !exists(copy); })) << hangs;
    loop_.call([&] { copies_.reset(); });  // waits for it
  }
  noted_syncs().clear();
}

// Nobody waits for a disk that hangs; and what comes of it later is not taken for the copy that was asked for.
TEST_F(XfsCopiesTest, a_reflink_that_hangs_is_told_at_the_deadline_and_leaves_nothing) {
  CopyWays ways = reflinks();
  ways.timeout_ns = 300 * kMillisecond_ns;
  make(ways, backing_);
  const std::string copy = copies_->place(CopyStep::kBeforeResync, "");
  std::atomic<bool> hangs{true};
  noted_syncs().before = [&](const std::string& path) {
    while (hangs && path == copy + ".part") std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return 0;
  };
  std::promise<Status> said;
  std::future<Status> told = said.get_future();
  loop_.call([&] {
    copies_->begin(CopyStep::kBeforeResync, "", [&](Status status) { said.set_value(std::move(status)); });
  });
  EXPECT_EQ(told.wait_for(kNever), std::future_status::ready);
  hangs = false;
  EXPECT_TRUE(says(told.get(), "did not end within"));
  loop_.call([&] { copies_.reset(); });  // waits for it
  EXPECT_FALSE(exists(copy));
  EXPECT_FALSE(exists(copy + ".part"));
  noted_syncs().clear();
}

// What it still writes must not land beside anything else, and the next one would take as long.
TEST_F(XfsCopiesTest, what_is_being_brought_back_is_waited_for) {
  ASSERT_TRUE(run(CopyStep::kBeforeResync).ok());
  CopyWays ways = reflinks();
  ways.timeout_ns = 100 * kMillisecond_ns;
  make(ways, backing_);
  std::atomic<bool> began{false}, hangs{true}, told{false};
  noted_syncs().before = [&](const std::string& path) {
    for (; hangs && path == backing_; std::this_thread::sleep_for(std::chrono::milliseconds(1))) began = true;
    return 0;
  };
  std::promise<Status> said;
  loop_.call([&] {
    copies_->begin(CopyStep::kRollback, "", [&](Status status) {
      told = true;
      said.set_value(std::move(status));
    });
  });
  EXPECT_TRUE(soon([&] { return began.load(); }));
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  EXPECT_FALSE(told) << "it may still write";
  hangs = false;
  const Status status = said.get_future().get();
  EXPECT_TRUE(status.ok()) << status.error().what;
  loop_.call([&] { copies_.reset(); });  // waits for it
  noted_syncs().clear();
}

// The copy is removed and the metadata say that it is as it was.
TEST_F(XfsCopiesTest, what_was_brought_back_is_durable) {
  ASSERT_TRUE(run(CopyStep::kBeforeResync).ok());
  noted_syncs().clear();
  ASSERT_TRUE(run(CopyStep::kRollback).ok());
  EXPECT_TRUE(noted_syncs().had(backing_));
  fail_to_sync(backing_);
  EXPECT_TRUE(says(run(CopyStep::kRollback), backing_));
}

}  // namespace
}  // namespace twinblock
