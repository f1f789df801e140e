// The loop, its role and its handoff: what runs when, and that a write that hangs stops nothing.
#include <atomic>
#include <condition_variable>
#include <fstream>
#include <memory>
#include <mutex>
#include <vector>

#include "io/posix/loop_role.h"
#include "io/posix/monotonic.h"
#include "io/posix/posix_disk.h"
#include "io_posix_support.h"

namespace twinblock {
namespace {

using std::chrono::milliseconds;

TEST(LoopTest, wakes_from_many_threads_lose_nothing_and_are_combined) {
  RunningLoop loop;
  std::atomic<uint64_t> queued{0};
  uint64_t seen = 0;
  uint64_t handled = 0;
  loop->on_wake([&] {
    seen = queued.load();
    ++handled;
  });
  loop.start();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (int n = 0; n < 20000; ++n) {
        ++queued;
        loop->wake();
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(loop.eventually([&] { return seen == 80000; }));
  loop.call([&] { EXPECT_LE(handled, 80000u); });
}

TEST(LoopTest, the_parts_of_a_turn_keep_their_order) {
  struct Part : TurnPart {
    explicit Part(std::string& order) : order_(order) {}
    void flush_sends() override { order_ += 's'; }
    bool submit_queued() override {
      order_ += 'q';
      return true;
    }
    void deliver() override { order_ += 'd'; }
    std::string& order_;
  };
  Loop loop;
  std::string order;
  Part part(order);
  loop.attach(part);
  loop.on_wake([&] {
    order += 'w';
    loop.stop();
  });
  loop.wake();
  loop.run();
  loop.detach(part);
  EXPECT_EQ(order, "wsqds");
}

TEST(LoopTest, stop_before_run_returns_at_once) {
  Loop loop;
  loop.stop();
  loop.run();
  EXPECT_FALSE(loop.on_loop());
}

TEST(LoopTest, timers_are_never_early_and_may_be_destroyed_by_their_callback) {
  RunningLoop loop;
  loop.start();
  std::unique_ptr<Timer> once;
  std::unique_ptr<Timer> repeated;
  uint64_t due_ns = 0;
  int early = 0;
  int fired = 0;
  int disarmed = 0;
  std::unique_ptr<Timer> off;
  loop.call([&] {
    once = loop->make_timer([&] {
      once.reset();
      ++fired;
    });
    once->arm(0);
    repeated = loop->make_timer([&] {
      if (loop->now_ns() < due_ns) ++early;
      if (++fired == 30) return;
      due_ns = loop->now_ns() + 300'000;
      repeated->arm(300'000);
    });
    due_ns = loop->now_ns() + 300'000;
    repeated->arm(300'000);
    off = loop->make_timer([&] { ++disarmed; });
    off->arm(1000);
    off->disarm();
    EXPECT_FALSE(off->armed());
    EXPECT_TRUE(loop->on_loop());
  });
  EXPECT_TRUE(loop.eventually([&] { return fired == 30; }));
  loop.call([&] {
    EXPECT_EQ(early, 0);
    EXPECT_EQ(once, nullptr);
    EXPECT_EQ(disarmed, 0);
    EXPECT_FALSE(repeated->armed());
    repeated.reset();
    off.reset();
  });
}

TEST(LoopRoleTest, a_quick_section_keeps_the_role_and_a_slow_one_pauses_them) {
  LoopRole role;
  ASSERT_TRUE(role.may_block(1000));
  uint64_t section = role.begin_blocking(1000);
  EXPECT_TRUE(role.end_blocking(section, 2000));
  EXPECT_TRUE(role.may_block(2000));
  section = role.begin_blocking(2000);
  const uint64_t slow = 2000 + LoopRole::kSlowSection_ns + 1;
  EXPECT_TRUE(role.end_blocking(section, slow));
  EXPECT_FALSE(role.may_block(slow));
  EXPECT_TRUE(role.may_block(slow + LoopRole::kCoolOff_ns));
}

TEST(LoopRoleTest, the_standby_parks_and_is_called_again) {
  LoopRole role;
  std::atomic<bool> took{false};
  std::thread standby([&] { took = role.stand_by(); });
  std::this_thread::sleep_for(milliseconds(1200));  // longer than it waits before it parks
  const uint64_t section = role.begin_blocking(monotonic_ns());
  EXPECT_TRUE(soon([&] { return took.load(); }));
  EXPECT_FALSE(role.end_blocking(section, monotonic_ns()));
  standby.join();
  EXPECT_EQ(role.takeovers(), 1u);
}

TEST(LoopRoleTest, nobody_blocks_beside_one_who_is_stuck) {
  LoopRole role;
  std::thread standby([&] { EXPECT_TRUE(role.stand_by()); });
  const uint64_t section = role.begin_blocking(monotonic_ns());
  standby.join();
  const uint64_t later_ns = monotonic_ns() + 2 * LoopRole::kCoolOff_ns;
  EXPECT_FALSE(role.may_block(later_ns)) << "however long it takes";
  EXPECT_FALSE(role.end_blocking(section, later_ns));
  EXPECT_FALSE(role.may_block(later_ns)) << "it has not handed over yet";
  role.hand_over_finished();
  EXPECT_TRUE(role.may_block(later_ns));
}

TEST(LoopRoleTest, one_of_two_holds_the_role_whatever_the_timing) {
  // Sections around the takeover time; a counter that only the leader touches is never torn.
  LoopRole role;
  uint64_t turns = 0;  // belongs to the leader
  const auto member = [&](bool leader) {
    for (;;) {
      if (!leader && !role.stand_by()) return;
      leader = true;
      while (leader) {
        if (++turns > 60) return role.stop();
        const uint64_t pause_ms = turns % 8 == 0 ? 16 : turns % 4;
        const uint64_t section = role.begin_blocking(monotonic_ns());
        std::this_thread::sleep_for(milliseconds(pause_ms));
        leader = role.end_blocking(section, monotonic_ns());
      }
      role.hand_over_finished();
    }
  };
  std::thread other([&] { member(false); });
  member(true);
  other.join();
  EXPECT_EQ(turns, 61u);
}

// A pwrite that hangs at one offset until it is released.
constexpr off_t kStuckOffset = 1 << 20;
std::mutex stuck_mutex;
std::condition_variable stuck_changed;
bool stuck_held = false;
int stuck_calls = 0;

DiskCalls stuck_calls_table() {
  DiskCalls calls = DiskCalls::system();
  calls.pwrite = [](int fd, const void* data, size_t length, off_t offset) {
    if (offset == kStuckOffset) {
      std::unique_lock lock(stuck_mutex);
      ++stuck_calls;
      stuck_changed.wait(lock, [] { return !stuck_held; });
    }
    return DiskCalls::system().pwrite(fd, data, length, offset);
  };
  return calls;
}

void hold(bool held) {
  {
    const std::lock_guard lock(stuck_mutex);
    stuck_held = held;
  }
  stuck_changed.notify_all();
}

// How late this machine lets a thread run that only sleeps: what to hold against how late another
// one was meanwhile.
class Lateness {
 public:
  Lateness()
      : thread_([this] {
          while (!ended_) {
            const uint64_t before_ns = monotonic_ns();
            std::this_thread::sleep_for(milliseconds(1));
            const uint64_t late_ns = monotonic_ns() - before_ns;
            uint64_t longest_ns = longest_ns_;
            while (late_ns > longest_ns && !longest_ns_.compare_exchange_weak(longest_ns, late_ns))
              ;
          }
        }) {}
  ~Lateness() {
    ended_ = true;
    thread_.join();
  }
  Lateness(const Lateness&) = delete;
  Lateness& operator=(const Lateness&) = delete;
  // The longest since it was asked.
  uint64_t longest_ns() { return longest_ns_.exchange(0); }

 private:
  std::atomic<bool> ended_{false};
  std::atomic<uint64_t> longest_ns_{0};
  std::thread thread_;
};

class HandoffTest : public ::testing::TestWithParam<PosixDisk::Engine> {
 protected:
  void SetUp() override {
    stuck_calls = 0;
    PosixDisk::Options options;
    options.file.path = directory_ / "disk";
    options.file.size_bytes = 4 * kMiB;
    options.file.create = true;
    options.file.calls = &calls_;
    options.engine = GetParam();
    auto opened = PosixDisk::open(*loop_, options);
    if (!opened.ok() && host_lacks_it(opened.error())) GTEST_SKIP() << opened.error().what;
    ASSERT_TRUE(opened.ok()) << opened.error().what;
    disk_ = std::move(opened.value());
    for (size_t i = 0; i < requests_.size(); ++i) {
      requests_[i].op = DiskOp::kWrite;
      requests_[i].offset_bytes = i * 4096;
      requests_[i].length_bytes = data_.size();
      requests_[i].data = data_.data();
      requests_[i].done = [this](DiskRequest&) { ++done_; };
    }
    stuck_.op = DiskOp::kWrite;
    stuck_.offset_bytes = kStuckOffset;
    stuck_.length_bytes = data_.size();
    stuck_.data = data_.data();
    stuck_.done = [this](DiskRequest&) { ++stuck_done_; };
  }
  void TearDown() override {
    hold(false);
    loop_.stop();
    disk_.reset();
  }

  TemporaryDirectory directory_;
  DiskCalls calls_ = stuck_calls_table();
  RunningLoop loop_;
  std::unique_ptr<PosixDisk> disk_;
  std::vector<std::byte> data_ = std::vector<std::byte>(4096, std::byte{7});
  DiskRequest stuck_;
  std::vector<DiskRequest> requests_ = std::vector<DiskRequest>(100);
  int done_ = 0;
  int stuck_done_ = 0;
};

TEST_P(HandoffTest, a_write_that_hangs_stops_neither_timers_nor_other_requests) {
  // A heartbeat on the loop, with the longest time between two of its beats.
  uint64_t last_ns = 0;
  uint64_t longest_ns = 0;
  uint64_t beats = 0;
  Lateness machine;
  int in_time = 0;
  std::unique_ptr<Timer> beat;
  beat = loop_->make_timer([&] {
    const uint64_t now_ns = loop_->now_ns();
    longest_ns = std::max(longest_ns, now_ns - last_ns);
    last_ns = now_ns;
    ++beats;
    beat->arm(1 * kMillisecond_ns);
  });
  last_ns = loop_->now_ns();
  beat->arm(1 * kMillisecond_ns);
  loop_.start();

  for (int round = 1; round <= 3; ++round) {
    hold(true);
    (void)machine.longest_ns();
    loop_.call([&] {
      done_ = 0;
      longest_ns = 0;
      disk_->submit(requests_[0]);
      disk_->submit(stuck_);
      disk_->submit(requests_[1]);
    });
    EXPECT_TRUE(loop_.eventually([&] { return loop_->role().takeovers() >= 1; }));
    for (size_t i = 2; i < requests_.size(); ++i)
      loop_.call([&, i] { disk_->submit(requests_[i]); });
    EXPECT_TRUE(loop_.eventually([&] { return done_ >= 98; })) << "others are served";
    uint64_t before = 0;
    loop_.call([&] { before = beats; });
    EXPECT_TRUE(loop_.eventually([&] { return beats > before + 20; }));
    loop_.call([&] {
      EXPECT_EQ(stuck_done_, round - 1);
      EXPECT_EQ(loop_->role().takeovers(), static_cast<uint64_t>(round))
          << "one takeover: nothing is written inline beside a stuck write";
    });
    hold(false);
    EXPECT_TRUE(loop_.eventually([&] { return done_ == 100 && stuck_done_ == round; }));
    // The standby looks, and takes over; each of its steps may be as late as another thread was.
    const uint64_t allowed_ns = 30 * kMillisecond_ns + 4 * machine.longest_ns();
    loop_.call([&] { in_time += longest_ns <= allowed_ns ? 1 : 0; });
    // Until inline writes are used again.
    EXPECT_TRUE(loop_.eventually([&] { return loop_->role().may_block(loop_->now_ns()); }));
  }
  EXPECT_EQ(stuck_calls, 3);
  EXPECT_GT(in_time, 0) << "of three rounds";
  loop_.call([&] { beat.reset(); });
}

TEST_P(HandoffTest, stopping_waits_for_the_write_that_hangs) {
  loop_.start();
  hold(true);
  loop_.call([&] { disk_->submit(stuck_); });
  EXPECT_TRUE(loop_.eventually([&] { return loop_->role().takeovers() == 1; }));
  loop_->stop();
  std::atomic<bool> released{false};
  std::thread release([&released] {
    std::this_thread::sleep_for(milliseconds(50));
    released = true;
    hold(false);
  });
  loop_.stop();
  EXPECT_TRUE(released) << "it has waited";
  disk_.reset();
  release.join();
}

INSTANTIATE_TEST_SUITE_P(Engines, HandoffTest,
                         ::testing::Values(PosixDisk::Engine::kIoUring,
                                           PosixDisk::Engine::kThreads),
                         [](const auto& way) {
                           return way.param == PosixDisk::Engine::kIoUring ? "IoUring" : "Threads";
                         });

}  // namespace
}  // namespace twinblock
