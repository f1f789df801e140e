// What the io_posix tests share: a loop on a thread of its own.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <functional>
#include <future>
#include <string>
#include <thread>

#include "base/result.h"
#include "io/posix/loop.h"
#include "io/posix/thread.h"
#include "temporary_directory.h"

namespace twinblock {

// What has not happened by then never will: no promise of the code under test, which a busy
// machine may keep from running for seconds.
constexpr std::chrono::seconds kNever{60};

// Waits until `condition` holds.
inline ::testing::AssertionResult soon(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + kNever;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline)
      return ::testing::AssertionFailure() << "not within " << kNever.count() << " s";
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return ::testing::AssertionSuccess();
}

// A disk was not opened for want of what a host, or a container, may lack: io_uring, or direct I/O in a file system.
inline bool host_lacks_it(const Error& error) {
  constexpr std::array kLacking{EPERM, ENOSYS, ENOMEM, EINVAL, EOPNOTSUPP};
  return std::find(kLacking.begin(), kLacking.end(), error.code) != kLacking.end();
}

// A loop that runs from start() to the end of the test.
class RunningLoop {
 public:
  RunningLoop() = default;
  explicit RunningLoop(const Loop::Pace& pace) : loop_(pace) {}
  ~RunningLoop() { stop(); }
  // For what becomes part of it: before it runs, or on it.
  Loop& operator*() {
    EXPECT_TRUE(!thread_.joinable() || loop_.on_loop())
        << "the loop runs, and this is another thread";
    return loop_;
  }
  // For what any thread may ask of it.
  Loop* operator->() { return &loop_; }
  // For a thread that runs it as a guest, at times.
  Loop& of_guest() { return loop_; }
  void start() {
    thread_ = start_thread("loop", [this] { loop_.run(); });
  }
  void stop() {
    if (!thread_.joinable()) return;
    loop_.stop();
    thread_.join();
  }
  // Runs `work` on the loop and waits for it.
  void call(const std::function<void()>& work) {
    std::promise<void> finished;
    loop_.post([&] {
      work();
      finished.set_value();
    });
    finished.get_future().wait();
  }
  // Waits until `condition`, asked on the loop, holds.
  ::testing::AssertionResult eventually(const std::function<bool()>& condition) {
    return soon([&] {
      bool holds = false;
      call([&] { holds = condition(); });
      return holds;
    });
  }

 private:
  Loop loop_;
  std::thread thread_;
};

}  // namespace twinblock
