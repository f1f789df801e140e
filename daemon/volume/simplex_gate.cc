#include "volume/simplex_gate.h"

#include <utility>

namespace twinblock {

void SimplexGate::pass(std::function<void(int)> then) {
  if (open_) {
    then(0);
    return;
  }
  waiting_.push_back(std::move(then));
  if (recording_) return;
  recording_ = true;
  metadata::Generations& generations = core_.record.generations;
  // While base and current differ, this history is already this node's own.
  if (generations.current == generations.base) {
    uint64_t fresh = core_.random();
    while (generations.knows(fresh)) fresh = core_.random();
    generations.advance(fresh);
  }
  core_.record.dirty = true;
  core_.persist([this](int error) {
    recording_ = false;
    // Closed meanwhile or not: whoever waits had to wait for this record and no other.
    open_ = error == 0;
    for (auto& waiter : std::exchange(waiting_, {})) waiter(error);
  });
}

}  // namespace twinblock
