#include "control/witness_words.h"

#include <nlohmann/json.hpp>

#include "metadata/superblock.h"

namespace twinblock {

StatusWords waiting_words(const StatusView& view) {
  const WitnessView& witness = view.witness;
  const std::string& peer = view.peer.name;
  const std::string until = " They go on when the witness agrees or " + peer + " is back";
  StatusWords words;
  words.status = witness.waits ? "Reads and writes wait: without " + peer +
                                     ", this node goes on by the consent of its witness (" + witness.name + ") only. "
                               : peer + "'s replica is another one than before: before everything is sent to it, the "
                                        "witness (" + witness.name + ") has to consent. ";
  switch (witness.standing) {
    case WitnessStanding::kRefused:
      if (witness.kind == WitnessKind::kEtcd) {
        words.status += (witness.holder.empty() ? "It names another generation" :
                         "It names " + witness.holder + " as the one that went on") +
                        ": what is here is older. When the two meet, this node becomes secondary, is brought up "
                        "to date, and its clients are cut off.";
        break;
      }
      [[fallthrough]];
    case WitnessStanding::kLost:
    case WitnessStanding::kUnreachable:
      words.status += witness.error + "." + until + ".";
      break;
    default:
      words.status += "It is being asked." + until + ".";
      break;
  }
  words.action = witness.action.empty() ? "Start twinblockd on " + peer + " or mend the link."
                                        : witness.action + ".";
  const bool names_another = witness.standing == WitnessStanding::kRefused && witness.kind == WitnessKind::kEtcd;
  words.action += " Only where " + peer +
                  (names_another ? "'s replica is lost for good" : " is dead for sure, and was not promoted") +
                  ": twinblock continue " + view.volume + " --without-witness.";
  if (words.action.front() >= 'a' && words.action.front() <= 'z')
    words.action.front() = static_cast<char>(words.action.front() - 'a' + 'A');
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
