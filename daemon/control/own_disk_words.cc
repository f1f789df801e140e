#include "control/own_disk_words.h"

#include "words/backing_words.h"
#include "words/peer_words.h"
#include "words/verdict_words.h"

namespace twinblock {
namespace {

constexpr const char* kMendMetadata =
    "Look at the disk that holds this node's metadata (dmesg), and restart twinblockd here when it is well.";

// Of a secondary whose disk may have lost what a failed flush was to write. In a session, and where the two refuse each
// other, what is to be done is about that.
std::string after_failed_flush(const StatusView& view, const std::string& action) {
  const std::string& peer = view.peer.name;
  if ((view.peer.connected || view.state == VolumeState::kRefused) && !action.empty()) return action;
  if (view.peer.connected) return "Nothing to do: " + peer + " copies anew what this disk may have lost.";
  return capitalised(bring_back(peer, view.peer.answers)) + "; " + peer +
         " then copies anew what this disk may have lost. Without it, restart this host.";
}

// The peer leaves a secondary whose disk is full, and tries again from time to time.
bool is_copied_here(const StatusView& view) {
  if (view.peer.connected) return view.resync.target;
  return view.peer.answers && view.verdict && is_usable(*view.verdict) && !view.mine.dirty;
}

// A disk in use that refused something: what else is to be done is no less so for that.
std::string beside(const StatusView& view, const std::string& action) {
  return action + (action.empty() ? "" : " ") +
         (view.disk_lacks_room ? "Free space for " + view.backing + "."
                               : "Look at the disk that holds " + view.backing + " (dmesg, smartctl).") +
         (view.peer.connected ? "" : " Keep this disk: it may hold what " + view.peer.name + " lacks.");
}

std::string advice_to_secondary(const StatusView& view, const std::string& action) {
  // What the two know of each other says whose data counts.
  if (view.verdict == Verdict::kDiskFailed && view.peer.facts && !view.peer.connected)
    return advise(*view.verdict, view.mine, *view.peer.facts, view.volume, view.peer.name) + ".";
  if (view.disk_ok && view.mine.flush_failed) return after_failed_flush(view, action);
  if (view.metadata_failed) return std::string(kMendMetadata) + " Keep this node's data.";
  if (!view.disk_ok && view.disk_lacks_room) return "Free space for " + view.backing + ", then restart twinblockd here.";
  if (!view.disk_ok)
    return "Replace the disk that holds " + view.backing + ", then restart twinblockd here; " + kDiskReplaced + ".";
  if (view.disk_lacks_room && is_copied_here(view))
    return "Free space for " + view.backing + "; the copy is then resumed by itself.";
  return beside(view, action);
}

}  // namespace

void add_own_disk(const StatusView& view, StatusWords& words) {
  if (view.disk_error.empty()) return;
  const std::string& peer = view.peer.name;
  if (view.state == VolumeState::kSimplex) {
    words.status = view.disk_error + (view.metadata_failed ? "; what clients write to a place that was idle fails. "
                                                           : "; clients get errors, as no other replica stands in. ") +
                   words.status;
    words.action = view.metadata_failed ? std::string(kMendMetadata) + " Keep this disk: it may hold what " + peer + " lacks."
                                        : beside(view, words.action);
  }
  if (is_primary(view.role) && (view.state == VolumeState::kFrozen || view.state == VolumeState::kRefused))
    words.status = view.disk_error + ". " + words.status;
  if (view.role == Role::kSecondary) {
    words.status = view.disk_error + ". " + words.status;
    words.action = advice_to_secondary(view, words.action);
  }
}

}  // namespace twinblock
