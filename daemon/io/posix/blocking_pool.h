// Threads for disk requests that block: fallocate, fsync, lseek, and all transfers where io_uring
// is not available. One at first, more when requests find none that is free. put() from one thread;
// `execute` runs on any of the pool's and ends by handing the request back through a
// CompletionStack.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "io/posix/request_list.h"

namespace twinblock {

class BlockingPool {
 public:
  BlockingPool(const char* name, size_t threads_max, std::function<void(DiskRequest&)> execute);
  // Executes what is queued, then ends the threads.
  ~BlockingPool();
  BlockingPool(const BlockingPool&) = delete;
  BlockingPool& operator=(const BlockingPool&) = delete;

  // Takes all of `list`.
  void put(RequestList& list);

 private:
  void add_thread();
  void work();

  const char* const name_;
  const size_t threads_max_;
  const std::function<void(DiskRequest&)> execute_;
  // Held for linking or unlinking requests only, so the loop waits for it no longer than that.
  std::mutex mutex_;
  std::condition_variable filled_;
  RequestList queue_;
  size_t queued_ = 0;
  size_t idle_ = 0;  // threads that wait
  bool stopping_ = false;
  std::vector<std::thread> threads_;  // of the putting thread
};

}  // namespace twinblock
