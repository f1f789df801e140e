#include "volume/stand_in.h"

#include <cerrno>
#include <utility>

#include "base/limits.h"
#include "session/hello.h"

namespace twinblock {
namespace {

constexpr uint64_t kLook_ns = 100 * kMillisecond_ns;

}  // namespace

StandIn::StandIn(Core& core, DiskHealth& disks, Consent& consent, Owner& owner)
    : core_(core),
      disks_(disks),
      consent_(consent),
      owner_(owner),
      mark_timer_(core.clock.make_timer([this] { mark_overdue(); })),
      look_timer_(core.clock.make_timer([this] { look(); })) {}

void StandIn::begin(uint64_t generation) {
  recorded_ = generation;
  if (generation != 0)
    peer_record_ = PeerRecord::kHas;
  else if (peer_record_ == PeerRecord::kPerhaps)  // what it was told in an earlier session it would say
    peer_record_ = PeerRecord::kNone;
  mark();
}

void StandIn::session_lost() {
  lost_ns_ = core_.clock.now_ns();
  if (std::exchange(awaits_answer_, false)) peer_record_ = PeerRecord::kPerhaps;
  take_mark_back();
  if (peer_record_ == PeerRecord::kPerhaps) look_timer_->arm(kLook_ns);
}

// What the peer says of itself without a session counts, too: what is on its record, or is about to be. What it was asked in
// a session that is lost it is not asked any more.
void StandIn::look() {
  if (peer_record_ != PeerRecord::kPerhaps || core_.phase().now() != Phase::kApart) return;
  look_timer_->arm(kLook_ns);
  const Handshake& handshake = core_.session.handshake();
  const auto& peer = handshake.peer_facts();
  if (!peer || handshake.peer_facts_at_ns() <= lost_ns_ || peer->blank ||
      peer->volume_uuid != core_.record().volume_uuid || peer->generations.current != core_.record().generations.current)
    return;
  look_timer_->disarm();
  peer_record_ = PeerRecord::kNone;
  take_mark_back();
}

// What would be left is as if this process had died before it asked for the mark, as nothing was acknowledged since that
// this replica lacks, but for what the disk had not flushed.
void StandIn::take_mark_back() {
  if (mark_ == Mark::kNone || mark_ == Mark::kTakenBack || peer_record_ != PeerRecord::kNone) return;
  core_.state().nobody_stood_in();
  if (disks_.metadata_error() == 0) core_.state().set_flush_failed(true);
  record_mark(Mark::kTakenBack);
}

// What is here is stale from now on. That is on record before the peer is told, and before anything is
// acknowledged that only the peer has: else this node would pass for current when it is back alone, and
// its disk can be read again. But a metadata disk that does not take it, often as it is the one that
// died, may not cost the device: then the peer's own record protects what it holds, and the witness.
void StandIn::mark() {
  core_.state().become_stale();
  if (mark_ == Mark::kNone || mark_ == Mark::kTakenBack)
    record_mark(Mark::kAsked);
  else if (mark_ != Mark::kAsked)
    mark_settled();
}

// One that waits behind another has the disk's time of that one.
void StandIn::record_mark(Mark mark) {
  const bool waits = mark_ == Mark::kAsked || mark_ == Mark::kTakenBack;
  mark_ = mark;
  if (!waits) {
    mark_asked_ns_ = core_.clock.now_ns();
    mark_timer_->arm(core_.config.disk_timeout_ns);
  }
  core_.state().persist([this, nth = ++mark_records_](int error) {
    if (nth == mark_records_) mark_answered(error);
  });
}

// The intents are written beside it: a write that had asked for them before this node's disk failed may still
// wait, though the peer has all that it needs to take it. The disk has no longer for them than it had for the mark.
void StandIn::mark_answered(int error) {
  if (!core_.intents().awaited()) mark_timer_->disarm();
  if (mark_ == Mark::kTakenBack) {
    mark_ = Mark::kNone;
    if (error == 0)
      core_.log.log(Severity::kWarning, core_.peer + " does not stand in for this node's disk, and has not: this replica counts "
                                                     "as before, if a new process finds its disk well");
    return;
  }
  mark_ = error == 0 ? Mark::kDurable : Mark::kFailed;
  mark_settled();
}

// A metadata disk that hangs has failed; the answer of one that does not may wait for a loop that stood still.
void StandIn::mark_overdue() {
  const uint64_t waited_ns = core_.lateness().passed_ns(mark_asked_ns_, core_.clock.now_ns());
  if (waited_ns < core_.config.disk_timeout_ns) {
    mark_timer_->arm(core_.config.disk_timeout_ns - waited_ns);
    return;
  }
  if (mark_ == Mark::kAsked || mark_ == Mark::kTakenBack)
    core_.state().give_up_disk(ETIMEDOUT);
  else if (!core_.intents().awaited())
    return;
  core_.intents().give_up(ETIMEDOUT);
}

void StandIn::mark_settled() {
  const Phase phase = core_.phase().now();
  if (phase == Phase::kApart) return;
  if (!core_.phase().diskless())  // it was demoted meanwhile, and the peer knows of nothing
    core_.session.drop("this node was demoted while its disk failed", limits::kPeerDiskRetry_ns);
  else if (recorded_ == 0)
    tell_peer();
  else
    name_to_witness();
}

void StandIn::tell_peer() {
  metadata::Generations generations = core_.record().generations;
  generations.advance(core_.random());
  told_ = generations.current;
  const wire::GenerationPayload payload =
      make_generation(generations, core_.record().volume_uuid, wire::kGenerationSoleCopy);
  awaits_answer_ = true;
  core_.session.request_ordered(wire::GenerationFrame{}, wire::bytes_of(payload), *this);
}

void StandIn::answered(const PeerAnswer& answer) {
  awaits_answer_ = false;
  if (answer.error == wire::kCanNotStandIn) {
    disks_.peer().failed(EIO, "it was to stand in");
    return;
  }
  if (answer.error == wire::kCanNotRecord) {
    disks_.peer().metadata_failed(EIO);
    return;
  }
  peer_record_ = answer.error != 0 ? PeerRecord::kPerhaps : PeerRecord::kHas;
  if (answer.error != 0) {
    disks_.peer().metadata_failed(answer.error);
    return;
  }
  recorded_ = told_;
  name_to_witness();
}

// The witness names it before anything is acknowledged that this node's own record can't protect; or it
// can't be asked. Else that is done beside.
void StandIn::name_to_witness() {
  if (marked()) {
    consent_.name_sole_copy(recorded_, nullptr);
    owner_.stand_in_recorded();
    return;
  }
  consent_.name_sole_copy(recorded_, [this, session = core_.phase().session()] {
    if (core_.phase().still(session)) owner_.stand_in_recorded();
  });
}

}  // namespace twinblock
