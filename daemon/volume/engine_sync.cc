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
  replica_.session_up();
  core_.peer_fast_zero = peer_fast_zero;
  peer_role_ = peer.primary ? PeerRole::kPrimary : PeerRole::kSecondary;
  receives_ = being_resynced_ = in_sync_ = holds_sole_copy_ = false;
  if (!core_.blank && core_.record.peer_primary != peer.primary) {
    core_.record.peer_primary = peer.primary;
    core_.persist([](int) {});
  }
  switch (verdict) {
    case Verdict::kInSync:
      core_.map_valid = true;
      in_sync_ = receives_ = true;
      core_.record.generations.settle();
      core_.record.shared = false;
      core_.persist([](int) {});
      break;
    case Verdict::kSourceOfMap:
    case Verdict::kSourceOfAll:
      begin_resync(verdict, peer);
      break;
    case Verdict::kTargetOfMap:
    case Verdict::kTargetOfAll:
      receives_ = being_resynced_ = true;
      target_progress_.begin(0, core_.clock.now_ns());
      break;
    case Verdict::kSoleCopy:
      receives_ = holds_sole_copy_ = true;
      break;
    case Verdict::kDiskless:
      if (peer.generations.current == core_.record.generations.current) {
        record_sole_copy();  // the peer does not know yet: the last session ended too early
        break;
      }
      attach(Attachment::kDiskless);
      sole_copy_recorded();
      break;
    default:
      TB_CHECK(false, "a session stands on usable verdicts only");
  }
}

void Engine::begin_resync(Verdict verdict, const SyncFacts& peer) {
  const bool nothing_to_send = verdict == Verdict::kSourceOfMap && core_.dirty.empty() &&
                               !peer.inconsistent && !peer.blank &&
                               peer.generations.current == core_.record.generations.current;
  if (nothing_to_send) {
    gate_.close();
    attach(Attachment::kDuplex);
    resync_.begin_with_nothing_to_send();
    return;
  }
  if (verdict == Verdict::kSourceOfAll) {
    core_.dirty.set_all();
    core_.map_valid = true;
  }
  // A source that stopped now would have forgotten which blocks are left; that there are some must
  // be on record before the target is touched.
  core_.record.dirty = true;
  core_.persist([this, number = session_number_](int error) {
    if (number != session_number_ || !session_.up()) return;
    if (error != 0) {
      resync_failed(system_error(error, "write to the metadata").what);
      return;
    }
    core_.crashed = false;  // "any block may differ" is what the full dirty map says
    resync_.begin();
  });
}

void Engine::handle_generation(const wire::Frame& frame) {
  const auto payload = wire::payload_as<wire::GenerationPayload>(frame.payload);
  if (role_ != Role::kSecondary || !receives_ || !apply_generation(payload)) {
    bad_frame(frame.header);
    return;
  }
  core_.persist(
      [this, number = session_number_, header = frame.header, flags = payload.flags](int error) {
        if (number != session_number_ || !session_.up()) return;
        wire::FrameHeader ack = wire::header_of(wire::FrameType::kAck);
        ack.sequence = header.sequence;
        ack.status = static_cast<uint32_t>(error);
        session_.send(ack);
        if (error != 0 || flags != wire::kGenerationConsistent) return;
        if (target_progress_.active()) {
          target_progress_.end(core_.clock.now_ns());
          last_resync_ = {target_progress_.total_bytes(), target_progress_.duration_ns()};
          log(Severity::kInfo, "this replica is whole and current again");
        }
        in_sync_ = true;
      });
}

// Takes over what the source tells; false when that makes no sense here.
bool Engine::apply_generation(const wire::GenerationPayload& payload) {
  metadata::NodeRecord& record = core_.record;
  const metadata::Generations told = generations_of(payload);
  if (core_.blank) {
    if (payload.flags != wire::kGenerationInconsistent || !core_.joinable) return false;
    record.volume = core_.config.volume;
    record.node = core_.node;
    record.size_bytes = core_.config.size_bytes;
    std::copy(std::begin(payload.volume_uuid), std::end(payload.volume_uuid),
              record.volume_uuid.begin());
    record.generations = told;
    record.peer_primary = peer_role_ == PeerRole::kPrimary;
    core_.blank = false;
  }
  switch (payload.flags) {
    case wire::kGenerationInconsistent:
      record.inconsistent = true;
      return true;
    case wire::kGenerationConsistent:
      // The resync has covered every difference, also those that this node knew of: it is sent
      // everything if it knew of any (decide()).
      record.generations = told;
      record.inconsistent = record.dirty = record.primary = record.shared = false;
      core_.crashed = core_.backing_lost = false;
      core_.dirty.clear_all();
      core_.map_valid = true;
      // Writes may follow at once: the source takes this node for whole when it is told to be.
      being_resynced_ = false;
      disk_note_.clear();
      return true;
    case wire::kGenerationSoleCopy:
      record.generations = told;
      record.dirty = true;
      core_.dirty.set_all();
      core_.map_valid = true;
      in_sync_ = false;
      holds_sole_copy_ = true;
      return true;
    default:
      return false;
  }
}

void Engine::resync_target_marked() { attach(Attachment::kResync); }

void Engine::resync_copied() {
  gate_.close();
  core_.record.shared = true;
  core_.persist([this, number = session_number_](int error) {
    if (number != session_number_ || !session_.up()) return;
    if (error != 0)
      resync_failed(system_error(error, "write to the metadata").what);
    else
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
  attach(role_ == Role::kSecondary ? Attachment::kNone : Attachment::kDuplex);
  in_sync_ = true;
  receives_ = role_ == Role::kSecondary;
  if (resync_.progress().total_bytes() > 0)
    last_resync_ = {resync_.progress().total_bytes(), resync_.progress().duration_ns()};
  core_.peer_error.clear();
  disk_note_.clear();
  core_.record.generations.settle();
  core_.record.dirty = core_.record.shared = false;
  core_.record.primary = role_ != Role::kSecondary;  // a crash before is made good
  core_.persist([](int) {});
  log(Severity::kInfo, core_.peer + " is whole and current");
}

void Engine::resync_failed(const std::string& why) {
  log(Severity::kError, why);
  session_.drop(why, limits::kPeerDiskRetry_ns);
}

void Engine::sole_copy_recorded() {
  core_.sole_copy_recorded = true;
  writes_.sole_copy_recorded();
  flushes_.sole_copy_recorded();
}

}  // namespace twinblock
