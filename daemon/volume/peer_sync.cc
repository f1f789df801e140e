#include "volume/peer_sync.h"

#include <utility>

#include "base/checks.h"
#include "base/limits.h"
#include "base/strict_checks.h"

namespace twinblock {
namespace {

// Two that find the same in each other have had it together, or one has told the other to record it, after its own
// record said that it may have it. That the peer has it is its word, which is not taken where this record says that
// nobody else may: all is compared then.
bool may_be_the_same(const metadata::NodeRecord& record) {
  TB_CHECK_STRICTLY(record.shares_generation(), "whom nothing is sent to shares the generation by this record, too");
  return record.shares_generation();
}

// Nobody asks how the peer came by this generation. Who begins one has it alone; another replica takes
// it over half-copied, and is whole in it when it is told to be, which is after this node has it on
// record that they share it (PeerSync::resync_copied()), until it begins another one.
bool same_as(const Core& core, Verdict verdict, const SyncFacts& peer) {
  return verdict == Verdict::kSourceOfMap && core.differences().none_known() &&
         !peer.inconsistent && !peer.blank && !peer.dirty && !peer.flush_failed &&
         peer.generations.current == core.record().generations.current;
}

// Whether this primary, if its disk failed now, might go on with the peer's replica: by the rule of the handshake in which it
// would meet the peer then.
bool may_be_left_to(SyncFacts mine, const SyncFacts& peer) {
  mine.disk_failed = mine.inconsistent = true;
  return decide(mine, peer) == Verdict::kDiskless;
}

// Another replica than the one that shares the base becomes a member (invariant 12). The map says
// what it misses, and no longer what the former member missed, which must not pass as the same, nor
// be brought up to date by that map, when it comes back: it has to find its own generation in the
// history, but not as the base, so that it is compared in full. Durable before the target hears of
// it; a crash before leaves this node and the former member as they were.
//
// What stands for the replica for which a generation has to begin; nothing: none has to.
std::optional<uint64_t> another_replica(const metadata::NodeRecord& record, const SyncFacts& target) {
  if (!target.blank && target.generations.current == record.generations.current) return std::nullopt;
  // Began already for this very replica, which has not recorded it, or it would be in another state;
  // nor has anybody else, whatever this node has written alone meanwhile. However often the two begin
  // anew, what they know of each other may not leave the history. (What is blank is the same one as
  // long as its process lives.)
  const uint64_t replica = target.blank ? target.instance : target.state_id;
  return replica != 0 && record.begun_for == replica ? std::nullopt : std::optional(replica);
}

}  // namespace

PeerSync::PeerSync(Core& core, const Parts& parts, Owner& owner)
    : core_(core),
      parts_(parts),
      owner_(owner),
      local_flush_(core.data),
      log_(core, parts.words),
      source_(core, parts.flushes, parts.writes, parts.disks, *this),
      target_(core,
              {parts.gate, parts.disks, parts.replica, parts.asked, parts.roles,
               parts.first_record, parts.facts, parts.way_back, parts.own_set_bytes_max},
              log_, *this),
      stand_in_(core, parts.disks, parts.consent, *this),
      company_(core, parts.facts),
      away_timer_(core.clock.make_timer([this] { look_for_sole_copy(); })) {}

void PeerSync::enter(Phase phase) {
  core_.phase().enter(phase);
  owner_.phase_entered();
  if (!core_.phase().attached()) return;
  core_.stance().peer_takes_part();
  parts_.writes.release_held();
  parts_.flushes.release_held();
}

void PeerSync::session_up(Verdict verdict, const SyncFacts& peer) {
  core_.state().backing().meet(!peer.backing_lost || peer.primary);
  parts_.disks.peer().is_back();
  company_.session_up(peer);
  target_.session_up();
  // What the two write together no order has named. A target moves on when it is marked: until then
  // it is what an order to give it up has named.
  if (!core_.state().blank() && !is_target(verdict)) core_.state().history().move_on();
  switch (verdict) {
    case Verdict::kInSync:
      if (!may_be_the_same(core_.record())) {
        doubt_equal();
        return;
      }
      enter(Phase::kEqual);
      core_.differences().set_valid(true);
      parts_.gate.close();
      core_.state().found_equal(parts_.facts.boot());
      break;
    case Verdict::kSourceOfMap:
    case Verdict::kSourceOfAll:
      enter(Phase::kIdle);
      begin_resync(verdict, peer);
      break;
    case Verdict::kTargetOfMap:
    case Verdict::kTargetOfAll:
      enter(Phase::kBehind);
      log_.found(cause_of(verdict, parts_.facts.now(), peer));
      // What a failed flush took from the disk is in nobody's set for sure: the peer may have been
      // sent all that is shown here since.
      if (core_.record().flush_failed) core_.differences().all_missed();
      // Before it answers that it is marked: what it may hold that the source does not, or lost.
      target_.begin(verdict == Verdict::kTargetOfMap);
      break;
    case Verdict::kSoleCopy:
      enter(Phase::kSoleCopy);
      break;
    case Verdict::kDiskless:
      begin_diskless(peer);
      break;
    default:
      TB_CHECK(false, "a session stands on usable verdicts only");
  }
  if (!core_.state().blank()) record_session(verdict);
}

// In the next session both hear that every block may differ, and who is the source compares them.
void PeerSync::doubt_equal() {
  enter(Phase::kIdle);
  core_.differences().all_may_differ();
  core_.state().begin_copy(true);
  persist_for_resync([this] {
    core_.session.drop(core_.peer + " says that it has generation " +
                           metadata::format_generation(core_.record().generations.current) +
                           ", which by this node's record nobody else was given: all is compared",
                       limits::kReconnectDelayMin_ns);
  });
}

void PeerSync::begin_diskless(const SyncFacts& peer) {
  // Nothing that it may have forgotten was acknowledged, or it would be refused.
  company_.take_peer_along();
  core_.differences().left_to_peer();
  if (peer.generations.current == core_.record().generations.current) {
    leave_to_peer();  // the peer does not know yet: the last session ended too early
    return;
  }
  enter(stand_in_.marked() ? Phase::kDiskless : Phase::kLeaving);
  stand_in_.begin(peer.generations.current);
}

void PeerSync::session_lost(uint64_t retry_delay_ns) {
  // What only the peer holds. One that is not tried again at once, as it failed, is not soon back; one that was just waited
  // for may be gone once more before it takes part, but not again and again.
  const uint64_t now = core_.clock.now_ns();
  if (core_.phase().attached()) took_part_ns_ = now;
  const bool was_awaited = core_.stance().awaited_copies() != AwaitedCopies::kNone &&
                           core_.lateness().passed_ns(took_part_ns_, now) < 2 * core_.config.peer_timeout_ns;
  const bool soon_back =
      (core_.phase().attached() || was_awaited) && retry_delay_ns < limits::kReconnectDelayMax_ns;
  // (A place may be found bad while it is away.)
  core_.stance().await_copies(!soon_back                 ? AwaitedCopies::kNone
                              : !parts_.disks.local_ok() ? AwaitedCopies::kAll
                                                         : AwaitedCopies::kOfBadPlaces);
  core_.stance().peer_lost(core_.phase().peer_whole());
  enter(Phase::kApart);
  stand_in_.session_lost();
  look_for_sole_copy();
  waiting_copy_.reset();
  company_.session_lost();
  target_.session_lost();
  source_.session_lost();
}

// Nobody else has what clients ask for. A peer whose process is replaced, or whose links broke, is soon back: it is waited
// for as one is that says nothing.
void PeerSync::look_for_sole_copy() {
  if (core_.phase().attached() || core_.stance().awaited_copies() == AwaitedCopies::kNone) return;
  // It may be there, and take part late, or never: it takes a copy first, say. What it alone can read is not waited for
  // any longer.
  const uint64_t now_ns = core_.clock.now_ns();
  uint64_t away_ns = core_.session.heartbeats().silent_ns(now_ns);
  if (core_.stance().awaited_copies() == AwaitedCopies::kOfBadPlaces)
    away_ns = std::max(away_ns, core_.lateness().passed_ns(took_part_ns_, now_ns));
  if (away_ns < core_.config.peer_timeout_ns) {
    away_timer_->arm(core_.config.peer_timeout_ns - away_ns);
    return;
  }
  core_.stance().await_copies(AwaitedCopies::kNone);
  owner_.phase_entered();
  parts_.writes.release_held();
  parts_.flushes.release_held();
}

// That the peer is primary is durable here before the peer gets an answer to anything that it
// writes: else a loss of power would leave a node that lets itself be promoted beside it. A target
// takes its first data when it has recorded what the source tells.
void PeerSync::record_session(Verdict verdict) {
  core_.state().persist([this, verdict, session = core_.phase().session()](int error) {
    if (!core_.phase().still(session) || is_target(verdict)) return;
    if (error == 0)
      target_.take_data();
    else if (core_.phase().receives())
      core_.session.drop(parts_.disks.why_metadata_failed(error).what, limits::kPeerDiskRetry_ns);
  });
}

void PeerSync::persist_for_resync(std::function<void()> then) {
  core_.state().persist([this, session = core_.phase().session(),
                         then = std::move(then)](int error) {
    if (!core_.phase().still(session)) return;
    if (error == 0)
      then();
    else
      resync_failed(parts_.disks.why_metadata_failed(error).what);
  });
}

void PeerSync::begin_resync(Verdict verdict, const SyncFacts& peer) {
  const bool same = same_as(core_, verdict, peer);
  if (same && may_be_the_same(core_.record()))
    begin_same(verdict, peer);
  else
    begin_copy(same ? Verdict::kSourceOfAll : verdict, peer);
}

void PeerSync::begin_same(Verdict verdict, const SyncFacts& peer) {
  if (company_.peer_is_recorded()) {
    parts_.gate.close();
    source_.begin_with_nothing_to_send();
    enter(Phase::kConcluding);
    return;
  }
  // A client may write meanwhile: looked at again.
  company_.take_peer_along();
  persist_for_resync([this, verdict, peer] {
    company_.recorded();
    begin_resync(verdict, peer);
  });
}

void PeerSync::right_changed() {
  if (!waiting_copy_ || !core_.stance().alone_right().take_in_another(core_.record())) return;
  const WaitingCopy copy = *std::exchange(waiting_copy_, std::nullopt);
  begin_copy(copy.verdict, copy.peer);
}

void PeerSync::begin_copy(Verdict verdict, const SyncFacts& peer, bool flushed) {
  const auto another = verdict == Verdict::kSourceOfAll ? another_replica(core_.record(), peer) : std::nullopt;
  if (another && !core_.stance().alone_right().take_in_another(core_.record())) {
    waiting_copy_ = {verdict, peer};
    return;
  }
  const SyncFacts mine = parts_.facts.now();
  if (!may_be_left_to(mine, peer)) core_.stance().peer_counts_no_more();
  // In a generation of its own, a node that lost its power is promoted without the word that the former peer's memory may
  // hold more. So this disk holds all of that before such a generation begins.
  if (another && !flushed) {
    flush_for_resync([this, verdict, peer] { begin_copy(verdict, peer, true); });
    return;
  }
  log_.found(cause_of(verdict, mine, peer));
  log_.began(true);
  // One that died before it had its disk's failure on record, of which it had told this node, is not
  // believed either.
  const bool died_early = core_.record().all_dirty && peer.crashed;
  target_is_believed_ = !peer.flush_failed && !died_early;
  if (!target_is_believed_) core_.differences().compare_nothing();
  if (verdict == Verdict::kSourceOfAll) {
    if (another) {
      AloneRight& right = core_.stance().alone_right();
      core_.state().history().begin_generation_for(*another, right.granted(), right.by_witness(),
                                                   right.covers_next(core_.record()));
      right.withdraw();  // it is spent
    }
    // A target that holds nothing has nothing to compare with.
    if (target_is_believed_ && !peer.blank && !peer.backing_lost)
      core_.differences().all_may_differ();
    else
      core_.differences().all_missed();
    core_.differences().set_valid(true);
    parts_.disks.peer().is_copied_anew();
  }
  enter(Phase::kMarking);
  // A source that stopped now would have forgotten which blocks are left; that there are some must
  // be on record before the target is touched.
  // So must be that anything may, where what is sent is from memory that the disk does not hold: a loss of power in the
  // middle of it would take that away, and the flag with it, when it has left the set already.
  core_.state().begin_copy(verdict == Verdict::kSourceOfAll || core_.record().flush_failed);
  persist_for_resync([this, label = core_.record().generations] {
    flush_for_resync([this, label] {
      core_.stance().peer_counts_no_more();
      source_.begin(label);
    });
  });
}

// Once the target is marked, only this node's replica counts, and what the target's memory held of what
// was acknowledged together is overwritten. So this disk holds all of that first.
void PeerSync::flush_for_resync(std::function<void()> then) {
  local_flush_.flush([this, session = core_.phase().session(),
                      then = std::move(then)](const DiskRequest& flushed) {
    if (flushed.error != 0) parts_.disks.local_disk_failed(flushed);
    if (!core_.phase().still(session)) return;
    if (flushed.error == 0 && parts_.disks.local_ok())
      then();
    else  // it may have been given up for another request
      resync_failed("resync: " + parts_.disks.in_words());
  });
}

void PeerSync::heard_set(const wire::Frame& frame) {
  const auto dirty = wire::frame_as<wire::DirtyFrame>(frame.header);
  const BlockMap::ChunkView chunk{dirty.offset_bytes, dirty.length_bytes, frame.payload};
  // Only that they may differ is known: they are compared, if that tells anything.
  const bool merged = rules_of(core_.phase().now()).hears_its_set &&
                      core_.differences().merge_chunk(chunk, target_is_believed_);
  if (!merged) core_.refuse(frame.header);
}

void PeerSync::resync_target_waits() { parts_.roles.target_waits(); }

void PeerSync::resync_target_marked() {
  company_.session_stands();
  core_.state().target_marked();
  enter(Phase::kCopying);
  owner_.note_state();
}

void PeerSync::resync_copied() {
  parts_.gate.close();
  core_.state().history().share_generation();
  company_.take_peer_along();
  persist_for_resync([this] {
    company_.recorded();
    source_.record_target();
  });
}

void PeerSync::resync_finished() {
  // The local disk failed while the target recorded: it stays the only copy.
  if (core_.phase().now() == Phase::kIdle || core_.phase().diskless()) return;
  if (!core_.differences().none_known()) {
    core_.session.drop("a write failed on one side while the resync ended",
                        limits::kReconnectDelayMin_ns);
    return;
  }
  // While it is being promoted it does not write yet, and may still be refused.
  const bool writes_here = parts_.roles.is_primary();
  const Phase phase = writes_here ? Phase::kDuplex : Phase::kEqual;
  if (core_.phase().now() != phase) enter(phase);
  // Both nodes hold the same.
  parts_.disks.note_in_sync();
  core_.state().made_equal(parts_.facts.boot());
  company_.session_stands();
  parts_.roles.crash_is_made_good();
  core_.log.log(Severity::kInfo, core_.peer + " is whole and current");
  log_.ended(source_.progress(), source_.sent());
  // (A primary's next flush fails, and it goes on with the peer's replica.)
  if (core_.record().flush_failed && !writes_here) {
    ask_to_be_copied_back();
    return;
  }
  core_.state().persist([](int) {});
  owner_.note_state();
}

// This node had to be the source although a flush had failed here: it held what the peer did not.
// The peer has it now, and this node's disk gets from there what it may have lost.
void PeerSync::ask_to_be_copied_back() {
  core_.differences().all_missed();
  core_.differences().compare_nothing();
  core_.state().need_copy_back();
  core_.state().persist([this, session = core_.phase().session()](int) {
    if (core_.phase().still(session))
      core_.session.drop("a flush had failed on " + core_.node + ": it is copied back now",
                          limits::kReconnectDelayMin_ns);
  });
  owner_.note_state();
}

void PeerSync::resync_waits() {
  log_.waits(core_.differences().unreadable(), parts_.disks.read_error());
  owner_.note_state();
}

void PeerSync::resync_failed(const std::string& why) {
  core_.log.log(Severity::kError, why);
  log_.failed(why);
  core_.session.drop(why, limits::kPeerDiskRetry_ns);
}

void PeerSync::peer_writes() { company_.session_stands(); }

// What this node had of a history of its own is given up. A latest session that the source does not know would say of that
// one that it was put back.
void PeerSync::target_marked() { company_.peer_s_past_is_ours(); }

void PeerSync::target_filled() {
  company_.peer_s_past_is_ours();
  enter(Phase::kFilled);
}

void PeerSync::target_whole() {
  enter(Phase::kEqual);
  owner_.note_state();
}

void PeerSync::target_holds_sole_copy() {
  if (!core_.phase().holds_sole_copy()) enter(Phase::kSoleCopy);
}

void PeerSync::became_primary() {
  if (core_.phase().now() == Phase::kEqual) {
    company_.session_stands();
    enter(Phase::kDuplex);
  }
  TB_CHECK(!core_.phase().receives(), "a primary's writes are its own");
}

void PeerSync::became_secondary() {
  core_.stance().peer_counts_no_more();
  const Phase phase = core_.phase().now();
  if (phase == Phase::kDuplex || phase == Phase::kConcluding)
    enter(Phase::kEqual);
  else if (core_.phase().diskless())
    enter(Phase::kIdle);
  else
    owner_.phase_entered();
}

void PeerSync::peer_stands_in() {
  parts_.roles.update_local_reads();
  leave_to_peer();
}

void PeerSync::leave_to_peer() {
  parts_.verifier.stop("the local disk failed");
  enter(Phase::kLeaving);
  owner_.note_state();
  stand_in_.begin(0);
  parts_.verifier.disk_left();
  source_.disk_left();
}

// Perhaps in an earlier session: of this one it has nothing on record then.
void PeerSync::stand_in_recorded() {
  if (core_.phase().now() == Phase::kLeaving) enter(Phase::kDiskless);
  parts_.writes.sole_copy_recorded();
  parts_.flushes.sole_copy_recorded();
}

}  // namespace twinblock
