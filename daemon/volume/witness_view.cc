#include "volume/witness_view.h"

#include "words/peer_words.h"

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
  return view.standing == WitnessStanding::kLost ||
         (view.standing == WitnessStanding::kRefused && view.kind == WitnessKind::kEtcd);
}

std::string advise_on_replicas(WitnessStanding standing, const std::string& peer, const PeerAtHand& at_hand) {
  const bool refused = standing == WitnessStanding::kRefused;
  const std::string then =
      refused ? "this node is then brought up to date" : "the witness is told when both nodes hold the same";
  if (!at_hand.connected) return bring_back(peer, at_hand.answers) + "; " + then;
  if (!at_hand.joins) return "";
  return (refused ? "put the replica back, with its metadata, that the witness speaks of; "
                  : "put the replica back, with its metadata, that " + peer + " had before; ") +
         then;
}

}  // namespace twinblock
