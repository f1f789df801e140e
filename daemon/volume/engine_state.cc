// What the engine notes of its own course: how long it was alone.
#include <algorithm>

#include "volume/engine.h"

namespace twinblock {

void Engine::note_state() {
  const bool alone = is_primary() && !core_.attached();
  if (alone == (simplex_since_ns_ != 0)) return;
  const uint64_t now = core_.clock.now_ns();
  if (alone)
    ++simplex_times_;
  else
    simplex_ns_ += now - simplex_since_ns_;
  simplex_since_ns_ = alone ? std::max<uint64_t>(now, 1) : 0;
}

}  // namespace twinblock
