// Flushes, grouped: one is under way at a time on both nodes; those that arrive meanwhile share the
// next. A flush covers everything that was acknowledged before it began, on every node that counts
// as current (invariant 2), and closes the epoch (invariant 3). Owned by the engine; loop thread
// only.
#pragma once

#include <functional>
#include <vector>

#include "volume/core.h"
#include "volume/disk_health.h"
#include "volume/simplex_gate.h"

namespace twinblock {

class FlushGroup final : public PeerRequest {
 public:
  // `error` is 0 or an errno value.
  using Done = std::function<void(int error)>;

  FlushGroup(Core& core, SimplexGate& gate, DiskHealth& disks);

  void flush(Done done);
  // Nobody is promised anything by it, so that where the peer is lost meanwhile it begins no generation. `done` may be null.
  void flush_beside(Done done);
  // The session is gone; what it had not confirmed is the dirty map's by now.
  void peer_lost();
  // The peer's record that it holds the only good replica is durable.
  void sole_copy_recorded();
  // As of writes: a flush that was held for the peer or the witness goes on, or fails; it also goes on
  // when a demotion would wait behind it.
  void release_held();
  void fail_held();
  [[nodiscard]] bool any_held() const { return held_; }
  [[nodiscard]] bool busy() const { return running_; }

  void answered(const PeerAnswer& answer) override;

 private:
  struct Waiter {
    Done done;
    bool promised;
  };

  void add(Waiter waiter);
  void begin();
  void local_done();
  void ended_here();
  void settle();
  void begin_again();
  void finish(int error);
  [[nodiscard]] bool promised() const;

  Core& core_;
  SimplexGate& gate_;
  DiskHealth& disks_;
  bool running_ = false;
  bool local_pending_ = false;
  bool peer_pending_ = false;
  bool abandoned_ = false;      // the local disk still has it, and nobody waits for that
  bool on_local_ = false;
  bool covers_data_ = false;  // something other than zeroes was written before
  bool on_peer_ = false;
  bool held_ = false;           // frozen: waits for the peer; done here, if there is a disk
  bool for_sole_copy_ = false;  // done at the peer, which has not recorded yet what it is
  int local_error_ = 0;
  DiskRequest request_;
  std::vector<Waiter> waiting_;  // for the next one
  std::vector<Waiter> running_for_;
};

}  // namespace twinblock
