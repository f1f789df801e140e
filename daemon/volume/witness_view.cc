#include "volume/witness_view.h"

#include "metadata/superblock.h"
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
  return view.standing == WitnessStanding::kLost || names_another(view);
}

bool names_another(const WitnessView& view) {
  return view.standing == WitnessStanding::kRefused && view.kind == WitnessKind::kEtcd;
}

std::string advise_on_replicas(const WitnessView& view, const std::string& node, const std::string& peer,
                               const PeerAtHand& at_hand) {
  const bool refused = view.standing == WitnessStanding::kRefused;
  if (at_hand.connected && !at_hand.joins) return "";
  if (refused && view.holder == node)
    return "put the replica of this node's back, with its metadata, that the witness speaks of";
  const std::string then = !refused              ? "the witness is told when both nodes hold the same"
                           : view.holder.empty() ? "this node is then brought up to date"
                                                 : "where " + view.holder +
                                                       " went on, this node is then brought up to date";
  if (!at_hand.connected) return bring_back(peer, at_hand.answers) + "; " + then;
  return (refused ? "put the replica back, with its metadata, that the witness speaks of; "
                  : "put the replica back, with its metadata, that " + peer + " had before; ") +
         then;
}

std::string overtaken_words(const WitnessView& view, const std::string& node) {
  const bool own = view.holder == node;
  return "the witness says that " +
         (view.holder.empty() ? "both nodes went on"
                              : (own ? "another replica of this node's" : view.holder) + " may have gone on alone") +
         ", in generation " + metadata::format_generation(view.generation) + ", which this " + (own ? "one" : "node") +
         " does not know";
}

std::string lost_words(const std::string& holder, const std::string& node, const std::string& peer) {
  if (holder == node)
    return peer + " is dead for sure, and the replica of this node's that the witness speaks of is lost for good, or "
                  "wrote nothing alone";
  return peer + "'s replica is lost for good" +
         (holder.empty() ? "" : ", or " + peer + " is down and wrote nothing alone");
}

}  // namespace twinblock
