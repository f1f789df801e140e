#include "io/posix/worker_threads.h"

#include <utility>

#include "io/posix/thread.h"

namespace twinblock {

WorkerThreads::WorkerThreads(Loop& loop) : loop_(loop) {
  try {
    while (threads_.size() < kThreads) threads_.push_back(start_thread("tb-worker", [this] { work(); }));
  } catch (...) {
    shut_down();
    throw;
  }
}

void WorkerThreads::run(std::function<void()> work, std::function<void()> done) {
  bool wake = false;
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back({std::move(work), std::move(done)});
    wake = idle_ > 0;
  }
  if (wake) filled_.notify_one();
}

void WorkerThreads::work() {
  run_in_batches();
  std::unique_lock lock(mutex_);
  for (;;) {
    ++idle_;
    filled_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    --idle_;
    if (stopping_) return;
    Job job = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    job.work();
    lock.lock();
    const bool first = finished_.empty();
    finished_.push_back(std::move(job.done));
    if (!first) continue;  // the loop has been called, and finds this one, too
    lock.unlock();
    loop_.post([this] { deliver(); });
    lock.lock();
  }
}

void WorkerThreads::deliver() {
  std::vector<std::function<void()>> finished;
  {
    const std::lock_guard lock(mutex_);
    finished.swap(finished_);
  }
  for (const auto& done : finished) done();
}

void WorkerThreads::shut_down() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  filled_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

}  // namespace twinblock
