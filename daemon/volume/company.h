// Whom this node takes along in what it writes: the boot of its own host, the peer's process and that one's host.
// It is on record before anything is written with them, and tells after a crash of both who has lived on. And the
// session itself. Owned by PeerSync; loop thread only.
#pragma once

#include <cstdint>

#include "volume/core.h"
#include "volume/own_facts.h"

namespace twinblock {

class Company {
 public:
  Company(Core& core, const OwnFacts& facts) : core_(core), facts_(facts) {}

  // With what the peer told in its hello. The session goes into the record, which is to be durable before anything is
  // written in it.
  void session_up(const SyncFacts& peer);
  void session_lost();
  // This node holds what the peer does, and nothing else, or is about to: it was, so to speak, in the sessions of that
  // one's past. The caller records it.
  void peer_s_past_is_ours();
  // The peer has it on record: it wrote, or answered what it had to record before.
  void session_stands();

  // The peer is taken along from now on; to be durable before this node writes. One that is still to be brought up
  // to date is not: if this node died, that one would pass for the survivor.
  void take_peer_along();
  // … and that is durable.
  void recorded() { recorded_ = true; }
  // This session is on record, and that this node takes this very peer along; nothing else since.
  [[nodiscard]] bool peer_is_recorded() const { return recorded_; }

  // This node is about to be recorded as primary.
  void promoted();

 private:
  // 0: there is none.
  struct Process {
    uint64_t instance = 0, boot = 0;
  };

  Core& core_;
  const OwnFacts& facts_;
  metadata::Sessions peer_sessions_;  // as it has them since this one began
  uint64_t session_ = 0;              // on record (metadata::Sessions); 0: none
  Process peer_;                      // of this session
  bool recorded_ = false;             // durably
};

}  // namespace twinblock
