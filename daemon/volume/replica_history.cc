#include "volume/replica_history.h"

#include <utility>

namespace twinblock {

uint64_t ReplicaHistory::fresh_generation() const {
  uint64_t fresh = random_();
  while (record_.generations.knows(fresh)) fresh = random_();
  return fresh;
}

void ReplicaHistory::begin_generation(bool by_witness) {
  const uint64_t claimed = std::exchange(record_.claim, 0);
  record_.generations.advance(claimed != 0 ? claimed : fresh_generation());
  if (claimed != 0 && by_witness) record_.named = claimed;
  record_.generation_since_s = clock_.wall_ns() / kSecond_ns;
  record_.shared = false;
}

// Who alone has the generation before, by the witness' entry, alone has this one.
void ReplicaHistory::begin_generation_for(uint64_t replica, bool claimed, bool by_witness, bool alone) {
  const bool named = record_.named == record_.generations.current && !record_.shares_generation();
  const uint64_t claim = claimed ? 0 : std::exchange(record_.claim, 0);
  begin_generation(by_witness);
  if (!claimed) record_.claim = claim;
  if (named) record_.named = record_.generations.current;
  if (alone)
    record_.generations.share_with_nobody();
  else
    record_.generations.settle();
  record_.begun_for = replica;
}

void ReplicaHistory::claim_generation() {
  if (record_.claim == 0) record_.claim = fresh_generation();
}

void ReplicaHistory::settled_at_witness() {
  named_at_witness();
  record_.claim = 0;
}

void ReplicaHistory::leave() {
  record_.claim = 0;
  move_on();
  record_.begun_for = 0;  // that was in another history
}

void ReplicaHistory::enter(const metadata::Generations& told) {
  record_.claim = 0;
  record_.generations = told;
  record_.generation_since_s = clock_.wall_ns() / kSecond_ns;
}

void ReplicaHistory::return_to(const metadata::Generations& before) {
  const uint64_t told = record_.generations.current;
  record_.generations = before;
  uint64_t fresh = fresh_generation();
  while (fresh == told) fresh = fresh_generation();
  record_.generations.go_on_without(told, fresh);
  record_.generation_since_s = clock_.wall_ns() / kSecond_ns;
  record_.shared = false;
  leave();
}

void ReplicaHistory::settle() {
  record_.generations.settle();
  record_.shared = false;
}

}  // namespace twinblock
