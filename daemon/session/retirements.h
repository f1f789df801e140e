// Connections of the session that are dead and closed on this side (invariant 5).
//
// A connection that is dead for one side is closed there, and `retired` says so over another link.
// The peer closes it, too, and says the same: nothing more that the connection carries can be read, so that what was
// not answered is sent again. What is still worked on then is known by its number, and not begun anew. An
// acknowledgement travels over the connection that brought its request last only, so it can't come once that is closed,
// and no request is answered twice.
//
// Owned by the session; loop thread only.
#pragma once

#include <cstdint>
#include <vector>

#include "session/peer_traffic.h"

namespace twinblock {

class Retirements {
 public:
  Retirements(SessionOwner& owner, PeerTraffic& traffic) : owner_(owner), traffic_(traffic) {}

  // A connection has been closed here: the peer is told.
  void retire(uint64_t incarnation);
  // The peer says that it has closed it, too.
  void confirmed_by_peer(uint64_t incarnation);
  void clear() { unconfirmed_.clear(); }

  [[nodiscard]] bool knows(uint64_t incarnation) const;
  // More come from a peer that has gone mad only.
  [[nodiscard]] bool full() const;

 private:
  SessionOwner& owner_;
  PeerTraffic& traffic_;
  std::vector<uint64_t> unconfirmed_;  // by the peer
};

}  // namespace twinblock
