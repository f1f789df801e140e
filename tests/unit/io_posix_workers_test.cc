// Computations beside the loop.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <system_error>
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

// No thread more for this process, whoever runs the tests: the limit does not hold for root.
void forbid_threads() {
  const rlimit none{0, 0};
  constexpr uid_t kNobody = 65534;
  if (::setrlimit(RLIMIT_NPROC, &none) != 0 || (::getuid() == 0 && ::setresuid(kNobody, kNobody, kNobody) != 0))
    std::abort();
}

TEST(WorkerThreadsDeathTest, ComputationsAreMadeWhereNoMoreThreadsCanBeStarted) {
  const auto compute = [] {
    Loop loop;
    loop.prepare();
    WorkerThreads workers(loop);
    loop.post([&] {
      forbid_threads();
      workers.run([] {}, [&] { loop.stop(); });
    });
    loop.run();
    std::_Exit(0);
  };
  EXPECT_EXIT(compute(), ::testing::ExitedWithCode(0), "");
}

TEST(WorkerThreadsDeathTest, WhoStartsThemIsToldThatNoThreadsCanBeStarted) {
  const auto start = [] {
    forbid_threads();
    int refused = 0;
    Loop loop;
    try {
      loop.prepare();
    } catch (const std::system_error&) {
      ++refused;
    }
    try {
      const WorkerThreads workers(loop);
    } catch (const std::system_error&) {
      ++refused;
    }
    std::_Exit(refused == 2 ? 0 : 1);
  };
  EXPECT_EXIT(start(), ::testing::ExitedWithCode(0), "");
}

TEST(WorkerThreads, ALoopThatIsPreparedNeedNotRun) {
  Loop loop;
  loop.prepare();
}

}  // namespace
}  // namespace twinblock
