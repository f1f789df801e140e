// A few threads for computations beside the loop (io/workers.h). They are there from the start: who has begun to
// serve must not come to need one that the host's limits refuse. Created, used and destroyed on the loop, or before and
// after it runs.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "io/posix/loop.h"
#include "io/workers.h"

namespace twinblock {

class WorkerThreads final : public Workers {
 public:
  static constexpr size_t kThreads = 2;

  // Throws std::system_error when there can be no more threads.
  explicit WorkerThreads(Loop& loop);
  ~WorkerThreads() override { shut_down(); }
  WorkerThreads(const WorkerThreads&) = delete;
  WorkerThreads& operator=(const WorkerThreads&) = delete;

  void run(std::function<void()> work, std::function<void()> done) override;

  // After Loop::run() has returned: waits for the computations that have begun; what is queued is
  // dropped, and nothing is delivered any more.
  void shut_down();

 private:
  struct Job {
    std::function<void()> work;
    std::function<void()> done;
  };

  void work();
  void deliver();

  Loop& loop_;
  // Held for queueing and unqueueing only, so the loop waits for it no longer than that.
  std::mutex mutex_;
  std::condition_variable filled_;
  std::deque<Job> queue_;
  std::vector<std::function<void()>> finished_;
  size_t idle_ = 0;  // threads that wait
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace twinblock
