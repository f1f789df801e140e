#include "volume/recorded_role.h"

#include <algorithm>

namespace twinblock {
namespace {

// Volumes of older versions began with 1.
constexpr uint64_t kFirstTerms = uint64_t{1} << 40;
constexpr size_t kUuidBytes = 5;

// Another one for each volume, and the same on both nodes: who holds on to a promotion of the one that was here before (a
// guest with its cache, an attached device) is told by its number.
uint64_t first_term(const metadata::Uuid& volume) {
  uint64_t number = 0;
  for (size_t i = 0; i < kUuidBytes; ++i) number = number << 8 | volume[i];
  return kFirstTerms + number;
}

}  // namespace

void RecordedRole::become_primary(bool alone) {
  // What a dead primary had under way may be on one of the two disks only; it tells which blocks
  // those are when it returns. That holds of this one's last process, too, which may have taken over itself.
  if (alone && (record_.peer_primary || record_.primary)) took_over_ = true;
  record_.term = next_term();
  record_.snapshot = false;
  history_.move_on();  // orders did not name what is written from now on
  record_.primary = true;
  record_.peer_primary = false;
}

void RecordedRole::resume_primary(bool alone) {
  if (alone) took_over_ = true;
  record_.snapshot = false;
  history_.move_on();  // as for a promotion
  record_.primary = true;
}

void RecordedRole::become_secondary(bool more, bool for_good) {
  record_.primary = false;
  if (for_good) record_.promoted_boot = 0;
  record_.dirty = took_over_ || more;
}

void RecordedRole::hear_term(uint64_t term) {
  record_.heard_term = std::max(record_.heard_term, term);
}

uint64_t RecordedRole::next_term() const {
  const uint64_t last = std::max(record_.term, record_.heard_term);
  if (last == 0) return first_term(record_.volume_uuid);
  return std::max(last, last + 1);  // what a peer tells must not begin anew at 0
}

void RecordedRole::give_up_term() {
  hear_term(record_.term);
  record_.term = record_.promoted_boot = 0;
}

}  // namespace twinblock
