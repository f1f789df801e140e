#include "io/posix/blocking_pool.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "io/posix/thread.h"

namespace twinblock {

BlockingPool::BlockingPool(const char* name, size_t threads_max,
                           std::function<void(DiskRequest&)> execute)
    : name_(name), threads_max_(threads_max), execute_(std::move(execute)) {
  add_thread();
}

void BlockingPool::add_thread() {
  threads_.push_back(start_thread(name_, [this] { work(); }));
}

BlockingPool::~BlockingPool() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  filled_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void BlockingPool::put(RequestList& list) {
  size_t count = 0;
  size_t without_thread = 0;
  {
    const std::lock_guard lock(mutex_);
    while (DiskRequest* request = list.pop()) {
      queue_.push(*request);
      ++count;
    }
    queued_ += count;
    without_thread = queued_ - std::min(queued_, idle_);
  }
  if (count >= threads_.size())
    filled_.notify_all();
  else
    for (; count > 0; --count) filled_.notify_one();
  try {
    for (; without_thread > 0 && threads_.size() < threads_max_; --without_thread) add_thread();
  } catch (const std::system_error&) {
    // The host has no more threads for us; those that there are do the work.
  }
}

void BlockingPool::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    ++idle_;
    filled_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    --idle_;
    DiskRequest* request = queue_.pop();
    if (request == nullptr) return;
    --queued_;
    lock.unlock();
    execute_(*request);
    lock.lock();
  }
}

}  // namespace twinblock
