// Who is brought up to date: what follows from the handshake's verdict on both sides, the records
// that a source makes its target keep, and the ends of a resync.
#include <algorithm>
#include <utility>

#include "base/checks.h"
#include "base/limits.h"
#include "volume/engine.h"
#include "volume/hello.h"

namespace twinblock {

void Engine::session_up(Verdict verdict, const SyncFacts& peer, bool peer_fast_zero) {
  ++session_number_;
  core_.events.tell("session-up", {{"peer", core_.peer},
                                   {"peer_role", peer.primary ? "primary" : "secondary"},
                                   {"reason", explain(verdict, core_.peer)}});
  replica_.session_up();
  compression_.session_up();
  core_.peer_fast_zero = peer_fast_zero;
  roles_.session_up(peer, is_target(verdict) && !core_.record.inconsistent);
  peer_process_ = {peer.instance, peer.boot};
  receives_ = being_resynced_ = in_sync_ = holds_sole_copy_ = false;
  target_tells_ = takes_data_ = false;
  asked_.session_up();
  link_orders_.session_up();
  peer_settings_.session_up();
  core_.alone_allowed = false;
  shown_state_ = {};  // of a split brain that is over
  // What the two write together no order has named. A target moves on when it is marked: until then
  // it is what an order to give it up has named.
  if (!core_.blank && !is_target(verdict)) core_.move_on();
  switch (verdict) {
    case Verdict::kInSync:
      core_.map_valid = true;
      core_.backing_lost = core_.took_over = false;
      in_sync_ = receives_ = true;
      gate_.close();
      core_.record.generations.settle();
      core_.record.shared = core_.record.dirty = core_.record.snapshot = false;
      core_.record.keep = core_.record.discard = false;
      break;
    case Verdict::kSourceOfMap:
    case Verdict::kSourceOfAll:
      begin_resync(verdict, peer);
      break;
    case Verdict::kTargetOfMap:
    case Verdict::kTargetOfAll:
      receives_ = being_resynced_ = true;
      target_progress_.begin(0, core_.clock.now_ns());
      explain_resync(verdict, peer);
      // Before it answers that it is marked: what it may hold that the source does not, or lost.
      if (verdict == Verdict::kTargetOfMap) own_set_.begin();
      break;
    case Verdict::kSoleCopy:
      receives_ = holds_sole_copy_ = true;
      break;
    case Verdict::kDiskless:
      if (peer.generations.current == core_.record.generations.current) {
        record_sole_copy();  // the peer does not know yet: the last session ended too early
        break;
      }
      // Nothing that it may have forgotten was acknowledged, or it would be refused.
      note_peer_process();
      attach(Attachment::kDiskless);
      sole_copy_recorded();
      break;
    default:
      TB_CHECK(false, "a session stands on usable verdicts only");
  }
  if (!core_.blank) record_session(verdict);
  note_state();
}

// That the peer is primary is durable here before the peer gets an answer to anything that it
// writes: else a loss of power would leave a node that lets itself be promoted beside it. A target
// takes its first data when it has recorded what the source tells.
void Engine::record_session(Verdict verdict) {
  core_.persist([this, verdict, number = session_number_](int error) {
    if (number != session_number_ || !session_.up() || is_target(verdict)) return;
    if (error == 0)
      take_data();
    else if (receives_)
      session_.drop(disks_.why_metadata_failed(error).what, limits::kPeerDiskRetry_ns);
  });
}

void Engine::take_data() {
  takes_data_ = true;
  apply_early();
}

bool Engine::same_as(Verdict verdict, const SyncFacts& peer) const {
  return verdict == Verdict::kSourceOfMap && core_.dirty.empty() && !peer.inconsistent &&
         !peer.blank && !peer.dirty && !peer.flush_failed &&
         peer.generations.current == core_.record.generations.current;
}

// A peer has this generation from a time when both had it, or because it was told to record it. If
// neither was so, nobody knows how it came by it, and what it has of it.
bool Engine::knows_who_shares_it() const {
  const metadata::Generations& mine = core_.record.generations;
  return mine.current == mine.base || core_.record.shared;
}

// Whom this node takes along in what it writes from now on; to be durable before it does. One that is
// still to be brought up to date is none: if this node died, that one would pass for the survivor.
void Engine::note_peer_process() {
  metadata::NodeRecord& record = core_.record;
  record.boot = boot_;
  record.peer_instance = peer_process_.instance;
  record.peer_boot = peer_process_.boot;
  durably_noted_.reset();
}

// A primary without a peer takes nobody along, and what is noted stays: until it begins a generation,
// whoever was with it last still holds all that was acknowledged.
void Engine::note_company() {
  if (in_sync_) note_peer_process();
}

void Engine::begin_resync(Verdict verdict, const SyncFacts& peer) {
  const bool same = same_as(verdict, peer);
  if (same && !knows_who_shares_it()) {
    log(Severity::kWarning,
        core_.peer + " holds generation " +
            metadata::format_generation(core_.record.generations.current) +
            ", which this node never gave it: all is compared");
    core_.dirty.set_all();
    core_.coarse.set_all();
    core_.record.all_dirty = true;
  } else if (same) {
    if (durably_noted_ == peer_process_) {
      gate_.close();
      resync_.begin_with_nothing_to_send();
      attach(Attachment::kDuplex);
      return;
    }
    // A client may write meanwhile: looked at again.
    note_peer_process();
    core_.persist([this, verdict, peer, number = session_number_](int error) {
      if (number != session_number_ || !session_.up()) return;
      if (error != 0) {
        resync_failed(disks_.why_metadata_failed(error).what);
        return;
      }
      durably_noted_ = peer_process_;
      begin_resync(verdict, peer);
    });
    return;
  }
  explain_resync(verdict, peer);
  tell_resync_begun(true);
  // One that died before it had its disk's failure on record, of which it had told this node, is not
  // believed either.
  const bool died_early = core_.record.all_dirty && peer.crashed;
  target_is_believed_ = !peer.flush_failed && !died_early;
  if (!target_is_believed_) core_.coarse.clear_all();
  if (verdict == Verdict::kSourceOfAll) {
    begin_generation_for(peer);
    core_.dirty.set_all();
    // A target that holds nothing has nothing to compare with.
    if (target_is_believed_ && !peer.blank && !peer.backing_lost) core_.coarse.set_all();
    core_.record.all_dirty = true;
    core_.map_valid = true;
  }
  target_tells_ = true;
  // A source that stopped now would have forgotten which blocks are left; that there are some must
  // be on record before the target is touched.
  core_.record.dirty = true;
  core_.record.snapshot = false;  // the set may become larger than it
  core_.persist([this, number = session_number_, label = core_.record.generations](int error) {
    if (number != session_number_ || !session_.up()) return;
    if (error != 0) {
      resync_failed(disks_.why_metadata_failed(error).what);
      return;
    }
    flush_for_resync([this, label] { resync_.begin(label); });
  });
}

// Once the target is marked, only this node's replica counts, and what the target's memory held of what
// was acknowledged together is overwritten. So this disk holds all of that first.
void Engine::flush_for_resync(std::function<void()> then) {
  local_flush_.flush(
      [this, number = session_number_, then = std::move(then)](const DiskRequest& flushed) {
        if (flushed.error != 0) disks_.local_disk_failed(flushed);
        if (number != session_number_ || !session_.up()) return;
        if (flushed.error == 0)
          then();
        else
          resync_failed(system_error(flushed.error, "resync: flush " +
                                                        core_.config.node(core_.node).backing)
                            .what);
      });
}

// Another replica than the one that shares the base becomes a member (invariant 12). The map says
// what it misses, and no longer what the former member missed, which must not pass as the same, nor
// be brought up to date by that map, when it comes back: it has to find its own generation in the
// history, but not as the base, so that it is compared in full. Durable before the target hears of
// it; a crash before leaves this node and the former member as they were.
void Engine::begin_generation_for(const SyncFacts& target) {
  metadata::NodeRecord& record = core_.record;
  metadata::Generations& generations = record.generations;
  if (!target.blank && target.generations.current == generations.current) return;
  // Began already for this very replica, which has not recorded it, or it would be in another state;
  // nor has anybody else, whatever this node has written alone meanwhile. However often the two begin
  // anew, what they know of each other may not leave the history. (What is blank is the same one as
  // long as its process lives.)
  const uint64_t replica = target.blank ? target.instance : target.state_id;
  if (replica != 0 && record.begun_for == replica) return;
  core_.begin_generation();
  generations.settle();
  record.begun_for = replica;
}

void Engine::handle_generation(const wire::Frame& frame) {
  const auto payload = wire::payload_as<wire::GenerationPayload>(frame.payload);
  // One at a time: the source waits for each answer.
  if (roles_.role() != Role::kSecondary || !receives_ || asked_.under_way() || !is_known(payload) ||
      !apply_generation(payload)) {
    bad_frame(frame.header);
    return;
  }
  asked_.begin();
  if (payload.flags == wire::kGenerationInconsistent) tell_resync_begun(false);
  record_generation(frame.header, payload.flags);
}

void Engine::record_generation(const wire::FrameHeader& header, uint32_t flags) {
  // What this node may have recorded of going on alone was about another history.
  gate_.close();
  auto recorded = [this, number = session_number_, header, flags](int error) {
    if (error == 0 && flags == wire::kGenerationConsistent) intents_.clear_all();
    if (number != session_number_ || !session_.up()) return;
    // The source takes the set for complete when the answer comes.
    own_set_.when_told([this, sequence = header.sequence, flags, error] {
      acknowledge_generation(sequence, flags, error);
    });
  };
  if (std::exchange(joining_, false))
    first_record_.write(std::move(recorded));
  else
    core_.persist(std::move(recorded));
}

void Engine::acknowledge_generation(uint64_t sequence, uint32_t flags, int error) {
  wire::FrameHeader ack = wire::header_of(wire::FrameType::kAck);
  ack.sequence = sequence;
  ack.status = static_cast<uint32_t>(error);
  session_.send(ack);
  if (error == 0) {
    take_data();
    generation_recorded(flags);
  }
  asked_.end();
}

void Engine::generation_recorded(uint32_t flags) {
  if (flags != wire::kGenerationConsistent) return;
  if (target_progress_.active()) {
    target_progress_.end(core_.clock.now_ns());
    if (target_progress_.total_bytes() > 0) {
      last_resync_ = {target_progress_.total_bytes(), target_progress_.duration_ns(), {}};
      last_resync_reason_ = resync_reason_;
    }
    log(Severity::kInfo, "this replica is whole and current again");
    tell_resync_ended(false);
  }
  in_sync_ = true;
  note_state();
}

void Engine::handle_dirty(const wire::Frame& frame) {
  const BlockMap::ChunkView chunk{frame.header.offset, frame.header.length, frame.payload};
  // Only that they may differ is known: they are compared, if that tells anything.
  const bool merged = target_tells_ &&
                      (!target_is_believed_ || core_.coarse.merge_chunk(chunk)) &&
                      core_.dirty.merge_chunk(chunk);
  if (!merged) bad_frame(frame.header);
}

// Why there is a resync, and of what, for `twinblock why`.
void Engine::explain_resync(Verdict verdict, const SyncFacts& peer) {
  const bool source = is_source(verdict);
  const std::string& target = source ? core_.peer : core_.node;
  const SyncFacts mine = facts();
  const SyncFacts& told = source ? peer : mine;   // the target's facts
  const SyncFacts& newer = source ? mine : peer;  // the source's
  std::string reason;
  if (told.blank)
    reason = target + " is new";
  else if (told.backing_lost)
    reason = target + "'s backing was found empty";
  else if (told.discard || newer.keep)
    reason = "a split brain was resolved against " + target;
  else if (told.flush_failed)
    reason = "a flush failed on " + target + ", which can't tell what its disk holds";
  else if (told.inconsistent)
    reason = target + " holds an unfinished copy";
  else if (told.crashed)
    reason = target + " stopped as primary without demotion";
  else if (newer.crashed)
    reason = "the node that was primary last stopped without demotion";
  else
    reason = target + " was away while the volume was written";
  resync_reason_ = reason + ". ";
  if (is_source(verdict) ? verdict == Verdict::kSourceOfAll : verdict == Verdict::kTargetOfAll)
    resync_reason_ +=
        told.blank || told.backing_lost || told.flush_failed
            ? "The whole volume is copied."
            : "No record of what differs reaches back far enough: the whole volume is "
              "compared, and blocks that differ are copied.";
  else
    resync_reason_ += format_size(newer.dirty_bytes) +
                      " is on the source's record of what may differ, " +
                      format_size(told.dirty_bytes) + " on " + target +
                      (told.flush_failed
                           ? "'s; all of that is copied, since a comparison would tell nothing."
                           : "'s; regions known only coarsely are compared before they are "
                             "copied.");
}

// Takes over what the source tells; false when that makes no sense here.
bool Engine::apply_generation(const wire::GenerationPayload& payload) {
  metadata::NodeRecord& record = core_.record;
  const metadata::Generations told = generations_of(payload);
  if (told.current == 0) return false;
  if (core_.blank) {
    if (payload.flags != wire::kGenerationInconsistent || !core_.joinable) return false;
    const bool any = core_.joins == metadata::Uuid{};
    if (!any && !std::equal(core_.joins.begin(), core_.joins.end(), payload.volume_uuid))
      return false;
    record.volume = core_.config.volume;
    record.node = core_.node;
    record.size_bytes = core_.config.size_bytes;
    std::copy(std::begin(payload.volume_uuid), std::end(payload.volume_uuid),
              record.volume_uuid.begin());
    record.generations = told;
    record.peer_primary = roles_.peer() == PeerRole::kPrimary;
    record.heard_term = session_.peer_facts()->term;
    record.region_bytes = intents_.region_bytes();
    core_.blank = false;
    joining_ = true;
  }
  core_.move_on();
  record.begun_for = 0;  // that was in another history
  roles_.caught_up();
  switch (payload.flags) {
    case wire::kGenerationInconsistent:
      // From now on this is an unfinished copy of the source's history: a resync that is cut off
      // goes on where it was. What this node itself may have changed stays on record until the end.
      record.inconsistent = true;
      record.generations = told;
      // A promotion whose writes are given up was not the later one: after a crash of both the source
      // counts, also where its own promotion was before.
      roles_.hear_term(record.term);
      record.term = 0;
      record.discard = record.keep = false;
      // What the source has yet to send is on its record.
      core_.backing_lost = false;
      core_.map_valid = true;
      return true;
    case wire::kGenerationConsistent:
      // The resync has covered every difference, also those that this node knew of: it is sent
      // everything if it knew of any (decide()).
      record.generations = told;
      record.generation_since_s = core_.clock.wall_ns() / kSecond_ns;
      record.inconsistent = record.dirty = record.primary = record.shared = false;
      record.all_dirty = record.snapshot = record.discard = record.keep = false;
      disks_.copied_anew();
      core_.crashed = core_.backing_lost = core_.took_over = false;
      core_.dirty.clear_all();
      core_.coarse.clear_all();
      core_.map_valid = true;
      // Writes may follow at once: the source takes this node for whole when it is told to be.
      being_resynced_ = false;
      return true;
    case wire::kGenerationSoleCopy:
      record.generations = told;
      record.dirty = record.all_dirty = true;
      record.snapshot = false;
      record.generation_since_s = core_.clock.wall_ns() / kSecond_ns;
      core_.dirty.set_all();
      core_.coarse.set_all();
      core_.map_valid = true;
      in_sync_ = false;
      holds_sole_copy_ = true;
      return true;
    default:
      return false;
  }
}

void Engine::resync_target_marked() {
  target_tells_ = false;
  core_.record.keep = false;  // the order has been carried out
  core_.record.begun_for = 0;
  core_.crashed = false;  // what may differ is in the dirty map, and the target no longer counts
  attach(Attachment::kResync);
  note_state();
}

void Engine::resync_copied() {
  gate_.close();
  core_.record.shared = true;
  note_peer_process();
  core_.persist([this, number = session_number_](int error) {
    if (number != session_number_ || !session_.up()) return;
    if (error != 0) {
      resync_failed(disks_.why_metadata_failed(error).what);
      return;
    }
    durably_noted_ = peer_process_;
    resync_.record_target();
  });
}

void Engine::resync_finished() {
  // The local disk failed while the target recorded: it stays the only copy.
  if (core_.attachment == Attachment::kDiskless) return;
  if (!core_.dirty.empty()) {
    session_.drop("a write failed on one side while the resync ended",
                  limits::kReconnectDelayMin_ns);
    return;
  }
  // While it is being promoted it does not write yet, and may still be refused.
  const bool writes_here = is_primary();
  attach(writes_here ? Attachment::kDuplex : Attachment::kNone);
  in_sync_ = true;
  receives_ = !writes_here;
  if (resync_.progress().total_bytes() > 0) {
    last_resync_ = {resync_.progress().total_bytes(), resync_.progress().duration_ns(),
                    resync_.sent()};
    last_resync_reason_ = resync_reason_;
  }
  disks_.note_in_sync();
  core_.record.generations.settle();
  core_.record.dirty = core_.record.all_dirty = core_.record.snapshot = false;
  core_.record.shared = core_.record.keep = core_.record.discard = false;
  core_.took_over = core_.crashed = false;
  roles_.crash_is_made_good();
  log(Severity::kInfo, core_.peer + " is whole and current");
  tell_resync_ended(true);
  // (A primary's next flush fails, and it goes on with the peer's replica.)
  if (core_.record.flush_failed && !writes_here) {
    ask_to_be_copied_back();
    return;
  }
  core_.persist([](int) {});
  note_state();
}

// This node had to be the source although a flush had failed here: it held what the peer did not.
// The peer has it now, and this node's disk gets from there what it may have lost.
void Engine::ask_to_be_copied_back() {
  core_.dirty.set_all();
  core_.coarse.clear_all();
  core_.record.dirty = core_.record.all_dirty = true;
  // Also when the host was started anew meanwhile, and nothing tells any more that a flush failed.
  core_.record.inconsistent = true;
  core_.persist([this, number = session_number_](int) {
    if (number == session_number_ && session_.up())
      session_.drop("a flush had failed on " + core_.node + ": it is copied back now",
                    limits::kReconnectDelayMin_ns);
  });
  note_state();
}

void Engine::resync_failed(const std::string& why) {
  log(Severity::kError, why);
  tell_resync_failed(why);
  session_.drop(why, limits::kPeerDiskRetry_ns);
}

void Engine::sole_copy_recorded() {
  core_.sole_copy_recorded = true;
  writes_.sole_copy_recorded();
  flushes_.sole_copy_recorded();
}

}  // namespace twinblock
