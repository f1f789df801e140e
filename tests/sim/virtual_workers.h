// Workers on virtual time: a computation takes a while and ends in any order. It is made at the
// moment at which it is finished, so that what it uses must have been left to it until then.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include "base/units.h"
#include "io/workers.h"
#include "random.h"
#include "scheduler.h"

namespace twinblock::sim {

class VirtualWorkers final : public Workers {
 public:
  VirtualWorkers(Scheduler& scheduler, ProcessPtr process, Random random)
      : scheduler_(scheduler), process_(std::move(process)), random_(random) {}

  void run(std::function<void()> work, std::function<void()> done) override {
    scheduler_.after(random_.spread(1, 3000) * kMicrosecond_ns + longer_ns, process_,
                     [work = std::move(work), done = std::move(done)] {
                       work();
                       done();
                     });
  }

  uint64_t longer_ns = 0;  // than others

 private:
  Scheduler& scheduler_;
  ProcessPtr process_;
  Random random_;
};

}  // namespace twinblock::sim
