// The sentences that events of a state and of a resync hold: the engine is given these, which follow
// from codes and figures alone. control/event_words.h has them.
#pragma once

#include <string>

#include "volume/resync_cause.h"

namespace twinblock {

struct StatusView;

struct EventWords {
  std::string (*state)(const StatusView& view);
  std::string (*resync)(const ResyncCause& cause, const std::string& node,
                        const std::string& peer);
};

}  // namespace twinblock
