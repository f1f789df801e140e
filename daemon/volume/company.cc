#include "volume/company.h"

namespace twinblock {

void Company::take_peer_along() {
  core_.state().take_along(facts_.boot(), peer_.instance, peer_.boot);
  recorded_.reset();
}

// A primary without a peer takes nobody along, and what is noted stays: until it begins a generation,
// whoever was with it last still holds all that was acknowledged. So does this host for as long as it
// is not started anew, if it does now. (An empty disk under a record that promises data does not.)
void Company::promoted() {
  core_.state().role().promoted_on(facts_.boot());
  if (core_.phase().both_whole())
    take_peer_along();
  else if (facts_.holds_what_was_acknowledged() && !core_.state().backing_lost())
    core_.state().note_boot(facts_.boot());
}

}  // namespace twinblock
