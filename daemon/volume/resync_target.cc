#include "volume/resync_target.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/checks.h"
#include "base/limits.h"
#include "session/hello.h"

namespace twinblock {
namespace {

uint64_t weight_of(const wire::Frame& frame) { return sizeof frame + frame.payload.size(); }

}  // namespace

ResyncTarget::ResyncTarget(Core& core, const Parts& parts, ResyncLog& log, Owner& owner)
    : core_(core),
      parts_(parts),
      log_(log),
      owner_(owner),
      fresh_look_(core),
      own_set_(core.differences().dirty(),
               {[this](const wire::DirtyFrame& chunk, std::span<const std::byte> bits) {
                  core_.session.send_ordered(chunk, bits);
                },
                [this] { return core_.session.control_kept_bytes(); }},
               parts.own_set_bytes_max) {}

void ResyncTarget::session_up() { takes_data_ = false; }

void ResyncTarget::begin(bool tells) {
  progress_.begin(0, core_.clock.now_ns());
  if (tells) own_set_.begin();
}

void ResyncTarget::session_lost() {
  fresh_look_.session_lost();
  parts_.way_back.session_lost();
  own_set_.session_lost();
  early_.clear();
  early_bytes_ = 0;
}

// A node takes writes only after it has recorded that the peer is primary, and a target that it is
// half-copied (invariant 7).
bool ResyncTarget::may_receive() const {
  const bool may = parts_.roles.role() == Role::kSecondary && core_.phase().receives() &&
                   takes_data_ && !core_.state().blank();
  TB_CHECK(!may || !core_.phase().being_resynced() || core_.record().inconsistent,
           "a target takes data when it is on record as half-copied");
  return may;
}

void ResyncTarget::heard_data(wire::Frame& frame, uint64_t incarnation) {
  owner_.peer_writes();
  if (may_receive())
    parts_.replica.apply(frame, incarnation);
  else if (!hold_early(frame, incarnation))
    core_.refuse(frame.header);
}

// A source that has nothing to copy writes as soon as it has sent its generation, perhaps over a
// faster link. Bounded, as a good one can't have more in flight.
bool ResyncTarget::hold_early(wire::Frame& frame, uint64_t incarnation) {
  const bool expected = parts_.roles.role() == Role::kSecondary && core_.phase().receives() &&
                        !takes_data_ && !core_.state().blank();
  early_bytes_ += weight_of(frame);
  if (!expected || early_bytes_ > limits::kReceiveBytesMax) return false;
  wire::keep_apart(frame);
  early_.push_back({std::move(frame), incarnation});
  return true;
}

void ResyncTarget::take_data() {
  takes_data_ = true;
  early_bytes_ = 0;
  for (EarlyFrame& early : std::exchange(early_, {}))
    if (may_receive()) parts_.replica.apply(early.frame, early.incarnation);
}

// It has not been begun, and comes again over another one.
void ResyncTarget::connection_gone(uint64_t incarnation) {
  std::erase_if(early_, [&](const EarlyFrame& early) {
    if (early.incarnation != incarnation) return false;
    early_bytes_ -= weight_of(early.frame);
    return true;
  });
}

// A blank node has no record before its first generation.
bool ResyncTarget::hold_until_recorded(wire::Frame& frame) {
  const bool first_to_come = core_.state().blank() && core_.phase().being_resynced() &&
                             wire::FrameType{frame.header.type} != wire::FrameType::kGeneration;
  return parts_.asked.hold(frame, first_to_come);
}

void ResyncTarget::heard_generation(wire::Frame& frame) {
  if (hold_until_recorded(frame)) return;
  const auto payload = wire::payload_as<wire::GenerationPayload>(frame.payload);
  if (waits_for_copy(frame, payload)) return;
  const uint64_t request = wire::frame_as<wire::GenerationFrame>(frame.header).request;
  if (const uint32_t error = why_not_stand_in(payload); error != 0) {
    core_.session.send_ordered(wire::AckFrame{.request = request, .error = error});
    return;
  }
  // One at a time: the source waits for each answer.
  if (parts_.roles.role() != Role::kSecondary || parts_.asked.under_way() ||
      !takes_over(payload)) {
    core_.refuse(frame.header);
    return;
  }
  parts_.asked.begin();
  if (payload.flags == wire::kGenerationInconsistent) log_.began(false);
  record(request, payload.flags);
}

// Said before anything has changed here: the primary's own replica stays one that may go on then.
uint32_t ResyncTarget::why_not_stand_in(const wire::GenerationPayload& payload) const {
  if (payload.flags != wire::kGenerationSoleCopy) return 0;
  if (!parts_.disks.local_ok() || parts_.disks.flush_failed()) return wire::kCanNotStandIn;
  return parts_.disks.metadata_error() != 0 ? wire::kCanNotRecord : 0;
}

// A blank node looks for data first, and a way back is taken, which may take as long as it takes to write a disk: the
// source asks again until then.
bool ResyncTarget::waits_for_copy(const wire::Frame& frame, const wire::GenerationPayload& payload) {
  const bool may = parts_.roles.role() == Role::kSecondary && !parts_.asked.under_way() &&
                   core_.phase().now() == Phase::kBehind && payload.flags == wire::kGenerationInconsistent;
  const uint64_t session = core_.phase().session();
  if (!may || (fresh_look_.ended() && parts_.way_back.may_become_half_copied())) return false;
  if (core_.phase().still(session))
    core_.session.send_ordered(wire::AckFrame{.request = wire::frame_as<wire::GenerationFrame>(frame.header).request,
                                              .error = EINPROGRESS});
  return true;
}

// By the records of both.
uint64_t ResyncTarget::to_get_bytes() const {
  const auto& verdict = core_.session.handshake().last_verdict();
  const auto& source = core_.session.handshake().peer_facts();
  if (verdict != Verdict::kTargetOfMap || !source) return core_.volume_bytes();
  const uint64_t theirs_bytes = std::min(core_.volume_bytes(), source->dirty_bytes);  // it may say anything
  return std::min(core_.volume_bytes(), theirs_bytes + core_.differences().dirty().set_bytes());
}

// Takes over what the source tells; false when that makes no sense here.
bool ResyncTarget::takes_over(const wire::GenerationPayload& payload) {
  const metadata::Generations told = generations_of(payload);
  const Phase phase = core_.phase().now();
  // Only a primary gives its disk up: a node that takes the sole copy of another secondary's word could not be
  // promoted itself.
  const bool of_a_primary = parts_.roles.peer() == PeerRole::kPrimary;
  const bool suits = payload.flags == wire::kGenerationSoleCopy
                         ? of_a_primary && (phase == Phase::kEqual || phase == Phase::kSoleCopy)
                         : phase == Phase::kBehind;
  if (told.current == 0 || !suits) return false;
  if (core_.state().blank()) {
    if (payload.flags != wire::kGenerationInconsistent) return false;
    metadata::Uuid volume;
    std::copy(std::begin(payload.volume_uuid), std::end(payload.volume_uuid), volume.begin());
    if (!core_.join_order().allows(volume)) return false;
    join(volume, told);
  }
  core_.state().history().leave();
  parts_.roles.caught_up();
  switch (payload.flags) {
    case wire::kGenerationInconsistent:
      become_half_copied(told);
      return true;
    case wire::kGenerationConsistent:
      become_whole(told);
      return true;
    default:
      hold_sole_copy(told);
      return true;
  }
}

void ResyncTarget::join(const metadata::Uuid& volume, const metadata::Generations& told) {
  NodeState::Joined joined;
  joined.identity.volume = core_.config.volume;
  joined.identity.node = core_.node;
  joined.identity.size_bytes = core_.volume_bytes();
  joined.identity.volume_uuid = volume;
  joined.identity.region_bytes = core_.intents().region_bytes();
  joined.told = told;
  joined.peer_primary = parts_.roles.peer() == PeerRole::kPrimary;
  joined.peer_term = core_.session.handshake().peer_facts()->term;
  core_.state().join(joined);
  joining_ = true;
}

// From now on this is an unfinished copy of the source's history: a resync that is cut off goes on
// where it was. What this node itself may have changed stays on record until the end.
void ResyncTarget::become_half_copied(const metadata::Generations& told) {
  core_.state().become_half_copied(told, parts_.way_back.to_record(to_get_bytes()));
  owner_.target_marked();
  core_.differences().set_valid(true);
}

// The resync has covered every difference, also those that this node knew of: it is sent everything
// if it knew of any (decide()). Writes may follow at once: the source takes this node for whole when
// it is told to be.
void ResyncTarget::become_whole(const metadata::Generations& told) {
  // Whose blocks were the bad ones of a repair does not matter where all are the source's.
  if (core_.session.handshake().last_verdict() == Verdict::kTargetOfAll) core_.state().set_repairing(false);
  core_.state().become_whole(told, parts_.facts.boot());
  parts_.disks.copied_anew();
  core_.differences().clear_all();
  core_.differences().set_valid(true);
  owner_.target_filled();
}

void ResyncTarget::hold_sole_copy(const metadata::Generations& told) {
  core_.state().hold_sole_copy(told);
  core_.differences().all_may_differ();
  core_.differences().set_valid(true);
  owner_.target_holds_sole_copy();
}

void ResyncTarget::record(uint64_t request, uint32_t flags) {
  // What this node may have recorded of going on alone was about another history.
  parts_.gate.close();
  core_.stance().alone_right().word_is_settled();
  auto recorded = [this, session = core_.phase().session(), request, flags](int error) {
    if (error == 0 && flags == wire::kGenerationConsistent) {
      core_.intents().clear_all();
      parts_.way_back.whole();
    }
    if (!core_.phase().still(session)) return;
    // The source takes the set for complete when the answer comes.
    own_set_.when_told([this, request, flags, error] { acknowledge(request, flags, error); });
  };
  if (std::exchange(joining_, false))
    parts_.first_record.write(std::move(recorded));
  else
    core_.state().persist(std::move(recorded));
}

void ResyncTarget::acknowledge(uint64_t request, uint32_t flags, int error) {
  core_.session.send_ordered(
      wire::AckFrame{.request = request, .error = static_cast<uint32_t>(error)});
  if (error == 0) {
    take_data();
    if (flags == wire::kGenerationConsistent) {
      if (progress_.active()) {
        progress_.end(core_.clock.now_ns());
        core_.log.log(Severity::kInfo, "this replica is whole and current again");
        log_.ended(progress_, std::nullopt);
      }
      owner_.target_whole();
    }
  }
  parts_.asked.end();
}

}  // namespace twinblock
