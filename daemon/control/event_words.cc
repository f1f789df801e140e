#include "control/event_words.h"

#include "control/resync_words.h"
#include "control/status_words.h"

namespace twinblock {

const EventWords kEventWords{[](const StatusView& view) { return state_words(view).status; },
                             resync_words};

}  // namespace twinblock
