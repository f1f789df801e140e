// Orders that give data up after a split brain: `resolve`. An order names the state of the replica
// that it gives up, as its giver saw it (NodeRecord::state_id). When that replica has moved on since,
// the order is void, and both nodes say so (design, invariant 13). Owned by the engine; loop thread
// only.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "volume/core.h"
#include "volume/disk_health.h"
#include "volume/simplex_gate.h"

namespace twinblock {

class SplitBrainOrders {
 public:
  // A sentence for the operator, or an error with an action.
  using Reply = std::function<void(Result<std::string>)>;

  // `facts`: what this node would say of itself in a handshake.
  SplitBrainOrders(Core& core, SimplexGate& gate, const DiskHealth& disks,
                   std::function<SyncFacts()> facts)
      : core_(core), gate_(gate), disks_(disks), facts_(std::move(facts)) {}

  // Whose writes are kept, this node's or the peer's. `dry_run` says what would be lost and changes
  // nothing. `seen_state`: of the replica that loses, as who gives the order was told; 0: as anybody was told last.
  void resolve(bool keep_local, bool dry_run, uint64_t seen_state, Reply reply);
  // What was shown was of a split brain that is over.
  void session_up() { shown_state_ = {}; }

 private:
  struct Order;

  [[nodiscard]] std::optional<Error> why_not(const Order& order) const;
  [[nodiscard]] std::string beside_others(const Order& order) const;
  void show(const Order& order, const Reply& reply);
  void take(const Order& order, Reply reply);

  Core& core_;
  SimplexGate& gate_;
  const DiskHealth& disks_;
  const std::function<SyncFacts()> facts_;
  // What the operator was last shown to be lost: here, at the peer; 0: nothing.
  std::array<uint64_t, 2> shown_state_{};
};

}  // namespace twinblock
