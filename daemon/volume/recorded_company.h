// With whom this replica was together, as this node's record has it: in which sessions, and on which boots of both hosts.
// A part of NodeState, which makes it durable; Company decides. Loop thread only.
#pragma once

#include <cstdint>

#include "metadata/superblock.h"

namespace twinblock {

class RecordedCompany {
 public:
  // `record` outlives it.
  explicit RecordedCompany(metadata::NodeRecord& record) : record_(record) {}

  // A session begins; it stands, so that the peer has begun it, too.
  void begin_session(uint64_t id, const metadata::Sessions& peer) { record_.sessions.begin(id, peer); }
  void share_sessions(const metadata::Sessions& peer, uint64_t id) {
    record_.sessions.stood = peer.stood;
    session_stands(id);
  }
  void session_stands(uint64_t id) { record_.sessions.stands(id); }
  // Whom this node takes along in what it writes from now on: its own host's boot, the peer's process
  // and the peer's host's boot.
  void take_along(uint64_t boot, uint64_t peer_instance, uint64_t peer_boot) {
    note_boot(boot);
    record_.peer_instance = peer_instance;
    record_.peer_boot = peer_boot;
  }
  // This host has held since this boot all that was acknowledged.
  void note_boot(uint64_t boot) { record_.boot = boot; }
  // The page cache was dropped: what it held of the peer's writes is gone as by a new boot.
  void forget_boot() { record_.followed_boot = 0; }

 private:
  metadata::NodeRecord& record_;
};

}  // namespace twinblock
