// Whom this node takes along in what it writes: the boot of its own host, the peer's process and that one's host.
// It is on record before anything is written with them, and tells after a crash of both who has lived on. Owned by
// PeerSync; loop thread only.
#pragma once

#include <cstdint>
#include <optional>

#include "volume/core.h"
#include "volume/own_facts.h"

namespace twinblock {

class Company {
 public:
  Company(Core& core, const OwnFacts& facts) : core_(core), facts_(facts) {}

  // The peer's process, and the boot of its host.
  void session_up(uint64_t instance, uint64_t boot) { peer_ = {instance, boot}; }
  void session_lost() { peer_ = {}; }

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
  Process peer_;                     // of this session
  std::optional<Process> recorded_;  // by this process, durably
};

}  // namespace twinblock
