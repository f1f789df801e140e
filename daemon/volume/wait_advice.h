// Which advice is true for an order that needs both replicas whole, where they are not. Pure but for what it reads; loop
// thread.
#pragma once

#include <string>

#include "volume/core.h"
#include "words/wait_words.h"

namespace twinblock {

// To wait, unless the two refuse each other. `primary`: this node is.
inline std::string advise_wait_for_both(const Core& core, bool primary) {
  const Handshake& handshake = core.session.handshake();
  if (!core.session.up() && !handshake.refusal().empty())
    return refusal_lasts_words(handshake.refusal(), handshake.last_verdict(), core.config.volume, core.peer);
  return wait_for_both_words(core.config.volume, primary);
}

}  // namespace twinblock
