// Computations beside the loop.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "io/posix/worker_threads.h"
#include "io_posix_support.h"

namespace twinblock {
namespace {

TEST(WorkerThreads, WorkRunsElsewhereAndItsEndIsToldOnTheLoop) {
  Loop loop;
  WorkerThreads workers(loop);
  constexpr int kJobs = 200;
  const std::thread::id loop_thread = std::this_thread::get_id();
  std::vector<std::thread::id> ran(kJobs);
  int ended = 0;
  loop.post([&] {
    for (int i = 0; i < kJobs; ++i)
      workers.run([&ran, i] { ran[static_cast<size_t>(i)] = std::this_thread::get_id(); },
                  [&, i] {
                    EXPECT_TRUE(loop.on_loop());
                    EXPECT_NE(ran[static_cast<size_t>(i)], std::thread::id());
                    EXPECT_NE(ran[static_cast<size_t>(i)], loop_thread);
                    if (++ended == kJobs) loop.stop();
                  });
    EXPECT_EQ(ended, 0) << "never from within run()";
  });
  loop.run();
  EXPECT_EQ(ended, kJobs);
}

TEST(WorkerThreads, TwoComputationsRunSideBySide) {
  Loop loop;
  WorkerThreads workers(loop);
  std::atomic<int> inside{0};
  std::atomic<bool> met{false};
  int ended = 0;
  const auto work = [&] {
    ++inside;
    if (soon([&] { return met || inside == 2; })) met = true;
  };
  const auto done = [&] {
    if (++ended == 2) loop.stop();
  };
  loop.post([&] {
    workers.run(work, done);
    workers.run(work, done);
  });
  loop.run();
  EXPECT_TRUE(met);
}

TEST(WorkerThreads, EndInTheMiddleDeliversNothingMore) {
  constexpr int kJobs = 60'000;  // half a minute of work for two
  Loop loop;
  std::atomic<int> worked{0};
  int ended = 0;
  {
    WorkerThreads workers(loop);
    loop.post([&] {
      for (int i = 0; i < kJobs; ++i)
        workers.run(
            [&] {
              ++worked;
              std::this_thread::sleep_for(std::chrono::milliseconds(1));
            },
            [&] { ++ended; });
      loop.stop();
    });
    loop.run();
  }
  EXPECT_LT(worked, kJobs);
  const int worked_then = worked;
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(worked, worked_then);
  EXPECT_LE(ended, worked);
}

}  // namespace
}  // namespace twinblock
