// A fence command that is a program (twinblock.toml(5), "THE FENCE COMMAND"), started and waited for by a
// thread of its own: what is executed may lie on a disk that hangs. Used and destroyed on the loop, or
// before and after it runs.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "io/log.h"
#include "io/posix/descriptor.h"
#include "io/posix/loop.h"
#include "io/witness.h"

namespace twinblock {

class FenceCommandProcess final : public FenceCommand {
 public:
  // What it writes goes to `log`, which takes lines from any thread, as StderrLog does.
  FenceCommandProcess(Loop& loop, Log& log, std::string path, uint64_t timeout_ns);
  // Ends what runs, as at the deadline.
  ~FenceCommandProcess() override;
  FenceCommandProcess(const FenceCommandProcess&) = delete;
  FenceCommandProcess& operator=(const FenceCommandProcess&) = delete;

  // Ends at the deadline and what it takes to end the command then, some 2 s at most. An error, too,
  // while one runs.
  void fence(const FenceCall& call, std::function<void(Result<int>)> done) override;
  [[nodiscard]] std::string name() const override { return path_; }

 private:
  void work(const FenceCall& call, const std::function<void(Result<int>)>& done, uint64_t deadline_ns);
  void answer(Result<int> status, const std::function<void(Result<int>)>& done);

  Loop& loop_;
  Log& log_;
  const std::string path_;
  const uint64_t timeout_ns_;
  const Descriptor stop_;  // an eventfd: readable when this ends
  // Goes with this: an answer that comes later finds nobody.
  std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);
  std::atomic<bool> running_{false};
  std::thread thread_;
};

}  // namespace twinblock
