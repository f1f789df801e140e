// Checks beside those of TB_CHECK, for who runs both nodes of a pair, as the simulator does: they walk through all that
// they are about, or rest on what the peer says of itself, on which no process of a user's may end.
#pragma once

#include "base/checks.h"

namespace twinblock {

// Set before the first engine is made, and never again.
inline bool strict_checks = false;

}  // namespace twinblock

#define TB_CHECK_STRICTLY(condition, why) TB_CHECK(!::twinblock::strict_checks || (condition), why)
