// A lone caller that runs the loop's part on its own thread: it is alone with the loop's state,
// loses nothing, and leaves the loop able to go on.
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "io/posix/io_watcher.h"
#include "io/posix/parking.h"
#include "io/posix/posix_disk.h"
#include "io_posix_support.h"

namespace twinblock {
namespace {

// Until the loop waits for events, which it does soon when nothing happens.
bool enter_soon(Loop& loop, const Parking& caller) {
  return static_cast<bool>(soon([&] { return loop.run_for(caller); }));
}

// libev looks again by itself after 59.7 s: what is seen before that was looked at because of the guest.
bool before_libev_looks_by_itself(const std::function<bool()>& true_now) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!true_now()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

TEST(GuestTest, runs_the_wake_handler_on_its_own_thread_while_the_loop_waits) {
  RunningLoop loop;
  std::thread::id ran_on;
  Parking caller;
  loop->on_wake([&] { ran_on = std::this_thread::get_id(); });
  loop.start();
  ASSERT_TRUE(enter_soon(loop.of_guest(), caller));
  EXPECT_EQ(ran_on, std::this_thread::get_id());
}

TEST(GuestTest, is_refused_while_the_loop_is_busy) {
  RunningLoop loop;
  std::atomic<bool> inside{false};
  std::atomic<bool> release{false};
  loop->on_wake([] {});
  loop.start();
  loop->post([&] {
    inside = true;
    while (!release) std::this_thread::yield();
  });
  while (!inside) std::this_thread::yield();
  const Parking caller;
  EXPECT_FALSE(loop->run_for(caller));
  release = true;
}

// Plain variables on purpose: ThreadSanitizer would see two that are in at one time.
TEST(GuestTest, guests_and_the_loop_are_never_in_together) {
  RunningLoop loop;
  uint64_t handled = 0;
  uint64_t fired = 0;
  std::atomic<uint64_t> entered{0};
  loop->on_wake([&] { ++handled; });
  loop.start();
  std::unique_ptr<Timer> timer;
  loop.call([&] {
    timer = loop->make_timer([&] {
      ++fired;
      ++handled;
      timer->arm(50'000);
    });
    timer->arm(0);
  });
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i)
    threads.emplace_back([&] {
      for (int n = 0; n < 5000 || (entered == 0 && n < 60'000); ++n) {
        // The loop may have waited for events only while none of these threads ran.
        if (n >= 5000) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        Parking caller;
        caller.unpark();
        if (loop->run_for(caller))
          ++entered;
        else
          loop->wake();
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(entered.load(), 0u);
  EXPECT_TRUE(loop.eventually([&] { return fired > 5 && handled >= entered + fired; }));
  loop.call([&] { timer.reset(); });
}

// A stop of the process, a debugger or a signal interrupts the wait; libev ends the process where errno says anything else then.
TEST(GuestTest, a_wait_that_is_interrupted_while_guests_come_and_go_ends_nothing) {
  struct sigaction quiet {};
  quiet.sa_handler = [](int) {};
  struct sigaction before {};
  ASSERT_EQ(::sigaction(SIGUSR1, &quiet, &before), 0);
  {
    RunningLoop loop;
    std::atomic<pthread_t> runner{};
    std::atomic<uint64_t> entered{0};
    loop->on_wake([&] {
      if (!::pthread_equal(::pthread_self(), runner)) (void)::pthread_kill(runner, SIGUSR1);
    });
    loop.start();
    loop.call([&] {
      sigset_t one;
      sigemptyset(&one);
      sigaddset(&one, SIGUSR1);
      ::pthread_sigmask(SIG_UNBLOCK, &one, nullptr);
      runner = ::pthread_self();
    });
    std::vector<std::thread> guests;
    for (int i = 0; i < 2; ++i)
      guests.emplace_back([&] {
        for (int n = 0; n < 1'000'000; ++n) {
          Parking caller;
          caller.unpark();
          if (loop->run_for(caller)) ++entered; else std::this_thread::yield();
        }
      });
    for (std::thread& guest : guests) guest.join();
    EXPECT_GT(entered.load(), 0u);
  }
  ::sigaction(SIGUSR1, &before, nullptr);
}

TEST(GuestTest, a_timer_that_a_guest_arms_fires) {
  RunningLoop loop;
  std::unique_ptr<Timer> timer;
  std::atomic<bool> fired{false};
  loop->on_wake([&] {
    if (!timer) timer = loop->make_timer([&] { fired = true; });
    timer->arm(5'000'000);
  });
  loop.start();
  const Parking caller;
  ASSERT_TRUE(enter_soon(loop.of_guest(), caller));
  EXPECT_TRUE(before_libev_looks_by_itself([&] { return fired.load(); }));
  loop.call([&] { timer.reset(); });
}

TEST(GuestTest, its_disk_writes_are_done_once_and_are_in_the_file) {
  TemporaryDirectory directory;
  RunningLoop loop;
  PosixDisk::Options options;
  options.file.path = directory / "disk";
  options.file.size_bytes = 1 * kMiB;
  options.file.create = true;
  auto disk = std::move(PosixDisk::open(*loop, options).value());
  std::vector<std::byte> data(4096);
  uint64_t done = 0;
  std::atomic<Parking*> parking{nullptr};
  DiskRequest request;
  request.op = DiskOp::kWrite;
  request.data = data.data();
  request.length_bytes = data.size();
  request.done = [&](DiskRequest&) {
    ++done;
    parking.load()->unpark();
  };
  loop->on_wake([&] { disk->submit(request); });
  loop.start();
  uint64_t as_guest = 0;
  for (uint64_t i = 0; i < 200; ++i) {
    Parking mine;
    parking = &mine;
    std::memset(data.data(), static_cast<int>(i + 1), data.size());
    request.offset_bytes = i * data.size();
    // Now and then wait for the loop to be idle, so that a slow machine has guests, too.
    if (i % 10 == 0 ? enter_soon(loop.of_guest(), mine) : loop->run_for(mine))
      ++as_guest;
    else
      loop->wake();
    mine.park();
  }
  EXPECT_GE(as_guest, 20u);
  loop.call([&] { EXPECT_EQ(done, 200u); });
  for (uint64_t i = 0; i < 200; ++i) {
    ASSERT_EQ(disk->read_now(i * data.size(), data), 0);
    EXPECT_EQ(data.back(), static_cast<std::byte>(i + 1));
  }
  loop.stop();
}

std::atomic<int> plain_writes{0};

// What makes itself stable must not be written like what need not.
TEST(GuestTest, its_direct_write_with_fua_is_stable_when_it_is_told) {
  static const DiskCalls calls = [] {
    DiskCalls made = DiskCalls::system();
    made.pwrite = [](int fd, const void* data, size_t length, off_t at) {
      ++plain_writes;
      return DiskCalls::system().pwrite(fd, data, length, at);
    };
    return made;
  }();
  const TemporaryDirectory directory;
  RunningLoop loop;
  PosixDisk::Options options;
  options.engine = PosixDisk::Engine::kThreads;
  options.file.path = directory / "disk";
  options.file.size_bytes = 1 * kMiB;
  options.file.create = true;
  options.file.cache = DiskFile::Cache::kDirect;
  options.file.calls = &calls;
  auto disk = std::move(PosixDisk::open(*loop, options).value());
  std::atomic<bool> flushed{false};
  DiskRequest flush;
  flush.op = DiskOp::kFlush;
  flush.done = [&flushed](DiskRequest&) { flushed = true; };
  std::vector<std::byte> bytes(4096, std::byte{7});
  Parking parking;
  DiskRequest write;
  write.op = DiskOp::kWrite;
  write.fua = true;
  write.data = bytes.data();
  write.length_bytes = bytes.size();
  write.done = [&parking](DiskRequest&) { parking.unpark(); };
  loop->on_wake([&] { disk->submit(write); });
  loop.start();
  loop.call([&] { disk->submit(flush); });
  ASSERT_TRUE(soon([&] { return flushed.load(); }));
  plain_writes = 0;
  ASSERT_TRUE(enter_soon(loop.of_guest(), parking));
  parking.park();
  EXPECT_EQ(write.error, 0);
  EXPECT_EQ(plain_writes, 0);
  loop.stop();
}

TEST(GuestTest, a_descriptor_that_a_guest_watches_is_looked_at) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  ASSERT_EQ(::write(ends[1], "x", 1), 1);
  RunningLoop loop;
  std::atomic<bool> ready{false};
  std::unique_ptr<IoWatcher> watcher;
  loop->on_wake([&] {
    watcher = std::make_unique<IoWatcher>(loop.of_guest(), ends[0], EV_READ, [&] {
      watcher->stop();
      ready = true;
    });
    watcher->start();
  });
  loop.start();
  const Parking caller;
  ASSERT_TRUE(enter_soon(loop.of_guest(), caller));
  EXPECT_TRUE(before_libev_looks_by_itself([&] { return ready.load(); }));
  loop.call([&] { watcher.reset(); });
  loop.stop();
  for (const int end : ends) ::close(end);
}

}  // namespace
}  // namespace twinblock
