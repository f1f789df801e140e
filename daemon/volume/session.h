// The session with the peer: dialling and accepting, the handshake, the links that carry it,
// heartbeats, and the frames of established connections. It decides nothing about data: what the
// node says of itself comes from its owner, and so does what happens when a session stands or is
// lost.
//
// A handshake, D dialling and A accepting, on one link:
//   1. A -> D  challenge: a number that A has never used before
//   2. D -> A  hello: D's facts, a number of D's, and A's again
//   3. A       checks that it is an answer to its own challenge, and volume, size, nodes; keeps the
//              session that stands, if there is one and it answers; lets disk work of an older one
//              finish, so that nothing of it can land later (invariant 5); decides
//   4. A -> D  hello: A's facts and both numbers; verdict
//   5. D       checks that it is an answer to its own hello; decides, and compares: both verdicts
//              must mirror each other
//   6. D -> A  verdict; the session stands on D's side; on A's when this arrives
// Nothing that one side says counts before it has repeated the other's number: what was recorded of
// another connection, of either side, is closed with a line in the log. The two numbers are the
// session's id.
// Facts that change in between (a first write in simplex, a promotion) void the handshake: the
// connection is closed and dialled again.
//
// The other links join by the session's id. A connection that dies is closed on both sides; what it
// had not answered is sent again over others when the peer has confirmed that nothing that came
// over it can land any more (session_links.cc). A session without any link lingers, for a while.
//
// Owned by the engine; loop thread only.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/limits.h"
#include "config/config.h"
#include "io/clock.h"
#include "io/connection.h"
#include "io/log.h"
#include "mirror/generation.h"
#include "mirror/link_choice.h"
#include "telemetry/latency.h"
#include "volume/control_stream.h"
#include "volume/events.h"
#include "volume/link.h"
#include "volume/peer_requests.h"
#include "volume/status_view.h"
#include "volume/stranger_log.h"
#include "volume/trip_sample.h"
#include "wire/frame_reader.h"

namespace twinblock {

class SessionOwner {
 public:
  // What this node says of itself now.
  virtual SyncFacts facts() const = 0;
  // The peer is told those facts, in a hello.
  virtual void facts_told() = 0;
  virtual bool fast_zero() = 0;
  // Whether disk work that an earlier session began is still under way.
  virtual bool draining() = 0;
  // Whether work that came over this connection of the session is still under way.
  virtual bool working_for(uint64_t incarnation) = 0;
  virtual void session_up(Verdict verdict, const SyncFacts& peer, bool peer_fast_zero) = 0;
  virtual void session_lost(const std::string& reason) = 0;
  // A frame other than acks, heartbeats, and those of handshakes and links; an answer to it goes
  // to connection `incarnation`.
  virtual void session_frame(wire::Frame& frame, uint64_t incarnation) = 0;
  // Links have come or gone, or some time has passed.
  virtual void links_changed() = 0;
  // The peer has more of the control stream than it had.
  virtual void control_confirmed() = 0;
  // For how long the local disk has not got on with what the peer asked; 0: it has nothing to do.
  virtual uint64_t disk_still_ns() = 0;

 protected:
  ~SessionOwner() = default;
};

// Made by both sides, and never used twice.
struct SessionId {
  uint64_t dialler = 0;   // the nonce of who dialled …
  uint64_t acceptor = 0;  // … and of who accepted the session's first connection
  bool operator==(const SessionId&) const = default;
};

class Session {
 public:
  struct Environment {
    const Config& config;
    std::string node;
    metadata::Uuid instance;  // of this process
    Clock& clock;
    Network& network;
    Log& log;
    Events& events;
    std::function<uint64_t()> random;
  };

  Session(Environment environment, SessionOwner& owner);
  ~Session();

  // Listens and begins to dial. An error names the address.
  Status start();
  // Ends an established session with `reason` told to the peer, and takes no new one.
  void stop(const std::string& reason);

  [[nodiscard]] bool up() const { return established_; }
  // Whether the peer has shown since this moment that it lives: it has answered a beat that was sent
  // later. What it had sent before may still come in when it is dead.
  [[nodiscard]] bool answered_since(uint64_t moment_ns) const {
    return established_ && answered_beat_ns_ > moment_ns;
  }
  // Drops the established session (not told to the peer but by closing), and dials again after
  // `retry_delay_ns`.
  void drop(const std::string& reason, uint64_t retry_delay_ns);
  // Something changed that may make a refused handshake succeed, or draining has ended: try now.
  void poke();

  // On the control stream: in order and never lost while the session stands. Payloads are copied.
  template <typename Frame>
  void send_ordered(const Frame& frame, std::span<const std::byte> payload = {}) {
    static_assert(Frame::kKind.stream == wire::Stream::kOrdered ||
                  Frame::kKind.stream == wire::Stream::kEither);
    put_in_order(wire::to_header(frame), payload);
  }
  // The same, of a request; its number is filled in.
  template <wire::Request Frame>
  void request_ordered(const Frame& frame, std::span<const std::byte> payload,
                       PeerRequest& waiter) {
    static_assert(Frame::kKind.stream == wire::Stream::kOrdered);
    ask_in_order(wire::to_header(frame), payload, waiter);
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
    ask_somewhere(wire::to_header(frame), offset_bytes, body, crc, waiter);
  }
  // Answers a request that came over connection `incarnation`; dropped where that is gone, as the
  // request is sent again. `body` must stay valid until sent_bytes_total() has passed what is
  // queued_bytes_total() afterwards.
  void answer_unordered(uint64_t incarnation, const wire::AckFrame& ack,
                        std::span<const std::byte> body = {}, uint32_t crc = 0);
  // Of one connection; a connection that is gone has nothing left to send.
  [[nodiscard]] uint64_t queued_bytes_total(uint64_t incarnation) const;
  [[nodiscard]] uint64_t sent_bytes_total(uint64_t incarnation) const;
  // Queued on all links and not taken by the kernel yet.
  [[nodiscard]] uint64_t unsent_bytes() const;
  // The answer that comes next is to a request that the peer samples (kFlagSample): its times
  // follow it. The request's moments: it came into this host's kernel, and its frame was read.
  void sample_answer(uint64_t incarnation, uint64_t sequence, uint64_t arrived_ns,
                     uint64_t read_ns);
  // Every so many client writes one is sampled, 0: none; more than one in a while
  // (limits::kSampleInterval_ns) only if it is each.
  void set_sample_every(uint32_t writes) { sample_every_ = writes; }
  [[nodiscard]] uint32_t sample_every() const { return sample_every_; }
  // Work that came over a connection has ended (see SessionOwner::working_for).
  void work_ended(uint64_t incarnation);
  void pause_reading(bool paused);

  // Links at run time. Errors change nothing.
  Status add_link(const LinkConfig& link);
  Status remove_link(const std::string& name);
  Status enable_link(const std::string& name, bool enabled);
  [[nodiscard]] bool has_link(const std::string& name) const { return find_link(name) != nullptr; }
  [[nodiscard]] bool has_enabled_link(const std::string& name) const {
    const SessionLink* link = find_link(name);
    return link != nullptr && link->enabled;
  }
  [[nodiscard]] const LinkConfig& link_config(const std::string& name) const;  // must exist
  [[nodiscard]] size_t link_count() const { return links_.size(); }
  // Whether the nodes could still talk without this link.
  [[nodiscard]] bool can_spare(const std::string& name) const;
  [[nodiscard]] std::string link_names() const;
  [[nodiscard]] size_t links_up() const { return up_.size(); }
  // Together, as far as known.
  [[nodiscard]] uint64_t rate_bytes_per_s() const;

  // For status.
  [[nodiscard]] std::vector<StatusView::Link> links() const;
  [[nodiscard]] std::vector<LatencyView::Link> link_latency(Window window) const;
  [[nodiscard]] bool connecting() const { return !channels_.empty(); }
  [[nodiscard]] const std::string& last_error() const { return last_error_; }
  [[nodiscard]] const std::string& refusal() const { return refusal_; }
  // Whether somebody is there at the peer's end of a link, although there is no session.
  [[nodiscard]] bool peer_answers() const;
  [[nodiscard]] std::optional<Verdict> last_verdict() const { return last_verdict_; }
  // What the peer last said of itself in a handshake, whether a session came of it or not.
  [[nodiscard]] const std::optional<SyncFacts>& peer_facts() const { return peer_facts_; }
  [[nodiscard]] uint64_t peer_facts_at_ns() const { return peer_facts_at_ns_; }
  [[nodiscard]] std::string peer_address() const;

 private:
  class Channel;  // one connection and its reader, before and after the handshake
  using SessionLink = Link<Channel>;

  // A connection that is dead and closed here.
  struct Retirement {
    uint64_t incarnation = 0;
    bool by_us = false;    // the peer was told that nothing of it can land here any more
    bool by_peer = false;  // … and it has told us the same
  };

  enum class JoinFailure {
    kRefused,      // the peer says no
    kNoSession,    // … as it has no such session any more
    kUnreachable,  // nobody takes the connection
    kNoAnswer,     // it may be under way
    kLater,        // nothing is wrong: try again
  };

  // session.cc
  void accepted(SessionLink& link, std::unique_ptr<Connection> connection);
  void channel_closed(Channel& channel, const std::string& reason);
  void channel_readable(Channel& channel);
  bool handle(Channel& channel, wire::Frame& frame);
  bool handle_control(Channel& channel, wire::Frame& frame);
  void handle_ack(Channel& channel, wire::Frame& frame);
  bool handle_heartbeat(Channel& channel, const wire::Frame& frame);
  void refuse_frame(Channel& channel);
  void put_in_order(const wire::FrameHeader& header, std::span<const std::byte> payload);
  void ask_in_order(const wire::FrameHeader& header, std::span<const std::byte> payload,
                    PeerRequest& waiter);
  void ask_somewhere(const wire::FrameHeader& header, uint64_t offset_bytes,
                     std::span<const std::byte> body, uint32_t crc, PeerRequest& waiter);
  void lose(const std::string& reason, uint64_t retry_delay_ns);
  void discard(Channel& channel);
  void tick();
  [[nodiscard]] bool carries_nothing(uint64_t now_ns) const;
  [[nodiscard]] std::optional<uint64_t> hangs_ns(uint64_t now_ns);
  void time_out_handshakes(uint64_t now_ns);
  void note_error(const SessionLink& link, const std::string& error);
  void tell_refusal();
  [[nodiscard]] bool i_am_preferred() const;

  // session_times.cc
  void begin_sample(Channel& channel, const PeerRequests::Entry& entry, wire::FrameHeader& header);
  void time_request(Channel& channel, const PeerRequests::Entry& entry, const wire::Frame& frame,
                    uint64_t now_ns);
  void sampled(Channel& channel, const SendMoments& moments);
  void tell_times(Channel& channel, const SendMoments& moments);
  void handle_times(Channel& channel, const wire::TimesFrame& times);
  void finish_sample(Channel& channel);

  // session_handshake.cc
  void dial();
  void schedule_dial(uint64_t delay_ns);
  bool handle_handshake(Channel& channel, wire::Frame& frame);
  bool handle_challenge(Channel& channel, const wire::ChallengeFrame& challenge);
  bool handle_refusal(Channel& channel, const wire::Frame& frame);
  [[nodiscard]] bool is_recorded(Channel& channel, uint64_t echo);
  void close_stranger(Channel& channel, const std::string& why);
  bool let_in(Channel& channel);
  bool handle_hello(Channel& channel, const wire::HelloPayload& hello);
  bool handle_verdict(Channel& channel, Verdict theirs);
  bool resolve_collision(Channel& channel);
  void answer_hello(Channel& channel);
  void send_hello(Channel& channel);
  void send_verdict(Channel& channel, Verdict verdict);
  void refuse(Channel& channel, const std::string& to_peer, const std::string& for_us);
  void send_refusal(Channel& channel, const std::string& why);
  void not_usable(Channel& channel, Verdict verdict);
  void establish(Channel& channel, Verdict verdict);

  // session_probe.cc
  [[nodiscard]] std::vector<Channel*> newcomers() const;
  void probe(Channel& newcomer);
  void session_answers();
  void judge_probe(uint64_t now_ns);
  void let_newcomer_in();

  // session_join.cc and session_links.cc
  Status listen(SessionLink& link);
  [[nodiscard]] SessionLink* find_link(const std::string& name) const;
  void ask_to_join(Channel& channel);
  bool handle_join(Channel& channel, const wire::JoinFrame& join);
  bool accept_join(Channel& channel);
  void join_failed(Channel& channel, const std::string& reason, JoinFailure failure);
  void schedule_join(SessionLink& link, uint64_t delay_ns);
  void close_link(SessionLink& link);
  void join(SessionLink& link);
  void link_up(Channel& channel);
  void link_down(Channel& channel, const std::string& reason);
  void tell_link_lost(const SessionLink& link, const std::string& reason);
  void retire(uint64_t incarnation);
  void handle_retired(uint64_t incarnation);
  void confirm_retirement(Retirement& retirement);
  void close_incarnation(uint64_t incarnation, const std::string& reason);
  void list_up();
  void linger();
  void give_up_if_all_tried();
  void heartbeat(Channel& channel, uint64_t now_ns);
  [[nodiscard]] uint64_t tick_interval_ns() const;
  [[nodiscard]] uint64_t suspicious_ns() const;
  void heartbeats(uint64_t now_ns);
  void look_for_silence(uint64_t now_ns);
  [[nodiscard]] Channel* pick(uint64_t bytes);
  [[nodiscard]] Channel* channel_of(uint64_t incarnation) const;
  void send_over(Channel& channel, PeerRequests::Entry& entry);
  void send_first(PeerRequests::Entry& entry);
  void send_again(PeerRequests::Entry& entry);
  [[nodiscard]] uint64_t in_bytes(const SessionLink& link) const;
  [[nodiscard]] uint64_t out_bytes(const SessionLink& link) const;

  Environment env_;
  SessionOwner& owner_;
  uint32_t sample_every_ = limits::kSampleEvery;
  uint32_t since_sample_ = limits::kSampleEvery;  // the first write is sampled
  uint64_t next_sample_ns_ = 0;
  std::string peer_;
  bool stopped_ = false;
  bool started_ = false;

  std::vector<std::unique_ptr<SessionLink>> links_;    // in the order of the configuration
  std::vector<std::unique_ptr<SessionLink>> removed_;  // until their callbacks have returned
  std::vector<std::unique_ptr<Channel>> channels_;
  std::vector<std::unique_ptr<Channel>> buried_;  // closed within their own callbacks
  std::vector<Channel*> up_;                      // of the session, in the order of links_
  Channel* control_channel_ = nullptr;            // carries the control stream; null: none is up
  bool established_ = false;
  SessionId session_;
  uint64_t next_incarnation_ = 0;
  uint64_t peer_incarnation_ = 0;  // the last one that the peer gave
  PeerRequests requests_;
  ControlStream control_;
  std::vector<Retirement> retirements_;

  std::unique_ptr<Timer> dial_timer_;
  std::unique_ptr<Timer> tick_timer_;
  std::unique_ptr<Timer> resume_timer_;  // parses on after a pause
  size_t next_dial_ = 0;                 // of links_: on which a handshake is tried next
  size_t dials_ = 0;                     // that have failed since the last pause
  uint64_t dial_delay_ns_ = 0;
  uint64_t last_tick_ns_ = 0;
  uint64_t probe_ns_ = 0;           // since when somebody else says to be the peer; 0: nobody does
  uint64_t refuse_until_ns_ = 0;    // the same process of the peer is not talked to before
  metadata::Uuid peer_instance_{};  // of the last session
  bool paused_ = false;
  uint64_t resent_ns_ = 0;       // when requests of a dead link were last sent again
  uint64_t last_answer_ns_ = 0;  // to any request
  uint64_t replaced_ns_ = 0;     // when a silent connection was last replaced
  uint64_t last_control_ns_ = 0;  // a frame of the control stream
  uint64_t disk_got_on_ns_ = 0;  // the peer's disk, as its heartbeats say
  uint64_t last_heard_ns_ = 0;   // on any link
  uint64_t last_echo_ns_ = 0;
  uint64_t answered_beat_ns_ = 0;  // when the latest of those was sent that the peer has answered

  StrangerLog strangers_;
  std::string last_error_;
  std::string refusal_;       // why the last handshake came to nothing; empty when it did not
  std::string told_refusal_;  // the last one that was told as an event
  std::optional<Verdict> last_verdict_;
  std::optional<SyncFacts> peer_facts_;
  uint64_t peer_facts_at_ns_ = 0;  // when it said so
};

}  // namespace twinblock
