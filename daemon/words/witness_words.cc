#include "words/witness_words.h"

#include "metadata/superblock.h"
#include "words/peer_words.h"

namespace twinblock {

std::string advise_on_replicas(const WitnessSaid& said, const std::string& node, const std::string& peer,
                               const PeerAtHand& at_hand) {
  if (at_hand.connected && !at_hand.joins) return "";
  if (said.names_another && said.holder == node)
    return "put the replica of this node's back, with its metadata, that the witness speaks of";
  const std::string then = !said.names_another   ? "the witness is told when both nodes hold the same"
                           : said.holder.empty() ? "this node is then brought up to date"
                                                 : "where " + said.holder +
                                                       " went on, this node is then brought up to date";
  if (!at_hand.connected) return bring_back(peer, at_hand.answers) + "; " + then;
  return (said.names_another ? "put the replica back, with its metadata, that the witness speaks of; "
                             : "put the replica back, with its metadata, that " + peer + " had before; ") +
         then;
}

std::string overtaken_words(const std::string& holder, uint64_t generation, const std::string& node) {
  const bool own = holder == node;
  return "the witness says that " +
         (holder.empty() ? "both nodes went on"
                         : (own ? "another replica of this node's" : holder) + " may have gone on alone") +
         ", in generation " + metadata::format_generation(generation) + ", which this " + (own ? "one" : "node") +
         " does not know";
}

std::string only_where_words(const std::string& holder, const std::string& node, const std::string& peer) {
  if (holder == node)
    return peer + " is dead for sure, and the replica of this node's that the witness speaks of is lost for good, or "
                  "wrote nothing alone";
  return peer + "'s replica is lost for good" +
         (holder.empty() ? "" : ", or " + peer + " is down and wrote nothing alone");
}

}  // namespace twinblock
