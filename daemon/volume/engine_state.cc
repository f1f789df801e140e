// What the engine notes of its own course: its state as an event, and how long it was alone.
#include <algorithm>
#include <utility>

#include "volume/engine.h"

namespace twinblock {

void Engine::note_state() {
  note_simplex();
  const VolumeState state = volume_state();
  // While a session is being set up, what comes of it is not known yet.
  const bool between = state == VolumeState::kConnecting && session_.up();
  if (between || state == told_state_) return;
  StatusView view;
  view.state = state;
  view.disk_error = disk_error();
  explain_state(view);
  const char* before = told_state_ ? state_name(*told_state_) : "";
  told_state_ = state;
  core_.events.tell("state", {{"state", state_name(state)},
                              {"before", before},
                              {"role", is_primary() ? "primary" : "secondary"},
                              {"reason", view.status}});
}

void Engine::note_simplex() {
  const bool alone = is_primary() && !core_.phase.attached();
  if (alone == (simplex_since_ns_ != 0)) return;
  const uint64_t now = core_.clock.now_ns();
  if (alone)
    ++simplex_times_;
  else
    simplex_ns_ += now - simplex_since_ns_;
  simplex_since_ns_ = alone ? std::max<uint64_t>(now, 1) : 0;
}

}  // namespace twinblock
