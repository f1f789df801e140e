#include "session/link_view.h"

namespace twinblock {

const char* link_state_name(LinkState state) {
  switch (state) {
    case LinkState::kDown: return "down";
    case LinkState::kConnecting: return "connecting";
    case LinkState::kUp: return "up";
    case LinkState::kDamped: return "damped";
    case LinkState::kRefused: return "refused";
    case LinkState::kDisabled: return "disabled";
  }
  return "down";
}

}  // namespace twinblock
