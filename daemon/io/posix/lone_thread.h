// One piece of work at a time beside the loop, on a thread of its own: what it waits for may hang, a disk or a command of
// the user's. What it has to say comes to the loop. Used and destroyed on the loop, or before and after it runs, but for
// what any thread may call. Who owns it destroys it before what the work uses.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "base/result.h"
#include "io/posix/descriptor.h"
#include "io/posix/loop.h"

namespace twinblock {

class LoneThread {
 public:
  LoneThread(Loop& loop, const char* name);
  // Waits for the work, which sees stop_fd().
  ~LoneThread();
  LoneThread(const LoneThread&) = delete;
  LoneThread& operator=(const LoneThread&) = delete;

  // False: the last work has not ended (end()).
  [[nodiscard]] bool claim() { return !running_.exchange(true); }
  // Of who has claimed it. An error: no thread can be started `what_for`, and the claim is given up.
  [[nodiscard]] Status start(std::function<void()> work, const std::string& what_for);
  // Any thread: another piece of work may be claimed.
  void end() { running_ = false; }
  // Any thread. Readable when this ends.
  [[nodiscard]] int stop_fd() const { return stop_.get(); }
  // Any thread: on the loop, and not any more when this is gone.
  void post(std::function<void()> said);

 private:
  Loop& loop_;
  const char* const name_;
  const Descriptor stop_;  // an eventfd
  // Goes with this: an answer that comes later finds nobody.
  std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);
  std::atomic<bool> running_{false};
  std::thread thread_;
};

}  // namespace twinblock
