#include "volume/candidacy.h"

#include <cerrno>

#include "base/units.h"
#include "volume/disk_errors.h"
#include "volume/roles.h"
#include "words/backing_words.h"
#include "words/peer_words.h"
#include "words/stall_words.h"

namespace twinblock {

// What is wrong with this node, whatever the peer does.
std::optional<Error> Candidacy::why_not_serve() const {
  const std::string& volume = core_.config.volume;
  if (core_.state().blank()) {
    const auto& peer = core_.session.handshake().peer_facts();
    return Error{"this node is not initialised",
                 peer && !peer->blank
                     ? core_.peer + " is: this node joins it, by itself where its backing is empty, "
                                    "else after `twinblock init " +
                           volume + " --join`, which overwrites this node's data"
                     : "run `twinblock init " + volume + "` first",
                 0, Retry::kWhenMended};
  }
  if (roles_.role() != Role::kSecondary)
    return Error{"this node is changing its role just now", "try again", EBUSY, Retry::kLater};
  if (roles_.stopping()) return Error{"this node is stopping", "", ESHUTDOWN, Retry::kLater};
  if (const char* what = core_.stance().changing())
    return Error{std::string("the volume is just ") + what,
                 "try again when that has ended: twinblock status " + volume, EBUSY, Retry::kLater};
  if (auto error = disk_failed()) return error;
  if (const uint64_t stalled_ns = parts_.disks.stalls().stalled_ns(); stalled_ns > 0)
    return Error{"this node can't serve: " + stalled_words(stalled_ns), "look at that disk (dmesg)", EIO, Retry::kLater};
  // It could not be put on record: refused before anything has changed.
  if (const int error = parts_.disks.metadata_error(); error != 0)
    return parts_.disks.why_metadata_failed(error);
  if (core_.session.up() && core_.phase().being_resynced())
    return Error{"this replica is being brought up to date by " + core_.peer,
                 "wait for it: twinblock wait " + volume + " --for promotable --progress", EBUSY,
                 Retry::kLater};
  // It may be that this replica is whole; until that is on record the peer is not noted as taken along.
  if (core_.session.up() && parts_.asked.under_way())
    return Error{"this node is just recording what " + core_.peer + " told it", "try again", EBUSY,
                 Retry::kLater};
  if (core_.record().flush_failed)
    return Error{"a flush failed here earlier: what this node reads may not be on its disk",
                 (core_.session.up() ? "wait until " + core_.peer + " is whole and promote that"
                                     : "start twinblockd on " + core_.peer) +
                     ", which brings this node up to date; without it, restart this host, after "
                     "which the disk tells what it holds",
                 EIO, Retry::kWhenMended};
  if (core_.record().inconsistent)
    return Error{"this replica is half-copied: serving it would serve a mixture of old and new data",
                 "start twinblockd on " + core_.peer + ", which finishes the copy" +
                     (core_.record().way_back
                          ? "; or go back to what was here before: twinblock rollback " + volume
                          : ""),
                 0, Retry::kWhenMended};
  return std::nullopt;
}

std::optional<Error> Candidacy::disk_failed() const {
  if (parts_.disks.local_ok()) return std::nullopt;
  return Error{system_error(parts_.disks.data_error(), "this node's disk failed").what,
               may_pass(parts_.disks.data_error()) ? "free space for it, then restart twinblockd"
                                         : std::string("replace the disk, then restart twinblockd; ") + kDiskReplaced,
               parts_.disks.data_error(), Retry::kWhenMended};
}

bool Candidacy::peer_is_primary() const {
  return core_.session.up() && (roles_.peer() == PeerRole::kPrimary || core_.record().peer_primary);
}

std::optional<Error> Candidacy::why_not(bool peer_is_dead) const {
  if (auto error = why_not_serve()) return error;
  const uint64_t stalled_ns = core_.session.heartbeats().peer_stalled_ns();
  if (peer_is_primary() && stalled_ns > 0)
    return Error{core_.peer + " is primary, and " + stalled_words(stalled_ns),
                 end_stalled_primary(core_.peer) + ", then use --peer-is-dead", EBUSY, Retry::kNotNow};
  if (peer_is_primary())
    return Error{core_.peer + " is primary",
                 "run `twinblock demote " + core_.config.volume + "` there first", EBUSY, Retry::kNotNow};
  // It has no record to put an answer on before the copy begins.
  const auto& facts = core_.session.handshake().peer_facts();
  if (core_.session.up() && parts_.owner.takes_in_another() && facts && facts->blank)
    return Error{core_.peer + " holds nothing, and agrees to nothing before the copy to it begins, which waits for the witness",
                 "`twinblock status " + core_.config.volume + "` says for what, and how to go on without it", EBUSY,
                 Retry::kLater};
  if (peer_is_dead) return std::nullopt;
  if (core_.state().backing().other() && !core_.state().backing().unvouched())
    return why_other_is_not_promoted(core_.config.node(core_.node).backing, core_.peer);
  if (!core_.session.up()) return why_word_is_needed();
  if (core_.state().backing().unvouched())
    return why_nothing_is_not_promoted(core_.state().backing().found(), core_.config.node(core_.node).backing, core_.peer);
  return std::nullopt;
}

// Without a session, what only the operator can know. Where there is a witness, it knows whether the
// peer goes on.
std::optional<Error> Candidacy::why_word_is_needed() const {
  if (core_.state().backing().unvouched())
    return why_lost_is_not_promoted(core_.state().backing().found(), core_.config.node(core_.node).backing, core_.peer);
  if (core_.record().peer_primary && core_.record().way_back.rolled_back_to_s() != 0) return why_rolled_back();
  if (parts_.owner.forgot_what_the_peer_may_hold())
    return Error{may_hold_more_words(core_.peer, core_.state().crashed()),
                 "start twinblockd on " + core_.peer +
                     " or mend the link; only where that replica is lost, use --peer-is-dead",
                 EBUSY, Retry::kLater};
  if (!parts_.consent.asks() && (core_.record().peer_primary || refused_peer_is_primary()))
    return Error{core_.peer + " was primary when it was last heard, and may still be writing",
                 "make sure that it is powered off or cut off, then use --peer-is-dead", EBUSY,
                 Retry::kNotNow};
  return std::nullopt;
}

Error Candidacy::why_rolled_back() const {
  const metadata::NodeRecord& record = core_.record();
  const std::string& volume = core_.config.volume;
  return Error{"this replica was rolled back to what it was at " + format_time(record.way_back.rolled_back_to_s()) +
                   ", and lacks what " + core_.peer + " has acknowledged since",
               "to go on without that: " +
                   promote_by_word(volume, core_.stance().alone_right().asks_register(record)) + "; when " + core_.peer +
                   " is back, the two have diverged: twinblock resolve " + volume + " says what each would lose",
               EBUSY, Retry::kNotNow};
}

// A peer that was refused last has said so without a session.
bool Candidacy::refused_peer_is_primary() const {
  const Handshake& handshake = core_.session.handshake();
  const auto verdict = handshake.last_verdict();
  const bool refused = (verdict && !is_usable(*verdict)) || handshake.peer_has_another_size();
  return refused && handshake.peer_facts() && handshake.peer_facts()->primary;
}

}  // namespace twinblock
