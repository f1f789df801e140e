// What the io_posix tests share: a loop on a thread of its own.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <future>
#include <string>
#include <thread>

#include "io/posix/loop.h"
#include "io/posix/thread.h"
#include "temporary_directory.h"

namespace twinblock {

// A loop that runs from start() to the end of the test.
class RunningLoop {
 public:
  ~RunningLoop() { stop(); }
  Loop& operator*() { return loop_; }
  Loop* operator->() { return &loop_; }
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
  ::testing::AssertionResult eventually(
      const std::function<bool()>& condition,
      std::chrono::milliseconds within = std::chrono::seconds(10)) {
    const auto deadline = std::chrono::steady_clock::now() + within;
    do {
      bool holds = false;
      call([&] { holds = condition(); });
      if (holds) return ::testing::AssertionSuccess();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    } while (std::chrono::steady_clock::now() < deadline);
    return ::testing::AssertionFailure() << "not within " << within.count() << " ms";
  }

 private:
  Loop loop_;
  std::thread thread_;
};

}  // namespace twinblock
