// Keeps the promise of going on alone: before anything is acknowledged that the peer misses, a new
// generation and the fact that it misses something are durable (invariants 1 and 3, design section
// 6). And before anything more is acknowledged once the peer was told what this node holds, that this
// node has moved on since: an operator may order at the peer to give up what was told (invariant 13).
// Whether it may go on alone at all is not decided here, but by whoever comes to the gate
// (Stance::may_promise_alone()): where a witness has to consent, that is asked before (invariant 15).
// Owned by the engine; loop thread only.
#pragma once

#include <functional>
#include <vector>

#include "volume/core.h"

namespace twinblock {

class SimplexGate {
 public:
  explicit SimplexGate(Core& core) : core_(core) {}

  // A write is to be acknowledged. Calls `then` with 0 when it may be (at once, if all is on record
  // already), or with an errno value when it can't be recorded; EAGAIN: the right to go on alone was
  // lost meanwhile, as the peer is back. This node has that right when it calls.
  void pass(std::function<void(int error)> then);
  // The same of a flush, which adds nothing to what an order would give up.
  void pass_flush(std::function<void(int error)> then);
  // The peer is about to record that it has all: it then shares the current generation, whether
  // this node hears of that or not, so that the next loss needs a new one.
  void close() {
    open_ = false;
    closed_meanwhile_ = true;
    core_.stance().alone_right().withdraw();
  }
  // The peer is told what this node holds: the next write moves on from it.
  void told() {
    told_ = true;
    moves_on_ = moves_on_ || recording_;
  }

 private:
  void record();
  void wait(std::function<void(int)> then);

  Core& core_;
  bool open_ = false;
  bool recording_ = false;
  bool closed_meanwhile_ = false;
  bool told_ = true;       // the peer may know the state that is on record …
  bool moves_on_ = false;  // … and a write waits for another one
  std::vector<std::function<void(int)>> waiting_;
};

}  // namespace twinblock
