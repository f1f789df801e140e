#include "volume/state_log.h"

#include <algorithm>

namespace twinblock {

void StateLog::note(VolumeState state, bool connected,
                           const std::function<StatusView()>& view) {
  // While a session is being set up, what comes of it is not known yet.
  const bool between = state == VolumeState::kConnecting && connected;
  if (between || state == told_) return;
  const char* before = told_ ? state_name(*told_) : "";
  told_ = state;
  const StatusView now = view();
  core_.events().tell("state", {{"state", state_name(state)},
                              {"before", before},
                              {"role", is_primary(now.role) ? "primary" : "secondary"},
                              {"reason", words_.state(now)}});
}

void StateLog::note_alone(bool alone) {
  if (alone == (alone_since_ns_ != 0)) return;
  const uint64_t now = core_.clock.now_ns();
  if (alone)
    ++alone_times_;
  else
    alone_ns_ += now - alone_since_ns_;
  alone_since_ns_ = alone ? std::max<uint64_t>(now, 1) : 0;
}

void StateLog::session_lost(const std::string& reason) {
  core_.events().tell("session-lost", {{"peer", core_.peer}, {"reason", reason}});
  loss_reason_ = reason;
  lost_wall_ns_ = core_.clock.wall_ns();
}

void StateLog::fill(StatusView& view) const {
  view.simplex_now = alone_since_ns_ != 0;
  view.simplex_ns =
      alone_ns_ + (view.simplex_now ? core_.clock.now_ns() - alone_since_ns_ : 0);
  view.simplex_times = alone_times_;
  view.loss_reason = loss_reason_;
  view.lost_wall_ns = lost_wall_ns_;
}

}  // namespace twinblock
