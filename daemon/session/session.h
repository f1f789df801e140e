// The session with the peer: over all links, from the first handshake to its loss. It decides
// nothing about data: what the node says of itself comes from its owner, and so does what happens
// when a session stands or is lost.
//
// This is the façade over its parts:
//   Links         which links and connections there are
//   Dialler       when a session is dialled, and over which link
//   Handshake     from a connection to a session, or to a refusal
//   Newcomers     a hello while a session stands
//   LinkJoins     how further links join it
//   LinkRoster    which links it has, and may use
//   Heartbeats    whether the peer lives, and hears this node
//   PeerTraffic   the control stream and requests, and over which connection they go
//   Retirements   connections that are dead, and which of them the peer has closed, too
//   TripSampler   where the time of a request goes
//   FrameRoutes   where a frame of the session goes
//   Prober        what a link gives, over a connection of its own
//   ProbeResponder  … at the peer's
//   SessionWatch  what is due as time passes: heartbeats, and who counts as lost
//
// The other links join by the session's id. A connection that dies is closed on both sides; what it
// had not answered is sent again over others when the peer has confirmed that it reads nothing more
// of it. A session without any link lingers, for a while.
//
// Owned by the engine; loop thread only.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "session/frame_routes.h"
#include "session/handshake.h"
#include "session/link_roster.h"
#include "session/retirements.h"
#include "session/session_watch.h"

namespace twinblock {

class Session final : private SessionSteps, private ChannelOwner {
 public:
  Session(SessionEnvironment environment, SessionOwner& owner);

  // Listens and begins to dial. An error names the address.
  Status start();
  // Ends an established session with `reason` told to the peer, and takes no new one.
  void stop(const std::string& reason);

  [[nodiscard]] bool up() const { return established_; }
  // Whether the peer has shown since this moment that it lives: it has answered a beat that was
  // sent later. What it had sent before may still come in when it is dead.
  [[nodiscard]] bool answered_since(uint64_t moment_ns) const {
    return established_ && heartbeats_.answered_beat_ns() > moment_ns;
  }
  // Drops the established session (not told to the peer but by closing), and dials again after
  // `retry_delay_ns`.
  void drop(const std::string& reason, uint64_t retry_delay_ns);
  // Something changed that may make a refused handshake succeed, or draining has ended: try now.
  void poke() { handshake_.try_now(); }
  // It is primary from now on, not as a session's peer agreed to, but anew.
  void promoted() { handshake_.promoted(); }

  // On the control stream: in order and never lost while the session stands. Payloads are copied.
  template <typename Frame>
  void send_ordered(const Frame& frame, std::span<const std::byte> payload = {}) {
    static_assert(Frame::kKind.stream == wire::Stream::kOrdered ||
                  Frame::kKind.stream == wire::Stream::kEither);
    traffic_.put_in_order(wire::to_header(frame), payload);
  }
  // The same, of a request; its number is filled in.
  template <wire::Request Frame>
  void request_ordered(const Frame& frame, std::span<const std::byte> payload,
                       PeerRequest& waiter) {
    static_assert(Frame::kKind.stream == wire::Stream::kOrdered);
    traffic_.ask_in_order(wire::to_header(frame), payload, waiter);
  }
  // Bytes of the control stream that the peer may not have yet.
  [[nodiscard]] uint64_t control_kept_bytes() const { return control_.kept_bytes(); }

  // A request over the link that will answer it first; its number is filled in. `body` must stay
  // valid until the peer has answered or the session is lost; `crc` is its checksum.
  template <wire::Request Frame>
  void request_unordered(const Frame& frame, PeerRequest& waiter,
                         std::span<const std::byte> body = {}, uint32_t crc = 0) {
    static_assert(Frame::kKind.stream == wire::Stream::kUnordered);
    uint64_t offset_bytes = 0;
    if constexpr (requires { frame.offset_bytes; }) offset_bytes = frame.offset_bytes;
    traffic_.ask_somewhere(wire::to_header(frame), offset_bytes, body, crc, waiter);
  }
  // Answers a request that came over connection `incarnation`; dropped where that is gone, as the
  // request is sent again. `body` must stay valid until links().sent_bytes_total() has passed what
  // is links().queued_bytes_total() afterwards.
  void answer_unordered(uint64_t incarnation, const wire::AckFrame& ack,
                        std::span<const std::byte> body = {}, uint32_t crc = 0) {
    traffic_.answer(incarnation, ack, body, crc);
  }
  void pause_reading(bool paused);

  // LinkJoins::renew_all().
  void renew_links() { joins_.renew_all(); }
  // This node's keys are others now: who has proven one that was dropped, and has no part in a session yet,
  // gets none. What is up stays: a renewal replaces it without a loss.
  void keys_changed();
  // The volume is larger: the peer may name what is new of it.
  void volume_grew();

  [[nodiscard]] const Links& links() const { return links_; }
  [[nodiscard]] LinkRoster& roster() { return roster_; }
  // What it says of the peer holds of this session, or of the last one.
  [[nodiscard]] const Heartbeats& heartbeats() const { return heartbeats_; }
  [[nodiscard]] Prober& prober() { return prober_; }
  [[nodiscard]] const Prober& prober() const { return prober_; }
  [[nodiscard]] const Handshake& handshake() const { return handshake_; }
  [[nodiscard]] TripSampler& sampler() { return sampler_; }
  [[nodiscard]] const TripSampler& sampler() const { return sampler_; }
  // For what is said of what the peer tells, as often as it likes.
  [[nodiscard]] StrangerLog& peer_log() { return peer_log_; }
  // Of a link, or why the last session was lost.
  [[nodiscard]] const std::string& last_error() const { return last_error_; }

  // Of the session that stands.
  [[nodiscard]] const SessionId& id() const override { return id_; }

 private:
  // SessionSteps
  [[nodiscard]] bool established() const override { return established_; }
  [[nodiscard]] bool stopped() const override { return stopped_; }
  void establish(Channel& channel, Verdict verdict) override;
  void lose(const std::string& reason, uint64_t retry_delay_ns) override;
  void link_up(Channel& channel) override;
  void link_down(Channel& channel, const std::string& reason,
                 LinkEnd end = LinkEnd::kLost) override;
  void note_error(Link& link, const std::string& error) override;
  [[nodiscard]] bool tells_in_vain() const override;
  // ChannelOwner
  void channel_readable(Channel& channel) override;
  void channel_closed(Channel& channel, const std::string& reason) override;
  void channel_sampled(Channel& channel, const SendMoments& moments) override;

  [[nodiscard]] wire::FrameReader::Outcome next_frame(Channel& channel, wire::Frame& frame);

  const SessionEnvironment env_;
  SessionOwner& owner_;
  bool stopped_ = false;      // before the parts, which ask for these two
  bool established_ = false;
  StrangerLog strangers_;
  StrangerLog peer_log_;
  ControlStream control_;
  Links links_;
  Heartbeats heartbeats_;
  TripSampler sampler_;
  PeerTraffic traffic_;
  Retirements retirements_;
  LinkJoins joins_;
  Newcomers newcomers_;
  Dialler dialler_;
  Prober prober_;
  ProbeResponder responder_;
  Handshake handshake_;
  LinkRoster roster_;
  FrameRoutes routes_;
  SessionWatch watch_;
  SessionId id_;
  std::unique_ptr<Timer> resume_timer_;  // parses on after a pause
  std::string last_error_;
};

}  // namespace twinblock
