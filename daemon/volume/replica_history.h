// Which history of writes this replica's data is in: the generations on its record, what the witness is
// asked about the next one, and the state within it. A part of NodeState, which makes it durable; loop
// thread only.
#pragma once

#include <cstdint>
#include <functional>

#include "io/clock.h"
#include "metadata/superblock.h"

namespace twinblock {

class ReplicaHistory {
 public:
  using Random = std::function<uint64_t()>;  // never 0

  // `record` and `random` outlive it.
  ReplicaHistory(metadata::NodeRecord& record, const Clock& clock, const Random& random)
      : record_(record), clock_(clock), random_(random) {}

  // This replica holds, or is about to, what no order could have named yet. To be made durable before
  // anybody is promised any of it.
  void move_on() { record_.state_id = random_(); }
  // A new history of writes begins, as soon as the record is durable: the one that was claimed, if any
  // was. `by_witness`: as the witness agreed to that, and names it; not where the operator's word stood in for it, nor
  // where it is not asked any more.
  void begin_generation(bool by_witness);
  // … for the replica in this state, and what was the base is none any more. `claimed`: the one that the witness
  // agreed to, or the operator in its place, as this node shared the one before. `alone`: the node may go on without
  // that replica, which is marked with this generation as half-copied, and has it when all is there; else that one
  // may have it by this record at once.
  void begin_generation_for(uint64_t replica, bool claimed, bool by_witness, bool alone);
  // The witness is to be asked for the right to begin a generation alone; the record has to be durable
  // before. Stays the same until the claim is spent (begin_generation()) or void (settled_at_witness()).
  void claim_generation();
  // The witness' entry names the current generation: its holder is this node, …
  void named_at_witness() { record_.named = record_.generations.current; }
  // … or nobody, as both nodes are in it: a claim is void.
  void settled_at_witness();
  // The peer may record the current generation as its own from now on.
  void share_generation() { record_.shared = true; }

  // As the target, in the history that it was told: what it was in before is past, …
  void leave();
  // … and that one is this replica's.
  void enter(const metadata::Generations& told);
  // What it was in before that counts again, and a new one begins on it, in which what it was told does not occur.
  void return_to(const metadata::Generations& before);
  // Both hold the same: nothing that was to be remembered of the difference counts.
  void settle();

 private:
  [[nodiscard]] uint64_t fresh_generation() const;

  metadata::NodeRecord& record_;
  const Clock& clock_;
  const Random& random_;
};

}  // namespace twinblock
