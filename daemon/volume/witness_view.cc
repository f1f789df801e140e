#include "volume/witness_view.h"

namespace twinblock {

const char* standing_name(WitnessStanding standing) {
  switch (standing) {
    case WitnessStanding::kNone: return "none";
    case WitnessStanding::kUnasked: return "unknown";
    case WitnessStanding::kAsking: return "asking";
    case WitnessStanding::kAgreed: return "agreed";
    case WitnessStanding::kRefused: return "refused";
    case WitnessStanding::kLost: return "lost";
    case WitnessStanding::kUnreachable: return "unreachable";
    case WitnessStanding::kOff: return "off";
  }
  return "none";
}

}  // namespace twinblock
