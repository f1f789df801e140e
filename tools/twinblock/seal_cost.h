// What the links' cipher costs on this host, measured now: some 5 ms of one core.
#pragma once

#include "twinblock/plan_changes.h"

namespace twinblock {

// Zeroes where the host's GnuTLS does not have it.
SealCost measure_seal_cost();

}  // namespace twinblock
