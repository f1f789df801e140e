#include "volume/engine_session.h"

#include <utility>

#include "base/limits.h"
#include "wire/codec.h"
#include "words/verdict_words.h"

namespace twinblock {

EngineSession::EngineSession(Parts parts)
    : parts_(std::move(parts)),
      compression_(parts_.core),
      link_orders_(parts_.core),
      peer_settings_(parts_.core),
      asked_([this](wire::Frame& frame) { session_frame(frame, PeerRequests::kControlStream); }) {}

void EngineSession::facts_told() {
  parts_.core.check_on_loop();
  if (!parts_.core.state().blank()) parts_.gate.told();
}

void EngineSession::session_up(Verdict verdict, const SyncFacts& peer, bool peer_fast_zero) {
  parts_.core.check_on_loop();
  parts_.core.events().tell("session-up", {{"peer", parts_.core.peer},
                                           {"peer_role", peer.primary ? "primary" : "secondary"},
                                           {"reason", explain(verdict, parts_.core.peer)}});
  parts_.consent.session_up(facts(), peer);
  parts_.replica.session_up();
  compression_.session_up();
  parts_.writes.session_up(peer_fast_zero);
  parts_.roles.session_up(facts(), peer, is_target(verdict) && !parts_.core.record().inconsistent);
  asked_.session_up();
  link_orders_.session_up();
  peer_settings_.session_up();
  parts_.growth.session_up();
  parts_.split_brain.session_up();
  parts_.sync.session_up(verdict, peer);
  parts_.note_state();
}

void EngineSession::session_lost(const std::string& reason, uint64_t retry_delay_ns) {
  parts_.core.check_on_loop();
  parts_.states.session_lost(reason);
  parts_.sync.log().failed("the session was lost: " + reason);
  if (parts_.core.phase().attached() && parts_.roles.role() != Role::kSecondary) parts_.core.counters().lost_peer();
  parts_.sync.session_lost(retry_delay_ns);
  parts_.roles.session_lost();
  parts_.growth.session_lost();
  parts_.snapshots.session_lost();
  parts_.replica.session_lost();
  parts_.verifier.session_lost(reason);
  parts_.writes.peer_lost();
  parts_.flushes.peer_lost();
  parts_.reads.peer_lost();
  link_orders_.session_lost();
  peer_settings_.session_lost();
  parts_.roles.answer_is_lost(reason);
  parts_.note_state();
}

void EngineSession::session_frame(wire::Frame& frame, uint64_t incarnation) {
  parts_.core.check_on_loop();
  const wire::FrameHeader& header = frame.header;
  switch (static_cast<wire::FrameType>(header.type)) {
    case wire::FrameType::kData:
    case wire::FrameType::kFlush:
    case wire::FrameType::kRead:
    case wire::FrameType::kDigest:
      parts_.sync.target().heard_data(frame, incarnation);
      break;
    case wire::FrameType::kGeneration:
      parts_.sync.target().heard_generation(frame);
      break;
    case wire::FrameType::kDirty:
      parts_.sync.heard_set(frame);
      break;
    case wire::FrameType::kLinkChange:
      link_orders_.heard(wire::frame_as<wire::LinkChangeFrame>(header),
                         wire::payload_as<wire::LinkChangePayload>(frame.payload));
      break;
    case wire::FrameType::kGrow:
      parts_.growth.heard(wire::frame_as<wire::GrowFrame>(header));
      break;
    case wire::FrameType::kSnapshot:
      parts_.snapshots.heard(wire::frame_as<wire::SnapshotFrame>(header), frame.payload);
      break;
    case wire::FrameType::kSettings:
      peer_settings_.heard(wire::frame_as<wire::SettingsFrame>(header), wire::payload_as<wire::SettingsPayload>(frame.payload));
      parts_.consent.look();  // it may read by itself now
      compression_.peer_told_all();  // when a session begins the settings are told behind all orders
      link_orders_.peer_told_all();
      break;
    case wire::FrameType::kRole:
      if (!parts_.roles.heard_role(wire::frame_as<wire::RoleFrame>(header))) parts_.core.refuse(header);
      break;
    case wire::FrameType::kPromoteAsk:
      if (!parts_.sync.target().hold_until_recorded(frame) &&
          !parts_.roles.heard_question(wire::frame_as<wire::PromoteAskFrame>(header)))
        parts_.core.refuse(header);
      break;
    case wire::FrameType::kPromoteAnswer:
      parts_.roles.heard_answer(wire::frame_as<wire::PromoteAnswerFrame>(header), frame.payload);
      break;
    case wire::FrameType::kCompression:
      compression_.heard(wire::frame_as<wire::CompressionFrame>(header));
      break;
    case wire::FrameType::kProgress:
      parts_.sync.target().heard_progress(wire::frame_as<wire::ProgressFrame>(header));
      break;
    default:
      parts_.core.refuse(header);
      break;
  }
}

void EngineSession::links_changed() {
  parts_.core.check_on_loop();
  link_orders_.links_changed();
  const Session& session = parts_.core.session;
  parts_.core.worker_view().set_links(
      session.links().up().size() > 1 ? limits::kSplitPayloadBytes : limits::kFramePayloadBytesMax,
      session.up() ? session.links().rate_bytes_per_s() : 0);
}

std::string EngineSession::peer_is_larger(uint64_t volume_bytes) {
  parts_.core.check_on_loop();
  return parts_.growth.peer_is_larger(volume_bytes);
}

void EngineSession::control_confirmed() {
  parts_.core.check_on_loop();
  parts_.sync.target().control_confirmed();
}

void EngineSession::connection_gone(uint64_t incarnation) {
  parts_.replica.connection_gone(incarnation);
  parts_.sync.target().connection_gone(incarnation);
}

}  // namespace twinblock
