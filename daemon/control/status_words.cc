#include "control/status_words.h"

#include <vector>

#include "base/limits.h"
#include "base/units.h"
#include "control/own_disk_words.h"
#include "control/resync_words.h"
#include "control/stalled_disk_words.h"
#include "control/witness_words.h"
#include "words/backing_words.h"
#include "words/loss_words.h"
#include "words/peer_words.h"
#include "words/verdict_words.h"

namespace twinblock {
namespace {

// Why a node without metadata does not join by itself, although no data were found.
std::string unseen(const StatusView& view) {
  std::string words = unseen_words(view.backing);
  words[0] = 'N';
  return words + ": it does not join by itself, but by `twinblock init " + view.volume + " --join` here.";
}

StatusWords degraded_words(const StatusView& view) {
  StatusWords words;
  const size_t places = view.unreadable_places;
  words.status = "Every write is on both replicas, but this node's disk can't be read in " + std::to_string(places) +
                 (places == 1 ? " place" : " places") + " (" + view.read_error + "); " + view.peer.name +
                 "'s replica answers in its stead. ";
  if (view.peer_reads_fail) {
    words.status += "That one can't be read in places either, so that neither disk is given up for them.";
    words.action = "Copy what the device holds elsewhere before either disk is replaced: of what one of them can't be "
                   "read in, the other one has the only copy.";
    return words;
  }
  words.status += "After " + std::to_string(limits::kBadPlacesMax) + " places the disk counts as failed.";
  words.action = "Look at the disk that holds " + view.backing + " (dmesg, smartctl) and replace it" +
                 (is_primary(view.role) ? ", after you have detached, run `twinblock demote " + view.volume +
                                              "` here and `twinblock promote " + view.volume + "` on " + view.peer.name
                                        : "") +
                 "; then, or if it is well, restart twinblockd here; " + kDiskReplaced + ".";
  return words;
}

StatusWords diskless_words(const StatusView& view) {
  StatusWords words;
  const std::string& volume = view.volume;
  const std::string& peer = view.peer.name;
  if (view.peer.whole_on_this_node) {
    words.status = peer + "'s disk failed: " + peer +
                  " works on this node's replica, which is the only good copy.";
    words.action = "Keep this node up. On " + peer + " detach and run `twinblock demote " + volume +
                  "`, then `twinblock promote " + volume + "` here; then replace " + peer +
                  "'s disk.";
    return words;
  }
  if (view.metadata_failed) {  // it can't record a demotion either
    words.status = "This node's metadata disk failed: reads and writes go to " + peer +
                  "'s replica, which is the only good copy. This node's own record may not say so.";
    words.action = "Detach, stop twinblockd here, and run `twinblock promote " + volume + " --peer-is-dead` on " +
                  peer + "; then replace that disk. Do not promote this node before it has met " + peer +
                  " again: its replica is stale, and a new process may not know it.";
    return words;
  }
  words.status = "This node's disk failed: reads and writes go to " + peer +
                "'s replica, which is the only good copy.";
  words.action = "Detach, run `twinblock demote " + volume + "` here and `twinblock promote " +
                volume + "` on " + peer + "; then " +
                (view.disk_lacks_room ? "free space or " : "") + "replace the disk, and restart twinblockd here; " +
                kDiskReplaced + ".";
  return words;
}

// A source that has copied all but what its disk does not give.
StatusWords waiting_for_disk_words(const StatusView& view) {
  StatusWords words;
  const std::string& peer = view.peer.name;
  words.status = peer + " has been brought up to date but for " + format_size(view.resync.unreadable_bytes) +
                 " that this node's disk can't be read at (" + unreadable_words(view.resync) +
                 "). What is written goes to both nodes; " + peer + " counts as half-copied until it has these, too.";
  words.action = std::string("Write these places anew") +
                 (is_primary(view.role) ? "" : ", after `twinblock promote " + view.volume + "` here,") +
                 " (restore the files that lie there), or get the disk that holds " + view.backing +
                 " to be read (dmesg, smartctl): it is tried again every minute or so. Keep it until then: " +
                 (view.resync.target_may_have_unreadable
                      ? "whether " + peer + " holds the same there can't be told, so that only this replica counts."
                      : "it is the only good copy.");
  return words;
}

// The two have met, and trying again changes nothing: …
bool refused_for_good(const StatusView& view) { return view.verdict && !is_usable(*view.verdict); }

// … what does.
std::string advice(const StatusView& view) {
  const std::string& peer = view.peer.name;
  return (view.peer.facts ? advise(*view.verdict, view.mine, *view.peer.facts, view.volume, peer)
                          : advise(*view.verdict, view.volume, peer)) +
         ".";
}

// What keeps a node from being promoted without a word, where one would help.
void add_forgotten(const StatusView& view, StatusWords& words) {
  if (!view.promotion.refusal.empty() || view.unvouched || view.mine.other_backing) return;
  const std::string& peer = view.peer.name;
  words.status += " " + capitalised(may_hold_more_words(peer, view.mine.crashed)) + ".";
  words.action += " Only where " + peer + "'s replica is lost for good, run `" +
                  promote_by_word(view.volume, is_about_replicas(view.witness)) + "` here.";
}

StatusWords words_of_state(const StatusView& view) {
  StatusWords words;
  const std::string& volume = view.volume;
  const std::string& peer = view.peer.name;
  const std::string bring = capitalised(bring_back(peer, view.peer.answers));
  const bool overtaken = view.verdict && is_overtaken(*view.verdict);
  switch (view.state) {
    case VolumeState::kBlank:
      words.status = "This node has not been initialised.";
      if (!view.joinable && view.found == DataFound::kUnknown) words.status += " " + unseen(view);
      words.action = view.joinable ? "It joins by itself when it reaches " + peer +
                                         ", if that is initialised; "
                                         "else run `twinblock init " +
                                         volume +
                                         "` on the node whose data is to be "
                                         "kept."
                                   : "Run `twinblock init " + volume +
                                         "` on the node whose data is to be kept.";
      break;
    case VolumeState::kWaiting:
      if (view.mine.resumes && !view.promotion.forgot && view.witness.kind != WitnessKind::kNone &&
          view.witness.standing != WitnessStanding::kOff) {
        words.status = "This node was primary when its process ended. It goes on as that by itself when " + peer +
                       " confirms that it was not promoted meanwhile" +
                       (view.resumes_with_peer
                            ? "; the witness (" + view.witness.name +
                                  ") is not asked in its place, since writes would wait for " + peer +
                                  " all the same (on_peer_loss = \"freeze\")."
                            : ", or, without it, when the witness (" + view.witness.name + ") consents.") +
                       (view.witness.error.empty() ? "" : " So far: " + view.witness.error + ".");
        words.action = bring;
        if (view.resumes_with_peer)
          words.action += "; or have the witness asked: `twinblock promote " + volume + "`, and then `twinblock continue " +
                          volume + "`";
        // (What it says of the replicas calls for the peer as well.)
        if (!view.witness.action.empty() && !is_about_replicas(view.witness)) words.action += "; or " + view.witness.action;
        words.action += ". Only where " + peer + " is dead for sure, and was not promoted: twinblock promote " + volume +
                       " --peer-is-dead --without-witness.";
        break;
      }
      if (view.mine.resumes) {
        words.status = "This node was primary when its process ended. It goes on as that by itself when " +
                       peer + " confirms that it was not promoted meanwhile" +
                       (view.promotion.forgot ? ", and holds no more than this host, which was started anew."
                                              : ".");
        words.action = bring + (view.promotion.forgot
                                    ? "; or, only where that replica is lost, run `twinblock promote " + volume +
                                          " --peer-is-dead` here."
                                    : "; or, only if " + peer + " was not promoted, and this node did not work on " +
                                          peer + "'s replica when its process ended, run `twinblock promote " + volume +
                                          "` here.");
        break;
      }
      words.status = "Secondary, without a session with " + peer + ".";
      words.action = bring + "; it connects by itself.";
      if (view.promotion.forgot) add_forgotten(view, words);
      if (view.mine.other_backing && !view.unvouched) {
        const Error why = why_other_is_not_promoted(view.backing, peer);
        words.status += " " + capitalised(why.what) + ".";
        words.action = capitalised(why.action) + ": twinblock promote " + volume + " --peer-is-dead.";
      }
      break;
    case VolumeState::kConnecting:
      words.status = "The session with " + peer + " is being set up.";
      break;
    case VolumeState::kConnected:
      words.status = "Both replicas are the same; neither node is primary.";
      words.action =
          "Run `twinblock promote " + volume + "` on the node that is to serve the volume.";
      if (view.unvouched) {
        const Error why = why_nothing_is_not_promoted(view.found, view.backing, peer);
        words.status = capitalised(why.what) + ".";
        words.action = capitalised(why.action) + ".";
      }
      break;
    case VolumeState::kDuplex:
      words.status = "Both replicas are current; every write is on both before it is acknowledged.";
      break;
    case VolumeState::kDegraded:
      return degraded_words(view);
    case VolumeState::kDiskless:
      return diskless_words(view);
    case VolumeState::kResync:
      if (view.resync.waits_for_disk) return waiting_for_disk_words(view);
      words.status = view.resync.target ? "This replica is being brought up to date by " + peer + "."
                                    : peer + " is being brought up to date.";
      words.action =
          view.resync.paused
              ? "It was paused by an operator; run `twinblock resync " + volume + " resume`."
          : is_primary(view.role) || view.peer.role == PeerRole::kPrimary
              ? "Nothing to do; watch it with `twinblock wait " + volume +
                    " --for duplex --progress`."
          : view.resync.target
              ? "Nothing to do; to promote this node afterwards, `twinblock wait " + volume +
                    " --for promotable --progress`."
          : view.promotable
              ? "Nothing to do; this node may be promoted meanwhile."
              : "Nothing to do; " + peer + " may be promoted when it is whole.";
      break;
    case VolumeState::kSimplex:
      words.status = "This node goes on alone; what " + peer + " misses is recorded.";
      if (!view.loss_reason.empty() && view.loss_reason != view.peer.error)
        words.status += " Last session: " + view.loss_reason + ".";
      words.action = bring + "; it is brought up to date by itself.";
      break;
    case VolumeState::kFrozen:
      if (view.witness.waits) return waiting_words(view);
      words.status = (view.reads_wait ? "Reads and writes wait for " : "Writes wait for ") + peer +
                     " (on_peer_loss = \"freeze\").";
      words.action = bring + (overtaken ? "." : "; or let this node go on alone: `twinblock continue " + volume + "`.");
      if (view.verdict == Verdict::kOutdated) words.action = capitalised(vain_words(volume)) + ". Then " + advice(view);
      break;
    case VolumeState::kRefused:
      words.status = view.refusal + ".";
      if (view.frozen && view.witness.waits)
        words.status += " " + waiting_words(view).status;
      else if (view.frozen && view.verdict == Verdict::kOutdated)
        words.status += " " + capitalised(vain_words(volume)) + ".";
      else if (view.frozen && overtaken)
        words.status += " Writes wait until one of the two is demoted.";
      else if (view.frozen)
        words.status += std::string(view.reads_wait ? " Reads and writes" : " Writes") +
                        " wait (on_peer_loss = \"freeze\"); `twinblock continue " + volume +
                        "` lets this node go on alone.";
      if (view.verdict == Verdict::kNotJoinable && view.found == DataFound::kUnknown)
        words.status += " " + unseen(view);
      if (refused_for_good(view)) words.action = advice(view) + go_on_words(view);
      break;
    case VolumeState::kFailed:
      words.status = "This node's disk failed, and " + peer + " does not stand in." +
                     (view.frozen ? " What clients ask for waits for it." : "");
      words.action = bring + "; then demote this node. Keep its disk until " + peer +
                    " is promoted: it may hold what " + peer + " lacks.";
      if (refused_for_good(view)) {
        words.status += " " + view.refusal + ".";
        words.action = advice(view);
        if (view.metadata_failed && view.verdict == Verdict::kOutdated)  // it can't record a demotion
          words.action = "Detach, and stop twinblockd here; then replace the disk of its metadata, start twinblockd, and run "
                         "`twinblock init " +
                         volume + " --join` here: what " + peer + " has counts.";
      }
      // With a witness nothing would be ended: this node has nothing to be consented to.
      if (view.frozen && !view.reads_wait)
        words.action += " `twinblock continue " + volume + "` ends with an error what waits, and keeps nothing of it.";
      break;
  }
  return words;
}

// Whole sentences on the orders that this node has, or has heard of.
std::vector<std::string> orders_in_words(const StatusView& view) {
  std::vector<std::string> lines;
  const std::string& peer = view.peer.name;
  const auto& theirs = view.peer.facts;
  const SyncFacts& mine = view.mine;
  if (view.mine.blank || view.peer.connected || (theirs && !diverged(mine, *theirs))) return lines;
  const metadata::GivenUp& seen = view.given_up;
  if (mine.keep || mine.discard) {
    std::string line = "By order here, " + (mine.keep ? peer : view.node) + "'s " +
                       named(seen.dirty_bytes, seen.generation, seen.term) + " are given up";
    const SyncFacts* loser = mine.discard ? &mine : theirs ? &*theirs : nullptr;
    if (loser != nullptr && loser->state_id != seen.state_id)
      line += "; the order is void, as " + (mine.keep ? peer : view.node) +
              " has moved on since: now it has " +
              named(loser->dirty_bytes, loser->generations.current, loser->term);
    lines.push_back(line + ".");
  }
  // What was agreed on since has ended the peer's order.
  if (!theirs || (view.verdict && is_usable(*view.verdict))) return lines;
  if (theirs->keep)
    lines.push_back("By order at " + peer + ", this node's writes are given up" +
                    (gives_up(*theirs, mine)
                         ? "."
                         : "; the order is void, as this node has moved on since."));
  else if (theirs->discard)
    lines.push_back("By order at " + peer + ", " + peer + "'s own writes are given up" +
                    (gives_itself_up(*theirs)
                         ? "."
                         : "; the order is void, as " + peer + " has moved on since."));
  return lines;
}

// A disk that failed comes first, and what to do is about it.
void add_disks(const StatusView& view, StatusWords& words) {
  const std::string& peer = view.peer.name;
  if (!view.peer.error.empty()) {
    const bool sole_copy = (view.state == VolumeState::kDiskless && !view.peer.whole_on_this_node) ||
                           (view.state == VolumeState::kFailed && !refused_for_good(view));
    words.status = view.peer.error + ". " + words.status;
    const std::string disk = "the disk that holds " + view.peer.error_file;
    const std::string look = "On " + peer + ", look at " + disk + " (dmesg, smartctl), and ";
    const std::string room = "On " + peer + ", free space ";
    const std::string keep = view.peer.lacks_room ? room + "on " + disk + ", and keep it." : look + "keep it.";
    const std::string mend = (view.peer.lacks_room ? room + "or replace " + disk : look + "replace it where it fails") +
                             "; if the disk was replaced, restart twinblockd there, without its old metadata file. It is "
                             "tried again every " +
                             format_duration(limits::kPeerDiskRetry_ns) + ".";
    // A refusal tells of what the peer has by now; and without a disk here, the peer's may hold the only good copy.
    const bool said = view.state == VolumeState::kRefused || view.state == VolumeState::kFailed;
    if (sole_copy)
      words.action = keep + " " + words.action;
    else if (!said || words.action.empty())
      words.action = mend + (view.frozen ? " " + words.action : "");
  }
  add_own_disk(view, words);
  if (view.frozen && view.unreadable_places > 0)
    words.status += " Reads of what this node's disk can't read wait, too (" + view.read_error + ").";
}

// The next one to die may be the last.
void add_missing_links(const StatusView& view, StatusWords& words) {
  if (!view.peer.connected) return;
  std::string missing;
  for (const StatusView::Link& link : view.links) {
    if (link.state == LinkState::kUp || link.state == LinkState::kDisabled) continue;
    if (link.state == LinkState::kConnecting && link.last_error.empty()) continue;
    missing += (missing.empty() ? "" : "; ") + link.name +
               (link.last_error.empty() ? "" : " (" + link.last_error + ")");
  }
  if (missing.empty()) return;
  words.status += " It goes on without link " + missing + ".";
  if (words.action.empty()) words.action = "Mend the link; it is used again by itself.";
}

// What a volume has is on record; its file tells only whoever reads it, and makes a new one.
void add_size(const StatusView& view, StatusWords& words) {
  if (view.growing_to_bytes != 0)
    words.status += " It is growing to " + format_size(view.growing_to_bytes) + ".";
  if (view.state == VolumeState::kBlank || view.file_size_bytes == view.size_bytes) return;
  const std::string size = format_exact_size(view.size_bytes);
  const std::string in_file = format_exact_size(view.file_size_bytes);
  const bool larger = view.file_size_bytes > view.size_bytes;
  words.status += " Its file on this host says size = \"" + in_file + "\", but the volume has " + size + ".";
  if (!words.action.empty() || view.growing_to_bytes != 0) return;
  words.action = (larger ? "To make it so large, enlarge the backing on both hosts and run `twinblock grow " +
                               view.volume + " " + in_file + "` on the primary; else write"
                         : std::string("Write")) +
                 " size = \"" + size + "\" into that file.";
}

// The process that began it may be gone.
void add_repair(const StatusView& view, StatusWords& words) {
  if (!view.repair_cut_off) return;
  words.status += " A repair of " + view.peer.name + "'s blocks was not completed: where the two differ, " +
                  view.peer.name + "'s may be the bad ones still.";
  if (words.action.empty())
    words.action = "Run `twinblock verify " + view.volume + "` on " + view.node +
                   ", as primary, with both whole; and where that finds differences and " + view.node +
                   "'s disk is the good one, once more with --repair.";
}

// Neither is brought up to date from the other when the peer returns.
void add_rolled_back(const StatusView& view, StatusWords& words) {
  if (view.state != VolumeState::kWaiting && view.state != VolumeState::kSimplex && view.state != VolumeState::kFrozen)
    return;
  const std::string& peer = view.peer.name;
  words.status += " This replica was rolled back to what it was at " + format_time(view.way_back.rolled_back_to_s) +
                  ", and lacks what " + peer + " has acknowledged since.";
  const std::string then = "When " + peer + " returns, the two have diverged: `twinblock resolve " + view.volume +
                           "` says what each would lose.";
  if (view.state == VolumeState::kFrozen)
    words.action += " " + then;
  else if (view.state == VolumeState::kWaiting)
    words.action = "To go on with it, `" + promote_by_word(view.volume, asks_register(view.witness)) + "`. " + then;
  else
    words.action = then;
}

// What the node was before a resync, and how that is gone back to.
void add_way_back(const StatusView& view, StatusWords& words) {
  const StatusView::WayBack& way = view.way_back;
  const std::string& peer = view.peer.name;
  if (way.rolling_back) {
    words.status = "This replica is being rolled back to what it was before the resync. No session comes up meanwhile.";
    words.action = "Wait until it has ended; where it does not, see whether the disk of " + view.backing +
                   " answers (dmesg).";
    return;
  }
  if (way.taking) words.status += " A copy of what this node holds is taken first ([copies] before_resync).";
  if (!way.failure.empty())
    words.status += " The last copy before a resync could not be taken: " + way.failure + ".";
  if (way.rolled_back_to_s != 0) add_rolled_back(view, words);
  if (!way.kept) return;
  const std::string was = "what it was at " + format_time(way.since_s) + ", before the resync, is kept.";
  if (view.peer.connected) {
    words.status += " This replica is half-copied; " + was;
    return;
  }
  const bool refused = view.state == VolumeState::kRefused;
  words.status += " This replica is half-copied" +
                  (refused ? "" : ": " + peer + " was lost in the middle of the resync") + "; " + was;
  // A source that is refused may serve clients, and hold what counts.
  words.action = (refused_for_good(view)
                      ? advice(view) + " Or, where " + peer + "'s replica is lost for good"
                      : capitalised(bring_back(peer, view.peer.answers)) + "; the copy then goes on where it was. If " +
                            peer + " does not come back") +
                 ": `twinblock rollback " + view.volume + "` makes this replica again what it was, without what " + peer +
                 " has acknowledged since.";
}

}  // namespace

StatusWords state_words(const StatusView& view) {
  StatusWords words = words_of_state(view);
  if (view.peer.connected && (view.witness.waits || view.witness.copy_waits)) words = waiting_words(view);
  for (const std::string& line : orders_in_words(view)) words.status += " " + line;
  add_way_back(view, words);
  add_disks(view, words);
  return words;
}

// Beside a peer that is empty (volume/resumption.h): of one that is away, the state says so.
void add_resumption(const StatusView& view, StatusWords& words) {
  if (!view.mine.resumes || !view.peer.facts || !view.peer.facts->blank || view.state == VolumeState::kWaiting) return;
  const std::string& peer = view.peer.name;
  words.status += " This node was primary when its process ended, and " + peer +
                  ", which came without data, can't confirm that nobody was promoted since.";
  words.action = "If nobody was, run `twinblock promote " + view.volume + "` here: a device that is attached goes on. " +
                 words.action;
}

StatusWords status_words(const StatusView& view) {
  StatusWords words = state_words(view);
  add_resumption(view, words);
  add_stalled_disk(view, words);
  add_repair(view, words);
  add_missing_links(view, words);
  if (const std::string warning = witness_warning(view); !warning.empty() && !view.witness.waits &&
      !view.witness.copy_waits) {
    words.status += " " + warning;
    if (words.action.empty() && !view.witness.action.empty()) words.action = view.witness.action + ".";
  }
  for (const RefusedLinkOrder& refused : view.refused_link_orders)
    words.status += " " + view.peer.name + " refuses that link " + refused.link + " is " +
                    done_word(refused.order) + ": " + refused.reason + ".";
  if (!view.settings_differ.empty())
    words.status += " The configuration files of this node (here) and " + view.peer.name +
                    " (there) differ: " + view.settings_differ + ".";
  add_size(view, words);
  return words;
}

const char* role_name(Role role) { return is_primary(role) ? "primary" : "secondary"; }

const char* role_name(PeerRole role) {
  switch (role) {
    case PeerRole::kUnknown:
      return "unknown";
    case PeerRole::kSecondary:
      return "secondary";
    case PeerRole::kPrimary:
      break;
  }
  return "primary";
}

}  // namespace twinblock
