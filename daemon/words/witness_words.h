// What the witness said of the replicas, and what that calls for: an order's answer and the log say it, as `status` does.
// Pure; any thread.
#pragma once

#include <cstdint>
#include <string>

namespace twinblock {

// What stands at the witness of this volume, where that is not what this node has.
struct WitnessSaid {
  bool names_another;  // generation; else it knows nothing of the volume
  std::string holder;  // … and the node that goes on alone in that one; empty: nobody, or not known
};

// How the peer is when users are told what to do about that: not when the witness was asked.
struct PeerAtHand {
  bool connected;
  bool joins;    // … with another replica than before, to which nothing is sent yet
  bool answers;  // the address of a link does
};
// What to do about it: a part of a sentence; empty: nothing.
std::string advise_on_replicas(const WitnessSaid& said, const std::string& node, const std::string& peer,
                               const PeerAtHand& at_hand);
// Where it names another generation, perhaps of another replica of this very node's: what that means, a sentence; …
std::string overtaken_words(const std::string& holder, uint64_t generation, const std::string& node);
// … and where an operator may go on without the peer all the same: what follows "only where".
std::string only_where_words(const std::string& holder, const std::string& node, const std::string& peer);

}  // namespace twinblock
