#include "control/stalled_disk_words.h"

#include "words/stall_words.h"

namespace twinblock {

void add_stalled_disk(const StatusView& view, StatusWords& words) {
  const std::string& peer = view.peer.name;
  const std::string promote = "`twinblock promote " + view.volume;
  if (view.stalled_ns > 0) {
    words.status = "This node waits for " + view.stalled_file + ": " + stalled_words(view.stalled_ns) +
                  (is_primary(view.role) ? ", and clients wait, too. " : ". ") + words.status;
    words.action = "Look at that disk (dmesg); when it gets on, all does by itself.";
    if (!is_primary(view.role)) return;
    const bool whole = view.state == VolumeState::kDuplex || view.state == VolumeState::kDegraded;
    const bool asks = view.witness.standing != WitnessStanding::kNone && view.witness.standing != WitnessStanding::kOff;
    // Who has gone on alone, or copies to the peer, has what that lacks; who waits for the witness has promised nothing.
    if (asks && (whole || view.state == VolumeState::kFrozen))
      words.action += " Before that, " + peer + " may be promoted with the witness' consent: " + promote +
                     "` there, where no promoter does it.";
    else if (!asks && whole)
      words.action += " To go on at " + peer + " before that, " + end_stalled_primary(view.node) + ", and run " +
                     promote + " --peer-is-dead` on " + peer + ".";
    return;
  }
  if (view.peer.stalled_ns == 0) return;
  if (!view.peer.connected) {
    words.status += " When " + peer + " was last heard, its own disk stood still.";
    return;
  }
  words.status = peer + "'s clients wait, as " + stalled_words(view.peer.stalled_ns) + ". " + words.status;
  words.action = "Look at " + peer + "'s disk; when it gets on, all does by itself.";
  if (!view.mine.inconsistent && !view.resync.target)
    words.action += " To go on here before that, " + end_stalled_primary(peer) + ", and run " + promote + " --peer-is-dead` here.";
}

}  // namespace twinblock
