// What a node remembers and tells of its own course: each new state, how long it was a primary alone,
// and how its last session ended. It decides nothing. Owned by the engine; loop thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "volume/core.h"
#include "volume/event_words.h"
#include "volume/status_view.h"

namespace twinblock {

class StateLog {
 public:
  StateLog(Core& core, const EventWords& words) : core_(core), words_(words) {}

  // After whatever may have changed the state; `view` is asked for if it has.
  void note(VolumeState state, bool connected, const std::function<StatusView()>& view);
  // Whether this node is a primary whose peer does not receive what it writes.
  void note_alone(bool alone);
  void session_lost(const std::string& reason);

  // Adds to the view what is kept here.
  void fill(StatusView& view) const;

 private:
  Core& core_;
  const EventWords& words_;
  std::optional<VolumeState> told_;  // the last state that was told as an event
  uint64_t alone_since_ns_ = 0;      // 0: it is not
  uint64_t alone_ns_ = 0;            // before that
  uint64_t alone_times_ = 0;
  std::string loss_reason_;    // of the last session …
  uint64_t lost_wall_ns_ = 0;  // … and when; 0: there was none
};

}  // namespace twinblock
