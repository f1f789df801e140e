// Computations beside the loop, and what becomes of all that wants a thread where the host has no more.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "io/posix/etcd_witness.h"
#include "io/posix/fence_command_process.h"
#include "io/posix/key_reader.h"
#include "io/posix/posix_disk.h"
#include "io/posix/stderr_log.h"
#include "io/posix/worker_threads.h"
#include "io_posix_support.h"
#include "pattern.h"

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

// It begins with one thread, and gets more under load: just then a node that serves would be gone.
TEST(WorkerThreadsDeathTest, RequestsOfADiskAreDoneWhereNoMoreThreadsCanBeStarted) {
  const TemporaryDirectory directory;
  const auto serve = [&directory] {
    Loop loop;
    loop.prepare();
    PosixDisk::Options options;
    options.engine = PosixDisk::Engine::kThreads;
    options.file.path = directory / "disk";
    options.file.size_bytes = 1 * kMiB;
    options.file.create = true;
    options.inline_bytes = 0;
    const auto disk = PosixDisk::open(loop, options);
    if (!disk.ok()) std::_Exit(2);
    std::array<DiskRequest, 16> requests;
    Bytes data(4 * kKiB);
    size_t left = requests.size();
    loop.post([&] {
      forbid_threads();
      for (DiskRequest& each : requests) {
        each.op = DiskOp::kRead;
        each.length_bytes = data.size();
        each.data = data.data();
        each.done = [&](DiskRequest& request) {
          if (request.error != 0) std::_Exit(3);
          if (--left == 0) loop.stop();
        };
        disk.value()->submit(each);
      }
    });
    loop.run();
    std::_Exit(0);
  };
  EXPECT_EXIT(serve(), ::testing::ExitedWithCode(0), "");
}

// What needs a thread that can't be started says so on the loop: `begin` is given what to call then. The exit code: 0
// where it has said what it should.
template <typename T>
int told_that_there_is_no_thread(const std::string& what_for,
                                 const std::function<void(Loop&, std::function<void(const Result<T>&)>)>& begin) {
  Loop loop;
  loop.prepare();
  std::string said;
  loop.post([&] {
    forbid_threads();
    begin(loop, [&](const Result<T>& result) {
      said = result.ok() ? "no error" : result.error().what;
      loop.stop();
    });
  });
  loop.run();
  return said.find("no thread can be started " + what_for) != std::string::npos ? 0 : 1;
}

TEST(WorkerThreadsDeathTest, WhoAsksEtcdIsToldThatNoThreadCanBeStarted) {
  const auto ask = [] {
    std::unique_ptr<EtcdWitness> witness;
    std::_Exit(told_that_there_is_no_thread<WitnessReading>("to ask etcd", [&](Loop& loop, auto done) {
      EtcdAccess access;
      access.endpoints = {"http://127.0.0.1:1"};
      access.timeout_ns = 1 * kSecond_ns;
      witness = std::make_unique<EtcdWitness>(loop, access);
      witness->read("r0", "6f9619ff-8b86-d011-b42d-00cf4fc964ff", done);
    }));
  };
  EXPECT_EXIT(ask(), ::testing::ExitedWithCode(0), "");
}

TEST(WorkerThreadsDeathTest, WhoFencesIsToldThatNoThreadCanBeStarted) {
  const auto fence = [] {
    StderrLog log("r0/alpha");
    std::unique_ptr<FenceCommandProcess> command;
    std::_Exit(told_that_there_is_no_thread<int>("for", [&](Loop& loop, auto done) {
      command = std::make_unique<FenceCommandProcess>(loop, log, "/bin/true", 1 * kSecond_ns);
      command->fence({"r0", "alpha", "beta", "10.0.0.2", false}, done);
    }));
  };
  EXPECT_EXIT(fence(), ::testing::ExitedWithCode(0), "");
}

TEST(WorkerThreadsDeathTest, WhoReadsKeysIsToldThatNoThreadCanBeStarted) {
  const auto read = [] {
    std::unique_ptr<KeyReader> reader;
    std::_Exit(told_that_there_is_no_thread<LinkKeys>("to read the keys", [&](Loop& loop, auto done) {
      reader = std::make_unique<KeyReader>(loop, [] { return Result<LinkKeys>(LinkKeys{make_link_key()}); });
      reader->read(done);
    }));
  };
  EXPECT_EXIT(read(), ::testing::ExitedWithCode(0), "");
}

TEST(WorkerThreads, ALoopThatIsPreparedNeedNotRun) {
  Loop loop;
  loop.prepare();
}

}  // namespace
}  // namespace twinblock
