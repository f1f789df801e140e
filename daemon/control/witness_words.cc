#include "control/witness_words.h"

#include <nlohmann/json.hpp>

#include "metadata/superblock.h"
#include "words/peer_words.h"
#include "words/witness_words.h"

namespace twinblock {
namespace {

// What waits, and for whom, in sentences.
std::string what_waits(const StatusView& view) {
  const WitnessView& witness = view.witness;
  const std::string& peer = view.peer.name;
  if (!view.peer.connected)
    return "Reads and writes wait: without " + peer + ", this node goes on by the consent of its witness (" +
           witness.name + ") only. ";
  if (witness.copy_waits)
    return peer + "'s replica is another one than before: before everything is sent to it, the witness (" +
           witness.name + ") has to consent" +
           (witness.waits ? "; reads and writes wait for that, too. " : ". ");
  return "Reads and writes wait: until " + peer +
         " takes part again, this node goes on by the consent of its witness (" + witness.name + ") only. ";
}

std::string until_when(const StatusView& view) {
  if (view.witness.copy_waits) return " The copy begins when it agrees.";
  return " They go on when the witness agrees or " + view.peer.name +
         (view.peer.connected ? " takes part again." : " is back.");
}

// What stands there is of another replica of this node's.
bool names_own(const StatusView& view) {
  return names_another(view.witness) && view.witness.holder == view.node;
}

// What a witness that names another generation says, and what comes of it.
std::string overtaken_status(const StatusView& view) {
  const std::string& holder = view.witness.holder;
  if (holder.empty() && view.peer.connected) return "It names another generation: what is here is older.";
  if (holder.empty())
    return "It names another generation: what is here is older. When the two meet, this node becomes secondary, is "
           "brought up to date, and its clients are cut off.";
  // Who was let go on may have written nothing since.
  return "It names " + (names_own(view) ? "another replica of this node's" : holder) +
         " as the one that may have gone on: what is here may be older." +
         (view.peer.connected || names_own(view) ? ""
                                                 : " When the two meet, and it did, this node becomes secondary, is "
                                                   "brought up to date, and its clients are cut off.");
}

// Whose replica is to be lost for good, where nobody but that has what counts.
std::string lost_replica(const StatusView& view, const std::string& of_peer) {
  return names_own(view) ? "the replica of this node's that the witness speaks of" : of_peer;
}

std::string by_word(const StatusView& view) { return "twinblock continue " + view.volume + " --without-witness."; }

}  // namespace

std::string go_on_words(const StatusView& view) {
  const WitnessView& witness = view.witness;
  if (!view.frozen || !witness.waits || view.metadata_failed || is_overtaken(*view.verdict)) return "";
  return (witness.action.empty() || is_about_replicas(witness) ? "" : " " + capitalised(witness.action) + ".") +
         " Only where " + lost_replica(view, view.peer.name + "'s replica") + " is lost for good" +
         (names_another(witness) ? "" : ", or was not promoted") + ": " + by_word(view);
}

StatusWords waiting_words(const StatusView& view) {
  const WitnessView& witness = view.witness;
  const std::string& peer = view.peer.name;
  const bool another = names_another(witness);
  const bool met = view.peer.connected;
  StatusWords words;
  words.status = what_waits(view);
  if (view.metadata_failed && !met) {
    words.status += "It is not asked, as this node could not record the answer.";
    words.action = capitalised(take_over_words(view.volume, peer, view.peer.answers)) + ".";
    return words;
  }
  if (another)
    words.status += overtaken_status(view);
  else if (witness.standing == WitnessStanding::kRefused || witness.standing == WitnessStanding::kLost ||
           witness.standing == WitnessStanding::kUnreachable)
    words.status += witness.error + "." + until_when(view);
  else if (view.stalled_ns > 0)
    words.status += "It is not asked before that disk gets on.";
  else
    words.status += "It is being asked." + until_when(view);
  words.action = !witness.action.empty() ? capitalised(witness.action) + "."
                 : met                   ? "Nothing to do, where " + peer + " takes part soon."
                                         : capitalised(bring_back(peer, view.peer.answers)) + ".";
  // (Who is connected, with the replica that it had, was not promoted: that is known.)
  if (met && witness.copy_waits)
    words.action += " Only where " + lost_replica(view, "the replica that " + peer + " had before") +
                    " is lost for good" +
                    (!another                ? ", or was not promoted: "
                     : witness.holder.empty() ? ": "
                                              : ", or wrote nothing alone: ");
  else if (met)
    words.action += " To go on before that: ";
  else
    words.action += " Only where " +
                    (another ? only_where_words(witness.holder, view.node, peer)
                             : peer + " is dead for sure, and was not promoted") +
                    ": ";
  words.action += by_word(view);
  return words;
}

std::string witness_warning(const StatusView& view) {
  const WitnessView& witness = view.witness;
  if (witness.standing == WitnessStanding::kOff)
    return "The witness (" + witness.name + ") counts for nothing: " + witness.error + ".";
  const bool trouble = witness.standing == WitnessStanding::kUnreachable ||
                       witness.standing == WitnessStanding::kLost ||
                       (witness.standing == WitnessStanding::kRefused && !view.peer.connected);
  if (!trouble || view.mine.blank) return "";
  const std::string then = !view.peer.connected ? ""
                                                : " If " + view.peer.name + " is lost, too, reads and writes wait until "
                                                  "one of the two is back.";
  return "The witness (" + witness.name + ") " +
         (witness.standing == WitnessStanding::kUnreachable ? "can't be asked: " : "does not consent: ") +
         witness.error + "." + then;
}

nlohmann::json render_witness(const WitnessView& view) {
  if (view.standing == WitnessStanding::kNone) return {};
  return {{"kind", witness_kind_name(view.kind)},
          {"name", view.name},
          {"state", standing_name(view.standing)},
          {"holder", view.holder},
          {"generation", view.generation == 0 ? "" : metadata::format_generation(view.generation)},
          {"error", view.error},
          {"action", view.action}};
}

}  // namespace twinblock
