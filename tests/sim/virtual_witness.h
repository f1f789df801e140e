// A witness on virtual time: a register that both nodes reach over ways of their own, which may be cut,
// slow, or lose answers; that goes down, and comes back with or without what it knew. And a command that
// fences, with every exit status. Both belong to the world; what a process holds of them are ports.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/units.h"
#include "io/witness.h"
#include "random.h"
#include "scheduler.h"

namespace twinblock::sim {

class VirtualRegister {
 public:
  // How long a node waits for an answer.
  static constexpr uint64_t kTimeout_ns = 800 * kMillisecond_ns;

  VirtualRegister(Scheduler& scheduler, Random random) : scheduler_(scheduler), random_(random) {}

  // What a process of `host` asks it by.
  std::unique_ptr<Witness> port(int host, ProcessPtr process);

  // A request that is under way when any of these changes may be carried out all the same, also late.
  bool up = true;
  std::array<bool, 2> reached{true, true};  // by host
  double lost = 0;                          // the share of answers that get lost, …
  double late = 0;                          // … and of requests that take seconds to arrive
  // It starts anew, with empty disks; what was under way to it has lost its connection.
  void forget();
  [[nodiscard]] const std::optional<WitnessEntry>& entry() const { return entry_; }

 private:
  class Port;
  void ask(int host, const ProcessPtr& process, std::function<void()> carry_out, std::function<void()> answer,
           std::function<void()> no_answer);

  Scheduler& scheduler_;
  Random random_;
  std::optional<WitnessEntry> entry_;
  int64_t revision_ = 0;
  int64_t last_revision_ = 0;
  uint64_t life_ = 0;
};

// A fence command that is as good as an arbiter: who went on alone is the only one that may, until the
// two were together again. Who gets its consent has the peer's process ended before.
class VirtualFence {
 public:
  // `asked`: by that host, at that moment; `end_process`: of that host.
  VirtualFence(Scheduler& scheduler, Random random, std::function<void(int)> asked,
               std::function<void(int)> end_process)
      : scheduler_(scheduler),
        random_(random),
        asked_(std::move(asked)),
        end_process_(std::move(end_process)) {}

  std::unique_ptr<FenceCommand> port(int host, ProcessPtr process);
  void together() { alone_ = -1; }
  double useless = 0;  // the share of runs that end without saying anything, or late, or never

 private:
  class Port;
  Scheduler& scheduler_;
  Random random_;
  std::function<void(int)> asked_;
  std::function<void(int)> end_process_;
  int alone_ = -1;
};

}  // namespace twinblock::sim
