// What is looked after now and then, whether clients write or not: epochs that no client's flush
// closes, intents of regions that nobody writes any more, a disk that does not get on. Owned by the
// engine; loop thread only.
#pragma once

#include <functional>
#include <memory>

#include "volume/core.h"
#include "volume/disk_health.h"
#include "volume/flush_group.h"
#include "volume/replica.h"
#include "volume/roles.h"
#include "volume/write_path.h"

namespace twinblock {

class Upkeep {
 public:
  // The engine's.
  struct Parts {
    WritePath& writes;
    FlushGroup& flushes;
    Replica& replica;
    DiskHealth& disks;
    const Roles& roles;
  };

  // `look` is called at each turn: what is said of the volume may be another state now.
  Upkeep(Core& core, const Parts& parts, std::function<void()> look);
  void start();

 private:
  void tick();
  void close_epoch();
  void age_intents();

  Core& core_;
  const Parts parts_;
  const std::function<void()> look_;
  std::unique_ptr<Timer> tick_timer_;
  std::unique_ptr<Timer> age_timer_;
  uint64_t epoch_opened_ns_ = 0;
};

}  // namespace twinblock
