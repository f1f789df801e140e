// What an order that needs both replicas whole advises where they are not. Pure but for what it reads; loop thread.
#pragma once

#include <string>

#include "volume/core.h"

namespace twinblock {

// To wait, unless the two refuse each other: that (a split brain, say) passes by no waiting where they have found out what
// they are to each other, and perhaps by itself where they have not. `primary`: this node is; where none is there is no
// duplex, and a session alone ("connected") is not what the order lacks.
std::string advise_wait_for_both(const Core& core, bool primary);

}  // namespace twinblock
