#include "volume/stand_in.h"

#include <cerrno>

#include "base/limits.h"
#include "session/hello.h"

namespace twinblock {

StandIn::StandIn(Core& core, DiskHealth& disks, Consent& consent, Owner& owner)
    : core_(core),
      disks_(disks),
      consent_(consent),
      owner_(owner),
      mark_timer_(core.clock.make_timer([this] { mark_overdue(); })) {}

void StandIn::begin(uint64_t generation) {
  recorded_ = generation;
  mark();
}

// What is here is stale from now on. That is on record before the peer is told, and before anything is
// acknowledged that only the peer has: else this node would pass for current when it is back alone, and
// its disk can be read again. But a metadata disk that does not take it, often as it is the one that
// died, may not cost the device: then the peer's own record protects what it holds, and the witness.
void StandIn::mark() {
  core_.state().become_stale();
  if (mark_ == Mark::kAsked) return;
  if (mark_ != Mark::kNone) {
    mark_settled();
    return;
  }
  mark_ = Mark::kAsked;
  mark_asked_ns_ = core_.clock.now_ns();
  mark_timer_->arm(core_.config.disk_timeout_ns);
  core_.state().persist([this](int error) { mark_answered(error); });
}

// The intents are written beside it: a write that had asked for them before this node's disk failed may still
// wait, though the peer has all that it needs to take it. The disk has no longer for them than it had for the mark.
void StandIn::mark_answered(int error) {
  if (!core_.intents().awaited()) mark_timer_->disarm();
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
  if (mark_ == Mark::kAsked)
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
  core_.session.request_ordered(wire::GenerationFrame{}, wire::bytes_of(payload), *this);
}

void StandIn::answered(const PeerAnswer& answer) {
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
