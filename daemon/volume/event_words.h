// The sentences that events hold. The engine has none of its own: it is given these, which follow
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
