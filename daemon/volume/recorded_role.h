// Who is primary, as this node's record has it, and with which term. A part of NodeState, which makes it
// durable; Roles decides. Loop thread only.
#pragma once

#include <cstdint>

#include "metadata/superblock.h"
#include "volume/replica_history.h"

namespace twinblock {

class RecordedRole {
 public:
  // Both outlive it.
  RecordedRole(metadata::NodeRecord& record, ReplicaHistory& history)
      : record_(record), history_(history) {}

  // A promotion begins a term above all that were heard, or the volume's first; `alone`: without a session.
  void become_primary(bool alone);
  // … goes on as what its last process was, under the same term.
  void resume_primary(bool alone);
  // `more`: this node holds what the peer may miss. `for_good`: no later process goes on as primary.
  void become_secondary(bool more, bool for_good);
  // … which could not be recorded: it is primary still, and its disk may say that it is not. Whatever
  // it wrote alone would be in nobody's set after a crash.
  void demotion_not_recorded() {
    record_.primary = true;
    may_pass_for_secondary_ = true;
  }
  [[nodiscard]] bool may_pass_for_secondary() const { return may_pass_for_secondary_; }
  // … on this boot of the host; 0: it is past.
  void promoted_on(uint64_t boot) { record_.promoted_boot = boot; }
  // What was recorded of a role was taken back, or is past.
  void set_primary(bool primary) { record_.primary = primary; }
  void set_peer_primary(bool primary) { record_.peer_primary = primary; }
  // So that a promotion here has a higher term than any that this node has heard of. Not taken over
  // as its own: after a crash of both, the node that was promoted is the later one.
  void hear_term(uint64_t term);
  [[nodiscard]] uint64_t next_term() const;
  // Its promotion is given up: it was not the later one, also where its own was before.
  void give_up_term();

  // Became primary without its peer after one of the two had been, so that clients may have read what only
  // this node holds; it says that it is dirty until the two are the same again.
  [[nodiscard]] bool took_over() const { return took_over_; }
  void shares_what_it_took_over() { took_over_ = false; }

 private:
  metadata::NodeRecord& record_;
  ReplicaHistory& history_;
  bool may_pass_for_secondary_ = false;
  bool took_over_ = false;
};

}  // namespace twinblock
