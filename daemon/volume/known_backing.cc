#include "volume/known_backing.h"

namespace twinblock {
namespace {

bool differ(uint64_t number, uint64_t recorded) { return number != 0 && recorded != 0 && number != recorded; }

}  // namespace

void KnownBacking::load() {
  // No data were found under a record that promises some: not mounted, or a new disk. What is there is not
  // believed; where there is a peer, it is copied from it.
  lost_ = found_ != DataFound::kSome && record_.held_data;
  other_ = differ(numbers_.backing, record_.backing_number);
  // (A record of an older version names none.)
  if (!other_ && !lost_) name();
}

void KnownBacking::vouch(bool both_whole) {
  vouched_ = peer_is_believed_ = true;
  lost_ = lost_ && !both_whole;
  // What an empty disk lacks is everywhere where the peer has data, and no map says where.
  if (lost_) doubt_all();
  take();
}

bool KnownBacking::moved_together() const {
  return other_ && differ(numbers_.metadata, record_.metadata_number);
}

void KnownBacking::take() {
  if (other_) doubt_all();
  other_ = false;
  name();
}

void KnownBacking::begins_volume() {
  name();
  lost_ = other_ = false;
}

void KnownBacking::joins() {
  name();
  // What it is filled with is worth what it is worth at the source.
  lost_ = record_.held_data = !peer_is_believed_;
}

void KnownBacking::is_to_be_filled() {
  // What the source has yet to send is on its record. What it has sent to an empty disk is on no other one: should the
  // right one be back in the middle of that, all of it is compared.
  if (lost_) doubt_all();
  take();
  is_as_the_peer_s();
}

void KnownBacking::is_found_equal() {
  is_as_the_peer_s();
  if (!lost_) take();
}

void KnownBacking::name() {
  record_.backing_number = numbers_.backing;
  record_.metadata_number = numbers_.metadata;
}

void KnownBacking::doubt_all() {
  record_.dirty = record_.all_dirty = true;
  record_.forget_snapshot();
}

}  // namespace twinblock
