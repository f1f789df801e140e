#include "control/why_words.h"

#include "base/units.h"
#include "control/resync_words.h"
#include "control/status_words.h"
#include "words/backing_words.h"
#include "words/loss_words.h"

namespace twinblock {
namespace {

// With a capital letter, unless it begins with the peer's name.
std::string sentence(std::string text, const std::string& peer) {
  if (!text.starts_with(peer) && !text.empty() && text[0] >= 'a' && text[0] <= 'z')
    text[0] = static_cast<char>(text[0] - 'a' + 'A');
  return text;
}

void add_split_brain(const StatusView& view, std::vector<std::string>& lines) {
  const auto& theirs = view.peer.facts;
  if (!theirs || !view.verdict || !is_split_brain(*view.verdict)) return;
  const SyncFacts& mine = view.mine;
  lines.push_back("Since they parted, this node has " + written(mine, *theirs, view.size_bytes) + ", " +
                  view.peer.name + " has " + written(*theirs, mine, view.size_bytes) + "; neither has the other's.");
}

void add_with_peer(const StatusView& view, std::vector<std::string>& lines) {
  if (view.resync.target || view.resync.source) {
    if (view.resync.cause)
      lines.push_back(resync_words(*view.resync.cause, view.node, view.peer.name));
    if (view.resync.unreadable_bytes > 0 && !view.resync.waits_for_disk)
      lines.push_back("This node's disk could not be read at " + format_size(view.resync.unreadable_bytes) +
                      " so far (" + unreadable_words(view.resync) + "): they are left for later.");
    if (view.resync.paused)
      lines.push_back("The resync waits: it was paused by an operator (`twinblock resync " +
                      view.volume + " resume`).");
    return;
  }
  if (view.last_resync && view.last_resync->cause)
    lines.push_back("The last resync: " +
                    resync_words(*view.last_resync->cause, view.node, view.peer.name) + " It brought " +
                    format_size(view.last_resync->bytes) + " up to date in " +
                    format_duration(view.last_resync->duration_ns) + ".");
}

void add_without_peer(const StatusView& view, std::vector<std::string>& lines) {
  const std::string& peer = view.peer.name;
  if (view.lost_wall_ns != 0)
    lines.push_back("The session with " + peer + " was lost at " +
                    format_time(view.lost_wall_ns / kSecond_ns) +
                    // `status`, with which `why` begins, has said it then.
                    (view.state == VolumeState::kSimplex ? "." : ": " + view.loss_reason + "."));
  else
    // A refusal is what `status` begins with.
    lines.push_back("There has been no session with " + peer + " since this process started" +
                    (view.session_error.empty() || !view.refusal.empty()
                         ? "."
                         : ": " + view.session_error + "."));
  if (view.dirty_bytes > 0)
    lines.push_back(peer + " may miss " + format_size(view.dirty_bytes) + " in blocks" +
                    (view.coarse_bytes == 0 ? std::string()
                                          : ", " + format_size(view.coarse_bytes) +
                                                " of them known coarsely: they are compared "
                                                "before they are copied") +
                    ".");
  add_split_brain(view, lines);
}

bool runs_command(const StatusView& view) {
  return view.witness.kind == WitnessKind::kCommand && view.witness.standing != WitnessStanding::kOff;
}

// The beginning of a sentence.
std::string now(const StatusView& view, bool by_word) {
  std::string how = by_word ? "--peer-is-dead" : "";
  if (runs_command(view))
    how += (by_word ? "; " : "") + ("the fence command " + view.witness.name) + " is run first, against " +
           view.peer.name;
  return "Promoting this node now" + (how.empty() ? "" : " (" + how + ")");
}

std::string promotion_words(const StatusView& view) {
  if (view.role != Role::kSecondary) return "This node is primary: clients write here.";
  if (!view.promotion.refusal.empty())
    return "This node can't be promoted now: " + view.promotion.refusal + ".";
  if (view.unvouched)
    return "Promoting this node now (--peer-is-dead) would serve what is here: " +
           lost_words(view.found, view.backing) + ".";
  if (view.mine.other_backing)
    return "Promoting this node now (--peer-is-dead) would serve what is here, in the place of " + view.peer.name +
           "'s data, too: " + other_words(view.backing) + ".";
  if (view.peer.connected) return "Promoting this node now would lose nothing.";
  if (view.verdict && is_split_brain(*view.verdict))
    return "Promoting this node now would serve its own side of the split brain, without what " +
           view.peer.name + " wrote" +
           (view.peer.facts->primary ? ", and beside " + view.peer.name + ", which is primary."
                                           : ".");
  if (view.way_back.rolled_back_to_s != 0)
    return std::string("Promoting this node now (--peer-is-dead") +
           (asks_register(view.witness) ? " --without-witness" : "") + ") would serve what it was at " +
           format_time(view.way_back.rolled_back_to_s) + ", without all that " + view.peer.name +
           " has acknowledged since; that becomes a split brain when it returns.";
  // Only an etcd knows who went on alone: a command knows hosts, and no histories.
  const bool etcd = asks_register(view.witness);
  if (etcd && !view.promotion.forgot)
    return "Promoting this node now asks the witness (" + view.witness.name + ") first, which agrees unless " +
           view.peer.name + " may have gone on without this node; nothing that was acknowledged would be lost.";
  const std::string alone = "every write that " + view.peer.name + " accepted alone since the session was lost" +
                            (view.lost_wall_ns == 0 ? "" : " at " + format_time(view.lost_wall_ns / kSecond_ns));
  const std::string split = "; if it did accept any, that becomes a split brain when it returns.";
  if (view.promotion.forgot)
    return now(view, true) + " would lose what " +
           (view.mine.crashed ? "it had acknowledged as primary" : view.peer.name + " had acknowledged") +
           " and not flushed, as its host was started anew since; " + view.peer.name + " may still hold that" +
           (view.promotion.peer_is_primary && !etcd ? ", and " + alone + split : ".");
  if (view.promotion.peer_is_primary)
    return now(view, !runs_command(view)) + " would lose nothing that both nodes acknowledged, but " + alone + split;
  if (view.mine.crashed)
    return now(view, false) + " would lose nothing that it knows of; but it ended while it was primary, and " +
           view.peer.name + " may have been promoted since: if so, that becomes a split brain when it returns.";
  return now(view, false) + " would lose nothing that it knows of" +
         (view.lost_wall_ns == 0 ? std::string(".")
                             : ": " + view.peer.name + " was secondary when it was last heard.");
}

}  // namespace

std::vector<std::string> why_words(const StatusView& view) {
  std::vector<std::string> lines;
  const StatusWords words = status_words(view);
  lines.push_back(sentence(words.status, view.peer.name));
  if (view.peer.connected)
    add_with_peer(view, lines);
  else
    add_without_peer(view, lines);
  if (!view.mine.blank) lines.push_back(promotion_words(view));
  if (const uint64_t bytes =
          view.all_dirty ? view.size_bytes : view.intent_bytes;
      bytes > 0 && is_primary(view.role))
    lines.push_back("If this node lost power now, " + format_size(bytes) +
                    " in regions that were written lately would be compared with " + view.peer.name +
                    "'s, and only blocks that differ would be copied.");
  if (!words.action.empty()) lines.push_back(sentence(words.action, view.peer.name));
  return lines;
}

}  // namespace twinblock
