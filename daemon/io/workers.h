// Computations that would hold the loop up, made beside it. Implemented by io/posix (threads) and
// by the simulator. Loop thread only.
#pragma once

#include <functional>

namespace twinblock {

class Workers {
 public:
  virtual ~Workers() = default;
  // Calls `work` on some other thread, and then `done` on the loop, never from within run(). What
  // they point to stays valid until `done` has been called or this object is gone. Any number may
  // be outstanding; they may end in any order. Keep captures within 16 bytes: no allocation.
  virtual void run(std::function<void()> work, std::function<void()> done) = 0;
};

}  // namespace twinblock
