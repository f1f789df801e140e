// A fence command that is a program (twinblock.toml(5), "THE FENCE COMMAND"), started and waited for by a
// thread of its own: what is executed may lie on a disk that hangs. Used and destroyed on the loop, or
// before and after it runs.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "io/log.h"
#include "io/posix/lone_thread.h"
#include "io/witness.h"

namespace twinblock {

class FenceCommandProcess final : public FenceCommand {
 public:
  // What it writes goes to `log`, which takes lines from any thread, as StderrLog does. Its end ends what runs, as at the
  // deadline.
  FenceCommandProcess(Loop& loop, Log& log, std::string path, uint64_t timeout_ns);
  // Ends at the deadline and what it takes to end the command then, some 2 s at most. An error, too,
  // while one runs.
  void fence(const FenceCall& call, std::function<void(Result<int>)> done) override;
  [[nodiscard]] std::string name() const override { return path_; }

 private:
  void work(const FenceCall& call, const std::function<void(Result<int>)>& done, uint64_t deadline_ns);
  void answer(Result<int> status, const std::function<void(Result<int>)>& done);

  Log& log_;
  const std::string path_;
  const uint64_t timeout_ns_;
  LoneThread thread_;
};

}  // namespace twinblock
