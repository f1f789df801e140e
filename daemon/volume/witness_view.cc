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

bool asks_register(const WitnessView& view) {
  return view.kind == WitnessKind::kEtcd && view.standing != WitnessStanding::kOff;
}

bool is_about_replicas(const WitnessView& view) {
  return view.standing == WitnessStanding::kLost || names_another(view);
}

bool names_another(const WitnessView& view) {
  return view.standing == WitnessStanding::kRefused && view.kind == WitnessKind::kEtcd;
}

}  // namespace twinblock
