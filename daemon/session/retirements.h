// Connections of the session that are dead and closed on this side (invariant 5).
//
// A connection that is dead for one side is closed there, and `retire` says so over another link.
// The peer closes it, too. Each side answers `retired` when all work that came to it over that
// connection has ended: nothing of it can land any more, so that what it had not acknowledged is
// sent again. An acknowledgement travels over the connection of its request only, so it can't come
// once that is closed, and no request is answered twice.
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

  // A connection has been closed here: the peer is told, and told again when its work has ended.
  void retire(uint64_t incarnation);
  // Work that came over it has ended.
  void work_ended(uint64_t incarnation);
  // The peer says that nothing which came to it over the connection can land any more.
  void confirmed_by_peer(uint64_t incarnation);
  void clear() { retirements_.clear(); }

  [[nodiscard]] bool knows(uint64_t incarnation) const;
  // More come from a peer that has gone mad only.
  [[nodiscard]] bool full() const;

 private:
  struct Retirement {
    uint64_t incarnation = 0;
    bool by_us = false;    // the peer was told that nothing of it can land here any more
    bool by_peer = false;  // … and it has told us the same
  };
  void confirm(Retirement& retirement);
  void drop_done();

  SessionOwner& owner_;
  PeerTraffic& traffic_;
  std::vector<Retirement> retirements_;
};

}  // namespace twinblock
