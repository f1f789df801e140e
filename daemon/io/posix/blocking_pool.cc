#include "io/posix/blocking_pool.h"

#include <utility>

#include "io/posix/thread.h"

namespace twinblock {

BlockingPool::BlockingPool(const char* name, size_t threads,
                           std::function<void(DiskRequest&)> execute)
    : execute_(std::move(execute)) {
  for (size_t i = 0; i < threads; ++i) threads_.push_back(start_thread(name, [this] { work(); }));
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
  {
    const std::lock_guard lock(mutex_);
    while (DiskRequest* request = list.pop()) {
      queue_.push(*request);
      ++count;
    }
  }
  if (count >= threads_.size()) return filled_.notify_all();
  for (; count > 0; --count) filled_.notify_one();
}

void BlockingPool::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    filled_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    DiskRequest* request = queue_.pop();
    if (request == nullptr) return;
    lock.unlock();
    execute_(*request);
    lock.lock();
  }
}

}  // namespace twinblock
