// The session with the peer: dialling and accepting, the handshake, heartbeats, and the frames of
// an established connection. It decides nothing about data: what the node says of itself comes from
// its owner, and so does what happens when a session stands or is lost.
//
// A handshake, D dialling and A accepting:
//   1. D -> A  hello: D's facts
//   2. A       checks volume, size, nodes; ends an older session and lets its disk work finish, so
//              that nothing of it can land later (invariant 5); decides
//   3. A -> D  hello: A's facts; verdict
//   4. D       decides, and compares: both verdicts must mirror each other
//   5. D -> A  verdict; the session stands on D's side; on A's when this arrives
// Facts that change in between (a first write in simplex, a promotion) void the handshake: the
// connection is closed and dialled again.
//
// Owned by the engine; loop thread only.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/config.h"
#include "io/clock.h"
#include "io/connection.h"
#include "io/log.h"
#include "mirror/generation.h"
#include "volume/peer_requests.h"
#include "wire/frame_reader.h"

namespace twinblock {

class SessionOwner {
 public:
  // What this node says of itself now.
  virtual SyncFacts facts() const = 0;
  virtual bool fast_zero() = 0;
  // Whether disk work that an earlier session began is still under way.
  virtual bool draining() = 0;
  virtual void session_up(Verdict verdict, const SyncFacts& peer, bool peer_fast_zero) = 0;
  virtual void session_lost(const std::string& reason) = 0;
  // A frame other than acks, heartbeats and those of the handshake.
  virtual void session_frame(wire::Frame& frame) = 0;

 protected:
  ~SessionOwner() = default;
};

class Session {
 public:
  enum class LinkState { kDown, kConnecting, kUp, kRefused };

  struct Environment {
    const Config& config;
    std::string node;
    metadata::Uuid instance;  // of this process
    Clock& clock;
    Network& network;
    Log& log;
  };

  Session(Environment environment, SessionOwner& owner);
  ~Session();

  // Listens and begins to dial. An error names the address.
  Status start();
  // Ends an established session with `reason` told to the peer, and takes no new one.
  void stop(const std::string& reason);

  [[nodiscard]] bool up() const { return established_; }
  // Drops the established session (not told to the peer but by closing), and dials again after
  // `retry_delay_ns`.
  void drop(const std::string& reason, uint64_t retry_delay_ns);
  // Something changed that may make a refused handshake succeed, or draining has ended: try now.
  void poke();

  // Sends a frame that has no answer, or is one. `body` must stay valid until the peer has answered
  // or the session is lost; short payloads are copied by send_small.
  void send(const wire::FrameHeader& header);
  void send_small(const wire::FrameHeader& header, std::span<const std::byte> payload);
  void send_body(const wire::FrameHeader& header, std::span<const std::byte> body, uint32_t crc);
  // Sends a request; its sequence number is filled in. `body` as in send_body.
  void request(wire::FrameHeader header, std::span<const std::byte> body, uint32_t crc,
               PeerRequest& waiter);
  void request_small(wire::FrameHeader header, std::span<const std::byte> payload,
                     PeerRequest& waiter);
  [[nodiscard]] uint64_t queued_bytes_total() const;
  [[nodiscard]] uint64_t sent_bytes_total() const;
  void pause_reading(bool paused);

  // For status.
  [[nodiscard]] LinkState link_state() const;
  [[nodiscard]] std::optional<uint64_t> round_trip_ns() const { return round_trip_ns_; }
  [[nodiscard]] const std::string& last_error() const { return last_error_; }
  [[nodiscard]] const std::string& refusal() const { return refusal_; }
  [[nodiscard]] std::optional<Verdict> last_verdict() const { return last_verdict_; }
  // What the peer last said of itself in a handshake, whether a session came of it or not.
  [[nodiscard]] const std::optional<SyncFacts>& peer_facts() const { return peer_facts_; }
  [[nodiscard]] const LinkAddresses& link() const { return link_; }

 private:
  class Channel;  // one connection and its reader, before and after the handshake

  void dial();
  void accepted(std::unique_ptr<Connection> connection);
  void channel_closed(Channel& channel, const std::string& reason);
  void channel_readable(Channel& channel);
  bool handle(Channel& channel, wire::Frame& frame);
  bool handle_handshake(Channel& channel, wire::Frame& frame);
  bool handle_hello(Channel& channel, const wire::HelloPayload& hello);
  bool handle_verdict(Channel& channel, uint64_t code);
  void handle_ack(wire::Frame& frame);
  void handle_heartbeat(const wire::FrameHeader& header);
  bool resolve_collision(Channel& channel);
  void answer_hello(Channel& channel);
  void send_hello(Channel& channel);
  void send_verdict(Channel& channel, Verdict verdict);
  void refuse(Channel& channel, const std::string& to_peer, const std::string& for_us);
  void not_usable(Channel& channel, Verdict verdict);
  void establish(Channel& channel, Verdict verdict);
  void lose(const std::string& reason, uint64_t retry_delay_ns);
  void discard(Channel& channel);
  void bury();
  void tick();
  void schedule_dial(uint64_t delay_ns);
  void note_error(const std::string& error);
  [[nodiscard]] bool i_am_preferred() const;

  Environment env_;
  SessionOwner& owner_;
  std::string peer_;
  LinkAddresses link_;
  bool stopped_ = false;

  std::vector<std::unique_ptr<Channel>> channels_;
  std::vector<std::unique_ptr<Channel>> buried_;  // closed within their own callbacks
  Channel* current_ = nullptr;                    // carries the established session
  bool established_ = false;
  PeerRequests requests_;

  std::unique_ptr<Timer> dial_timer_;
  std::unique_ptr<Timer> tick_timer_;
  uint64_t dial_delay_ns_ = 0;
  uint64_t last_tick_ns_ = 0;
  uint64_t refuse_until_ns_ = 0;    // the same process of the peer is not talked to before
  metadata::Uuid peer_instance_{};  // of the last session
  uint64_t sent_at_tick_bytes_ = 0;
  bool paused_ = false;

  uint64_t last_heard_ns_ = 0;  // any bytes from the peer
  uint64_t last_echo_ns_ =
      0;                    // our own clock: the latest moment that the peer is known to have heard
  uint64_t peer_tick_ = 0;  // the peer's clock in its last heartbeat …
  uint64_t peer_tick_at_ns_ = 0;  // … and when it came
  std::optional<uint64_t> round_trip_ns_;

  std::string last_error_;
  std::string refusal_;  // why the last handshake came to nothing; empty when it did not
  std::string logged_error_;
  std::optional<Verdict> last_verdict_;
  std::optional<SyncFacts> peer_facts_;
};

}  // namespace twinblock
