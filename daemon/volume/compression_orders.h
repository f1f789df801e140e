// How data travels, as the operator orders it: compressed, raw, or as pays. An order is told to the
// peer, so that it survives a change of roles, and told again when a session begins, so that it
// survives a restart of either node; when both have restarted, the configuration counts again. Of
// two orders that were given while the nodes could not talk, the one counts that more orders
// preceded, or else that of the node with the lower name; but what a process ordered that was new then,
// and could not know how many there had been, holds against what the peer knew before.
//
// Owned by EngineSession; loop thread only. What workers use is the policy, in Core.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "volume/core.h"
#include "volume/order_number.h"

namespace twinblock {

class CompressionOrders {
 public:
  explicit CompressionOrders(Core& core) : core_(core) {}

  // A sentence for the operator, or an error with an action.
  using Reply = std::function<void(Result<std::string>)>;

  // The operator's, here. Without a level: as it was.
  void order(Compression mode, std::optional<int> level, const Reply& reply);
  // The peer's.
  void heard(const wire::CompressionFrame& order);
  void session_up();
  // What the peer knew of when the session began has been heard.
  void peer_told_all();

 private:
  void apply(CompressionPolicy::Setting setting, const std::string& by);
  void tell();

  Core& core_;
  uint64_t number_ = 0;      // of the order that counts; 0: the configuration does
  bool given_here_ = false;  // … on this node
  PeerNumbers peer_numbers_;
  uint64_t held_against_ = 0;  // the highest that was told before, of an order that counts no more; 0: none
};

}  // namespace twinblock
