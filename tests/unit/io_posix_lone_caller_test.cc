// Lone callers that come one soon after the other: the loop's own thread steps aside for them, and
// is back when it is needed. How soon is soon is the test's to say: no verdict depends on which of
// the threads a busy machine lets run first.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <semaphore>
#include <thread>
#include <vector>

#include "io/posix/parking.h"
#include "io/posix/posix_disk.h"
#include "io_posix_support.h"

namespace twinblock {
namespace {

using std::chrono::milliseconds;

constexpr uint64_t kAlways_ns = uint64_t{3600} * kSecond_ns;

// Whoever comes next comes soon, and nobody is late.
constexpr Loop::Pace kPatient{kAlways_ns, kAlways_ns, kAlways_ns};
// Whoever comes next comes soon, but the loop comes back when nobody does.
constexpr Loop::Pace kComesBack{kAlways_ns, Loop::Pace{}.free_max_ns, kAlways_ns};
// … or when one has waited for long.
constexpr Loop::Pace kGivesBack{kAlways_ns, Loop::Pace{}.free_max_ns, Loop::Pace{}.caller_max_ns};

// Requests are handed over one at a time; each is answered by a thread, which stands for the peer.
class LoneCallerTest : public ::testing::Test {
 protected:
  void SetUp() override { set_pace(kPatient); }
  // Before the loop runs.
  void set_pace(const Loop::Pace& pace) {
    if (peer_thread_.joinable()) TearDown();
    ended_ = false;
    loop_ = std::make_unique<RunningLoop>(pace);
    loop().on_wake([this] {
      if (!take()) return;
      ++handled_;
      peer_.release();
    });
    loop().on_step_aside([this] { return busy_.load(); });
    peer_thread_ = std::thread([this] {
      for (;;) {
        peer_.acquire();
        if (ended_) return;
        if (slow_) (void)soon([this] { return left_ || ended_; });
        loop().post([this] {
          finished_on_ = std::this_thread::get_id();
          caller_->unpark();
        });
      }
    });
  }
  void TearDown() override {
    ended_ = true;
    peer_.release();
    peer_thread_.join();
    loop_->stop();
    beat_.reset();
  }
  Loop& loop() { return loop_->of_guest(); }
  void start_with_a_beat_each_millisecond() {
    beat_ = loop().make_timer([this] {
      ++beats_;
      beat_->arm(1 * kMillisecond_ns);
    });
    beat_->arm(1 * kMillisecond_ns);
    loop_->start();
  }
  bool take() {
    Parking* caller = handed_over_.exchange(nullptr);
    if (caller != nullptr) caller_ = caller;
    return caller != nullptr;
  }
  // One request, from here; which thread finished it. A patient one waits until the loop need not
  // be woken for it.
  std::thread::id request(bool patient = false) {
    Parking caller;
    left_ = false;
    handed_over_ = &caller;
    bool ran = loop().run_for(caller);
    if (!ran && patient) ran = static_cast<bool>(soon([&] { return loop().run_for(caller); }));
    left_ = true;
    if (!ran) loop().wake();
    caller.park();
    return finished_on_;
  }
  // Whether this thread runs the loop for one of its own, after as many as it takes.
  bool runs_the_loop_soon() {
    for (int i = 0; i < 1000; ++i)
      if (request(true) == std::this_thread::get_id()) return true;
    return false;
  }

  std::unique_ptr<RunningLoop> loop_;
  std::thread peer_thread_;
  std::counting_semaphore<> peer_{0};
  std::atomic<bool> ended_{false};
  std::atomic<bool> slow_{false};  // the peer answers when the caller runs the loop no more
  std::atomic<bool> left_{false};
  std::atomic<Parking*> handed_over_{nullptr};
  std::atomic<bool> busy_{false};
  std::unique_ptr<Timer> beat_;
  std::atomic<uint64_t> beats_{0};
  // Plain variables of the loop on purpose: ThreadSanitizer would see two threads that run it.
  Parking* caller_ = nullptr;
  uint64_t handled_ = 0;
  std::thread::id finished_on_;
};

TEST_F(LoneCallerTest, runs_the_loop_until_its_own_request_is_finished) {
  loop_->start();
  EXPECT_TRUE(runs_the_loop_soon());
}

TEST_F(LoneCallerTest, does_not_while_there_is_more_to_wait_for) {
  busy_ = true;
  loop_->start();
  for (int i = 0; i < 500; ++i) ASSERT_NE(request(true), std::this_thread::get_id());
}

TEST_F(LoneCallerTest, does_not_when_it_comes_now_and_then) {
  set_pace({});
  loop_->start();
  for (int i = 0; i < 50; ++i) {
    ASSERT_NE(request(true), std::this_thread::get_id());
    std::this_thread::sleep_for(std::chrono::nanoseconds(Loop::Pace{}.soon_ns));
  }
}

TEST_F(LoneCallerTest, the_loop_goes_on_without_it) {
  set_pace(kComesBack);
  start_with_a_beat_each_millisecond();
  ASSERT_TRUE(runs_the_loop_soon());
  EXPECT_TRUE(soon([&, before = beats_.load()] { return beats_ > before + 20; }));
  std::thread::id runs_now;
  loop_->call([&] { runs_now = std::this_thread::get_id(); });
  EXPECT_NE(runs_now, std::this_thread::get_id());
}

TEST_F(LoneCallerTest, what_others_hand_over_while_nobody_runs_the_loop_is_done) {
  loop_->start();
  uint64_t done = 0;
  for (int i = 0; i < 200; ++i) {
    ASSERT_TRUE(runs_the_loop_soon());
    loop_->call([&] { ++done; });
  }
  EXPECT_EQ(done, 200u);
}

TEST_F(LoneCallerTest, one_that_waits_for_long_gives_the_loop_back) {
  set_pace(kGivesBack);
  loop_->start();
  ASSERT_TRUE(runs_the_loop_soon());
  slow_ = true;
  for (int i = 0; i < 3; ++i) EXPECT_NE(request(), std::this_thread::get_id());
  slow_ = false;
  EXPECT_TRUE(runs_the_loop_soon()) << "again";
}

// With the peer away nothing has to be waited for: then the loop goes on beside the callers.
TEST_F(LoneCallerTest, whose_requests_are_finished_at_once_keep_nobody_from_the_loop) {
  std::atomic<bool> at_once{false};
  loop().on_wake([&] {
    if (!take()) return;
    if (at_once)
      caller_->unpark();
    else
      peer_.release();
  });
  start_with_a_beat_each_millisecond();
  ASSERT_TRUE(runs_the_loop_soon());
  at_once = true;
  // No pause between callers is long enough for the loop to come back by itself.
  EXPECT_TRUE(soon([&, before = beats_.load()] {
    (void)request();
    return beats_ >= before + 200;
  }));
}

TEST_F(LoneCallerTest, none_is_lost_whatever_else_happens) {
  set_pace({});
  loop_->start();
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> posted{0};
  uint64_t ran = 0;
  std::thread other([&] {
    while (!stop) {
      loop().post([&] { ++ran; });
      ++posted;
      if (posted % 4 == 0) loop().wake();
      std::this_thread::sleep_for(std::chrono::microseconds(posted % 97 * 30));
    }
  });
  constexpr uint64_t kRequests = 5000;
  for (uint64_t i = 0; i < kRequests; ++i) {
    (void)request();
    if (i % 500 == 0) std::this_thread::sleep_for(milliseconds(4));
  }
  stop = true;
  other.join();
  EXPECT_TRUE(loop_->eventually([&] { return ran == posted && handled_ == kRequests; }));
}

TEST_F(LoneCallerTest, stopping_the_loop_leaves_none_waiting_in_it) {
  loop_->start();
  ASSERT_TRUE(runs_the_loop_soon());
  slow_ = true;
  left_ = false;
  std::atomic<bool> returned{false};
  Parking caller;
  std::thread waits([&] {
    handed_over_ = &caller;
    if (!loop().run_for(caller)) loop().wake();
    returned = true;
  });
  (void)soon([&] { return handed_over_ == nullptr; });  // it runs the loop by now
  loop_->stop();
  waits.join();
  EXPECT_TRUE(returned);
}

// A file whose write at kSlowOffset takes as long as whoever writes it runs the loop: until that is
// taken over.
constexpr off_t kSlowOffset = 8192;
std::atomic<std::thread::id> slow_write_on;
std::atomic<Loop*> slow_write_loop;
DiskCalls slow_calls() {
  DiskCalls calls = DiskCalls::system();
  calls.pwrite = [](int fd, const void* data, size_t length, off_t offset) {
    if (offset == kSlowOffset) {
      slow_write_on = std::this_thread::get_id();
      (void)soon([] { return !slow_write_loop.load()->on_loop(); });
    }
    return DiskCalls::system().pwrite(fd, data, length, offset);
  };
  return calls;
}

TEST_F(LoneCallerTest, whose_write_hangs_loses_the_loop_and_not_the_write) {
  set_pace(kComesBack);  // and is there to take it over the next time
  const TemporaryDirectory directory;
  static const DiskCalls calls = slow_calls();
  PosixDisk::Options options;
  options.file.path = directory / "disk";
  options.file.size_bytes = 1 * kMiB;
  options.file.create = true;
  options.file.calls = &calls;
  auto disk = std::move(PosixDisk::open(loop(), options).value());
  slow_write_loop = &loop();
  std::vector<std::byte> data(4096, std::byte{7});
  DiskRequest write;
  write.op = DiskOp::kWrite;
  write.data = data.data();
  write.length_bytes = data.size();
  write.done = [&](DiskRequest&) { caller_->unpark(); };
  std::atomic<bool> write_next{false};
  loop().on_wake([&] {
    if (!take()) return;
    if (write_next.exchange(false))
      disk->submit(write);
    else
      peer_.release();
  });
  loop_->start();
  // Of the loop while this thread ran it; as a guest, it writes without holding anybody up.
  uint64_t takeovers = 0;
  for (int round = 1; round <= 20 && takeovers < 3; ++round) {
    ASSERT_TRUE(runs_the_loop_soon()) << "round " << round;
    std::memset(data.data(), round, data.size());
    write.offset_bytes = kSlowOffset;
    write_next = true;
    const uint64_t before = loop().role().takeovers();
    (void)request();
    ASSERT_EQ(disk->read_now(kSlowOffset, data), 0);
    EXPECT_EQ(data.front(), static_cast<std::byte>(round));
    const bool mine = slow_write_on.load() == std::this_thread::get_id();
    if (mine && loop().role().takeovers() > before) ++takeovers;
    // Until inline writes are used again.
    std::this_thread::sleep_for(std::chrono::nanoseconds(LoopRole::kCoolOff_ns) + milliseconds(20));
  }
  EXPECT_EQ(takeovers, 3u) << "and each time another thread was there to take it over";
  loop_->stop();
}

}  // namespace
}  // namespace twinblock
