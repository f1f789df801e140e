// Whom this node takes along in what it writes: the boot of its own host, the peer's process and that one's host.
// It is on record before anything is written with them, and tells after a crash of both who has lived on. And the
// session itself. Owned by PeerSync; loop thread only.
#pragma once

#include <cstdint>
#include <optional>

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
  // This node holds what the peer does, and nothing else: it was, so to speak, in the sessions of that one's past.
  void peer_s_past_is_ours();
  // The peer has it on record: it wrote, or answered what it had to record before.
  void session_stands();

  // The peer is taken along from now on; to be durable before this node writes. One that is still to be brought up
  // to date is not: if this node died, that one would pass for the survivor.
  void take_peer_along();
  // … and that is durable.
  void recorded() { recorded_ = peer_; }
  // This process has put on record that it takes this very peer along, and nothing else since.
  [[nodiscard]] bool peer_is_recorded() const { return recorded_ == peer_; }

  // This node is about to be recorded as primary.
  void promoted();

 private:
  // 0: there is none.
  struct Process {
    uint64_t instance = 0, boot = 0;
    bool operator==(const Process&) const = default;
  };

  Core& core_;
  const OwnFacts& facts_;
  metadata::Sessions peer_sessions_;  // before this one
  uint64_t session_ = 0;              // on record (metadata::Sessions); 0: none
  Process peer_;                     // of this session
  std::optional<Process> recorded_;  // by this process, durably
};

}  // namespace twinblock
