#include "volume/simplex_gate.h"

#include <utility>

namespace twinblock {

void SimplexGate::pass(std::function<void(int)> then) {
  if (open_) {
    then(0);
    return;
  }
  waiting_.push_back(std::move(then));
  if (!recording_) record();
}

void SimplexGate::record() {
  recording_ = true;
  closed_meanwhile_ = false;
  // Always a new one, even where current and base differ already: an earlier process, or a resync
  // whose end did not get through, may have shared the current one with the peer.
  metadata::Generations& generations = core_.record.generations;
  uint64_t fresh = core_.random();
  while (generations.knows(fresh)) fresh = core_.random();
  generations.advance(fresh);
  core_.record.dirty = true;
  core_.persist([this](int error) {
    recording_ = false;
    if (error == 0 && closed_meanwhile_) {
      record();
      return;
    }
    open_ = error == 0;
    for (auto& waiter : std::exchange(waiting_, {})) waiter(error);
  });
}

}  // namespace twinblock
