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
  const bool alone = is_primary() && !core_.attached();
  if (alone == (simplex_since_ns_ != 0)) return;
  const uint64_t now = core_.clock.now_ns();
  if (alone)
    ++simplex_times_;
  else
    simplex_ns_ += now - simplex_since_ns_;
  simplex_since_ns_ = alone ? std::max<uint64_t>(now, 1) : 0;
}

void Engine::tell_resync_begun(bool source) {
  resync_told_ = true;
  core_.events.tell("resync-begun",
                    {{"direction", source ? "to-peer" : "from-peer"}, {"reason", resync_reason_}});
}

void Engine::tell_resync_ended(bool source) {
  if (!std::exchange(resync_told_, false)) return;
  const Progress& progress = source ? resync_.progress() : target_progress_;
  EventDetails details{{"direction", source ? "to-peer" : "from-peer"},
                       {"bytes", progress.total_bytes()},
                       {"milliseconds", progress.duration_ns() / kMillisecond_ns}};
  if (source) {
    details.emplace_back("data_bytes", resync_.sent().data_bytes);
    details.emplace_back("zero_bytes", resync_.sent().zero_bytes);
    details.emplace_back("compared_bytes", resync_.sent().compared_bytes);
  }
  core_.events.tell("resync-ended", std::move(details));
}

void Engine::tell_resync_failed(const std::string& why) {
  if (std::exchange(resync_told_, false)) core_.events.tell("resync-failed", {{"reason", why}});
}

}  // namespace twinblock
