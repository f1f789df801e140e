// The sentences that an engine's events hold: what it is given when it is made. Pure.
#pragma once

#include "volume/event_words.h"

namespace twinblock {

extern const EventWords kEventWords;

}  // namespace twinblock
