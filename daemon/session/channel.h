// One connection of a link and its reader, before and after its handshake. Private to the session;
// loop thread only.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/limits.h"
#include "io/connection.h"
#include "mirror/generation.h"
#include "session/environment.h"
#include "session/trip_sample.h"
#include "telemetry/arrival_estimate.h"
#include "wire/frame_reader.h"
#include "wire/frames.h"

namespace twinblock {

class ChannelOwner {
 public:
  virtual void channel_readable(Channel& channel) = 0;
  // Its stream has ended; it is still open.
  virtual void channel_closed(Channel& channel, const std::string& reason) = 0;
  virtual void channel_sampled(Channel& channel, const SendMoments& moments) = 0;

 protected:
  ~ChannelOwner() = default;
};

// What both sides have said of themselves in the handshake.
struct Introduction {
  SyncFacts said;   // what we said in our hello …
  uint64_t said_bytes = 0;  // … and how large the volume is
  SyncFacts heard;  // what the peer said
  bool peer_fast_zero = false;
  metadata::Uuid peer_instance{};
  Verdict verdict = Verdict::kWaitForInit;
  uint64_t nonce = 0;       // ours: of an accepted one the challenge
  uint64_t peer_nonce = 0;  // once it is known
  SessionId session_id;     // … of the session that it begins or joins
};

// What shows that a connection which is up works.
struct SignsOfLife {
  uint64_t last_heard_ns = 0;    // any bytes from the peer
  uint64_t last_echo_ns = 0;     // when the peer is known to have heard this node for the last time
  // The same two, in time in which the peer was there (Heartbeats::missing_ns), and when it last said
  // here what it had heard.
  uint64_t heard_presence_ns = 0;
  uint64_t echo_presence_ns = 0;
  uint64_t told_presence_ns = 0;
  uint64_t peer_tick = 0;        // the peer's clock in its last heartbeat …
  uint64_t peer_tick_at_ns = 0;  // … and when it came
  uint64_t sent_at_tick_bytes = 0;
  uint64_t queued_at_tick_bytes = 0;
  std::optional<uint64_t> round_trip_ns;  // the latest
  ArrivalEstimate answers;
};

// After close() it is only a name for logs, until it is deleted.
class Channel final : public ConnectionHandler {
 public:
  enum class Phase {
    kConnecting,      // dialled, not connected yet
    kAwaitChallenge,  // dialled and connected; the acceptor speaks first
    kReplacing,       // … and has spoken; the connection that this one replaces may yet be heard
    kAwaitJoin,       // dialled to join the session; the peer's consent is to come
    kParked,          // accepted, and wants to join a session that is about to stand here
    kAwaitHello,      // the peer's hello is to come (a dialler has sent its own)
    kMeasuring,       // probes a link, and will never be part of a session
    kProbing,         // accepted, hello is good; does the session that stands still answer?
    kDraining,        // accepted, hello is good; an earlier session's disk work ends first
    kAwaitVerdict,    // hellos are exchanged
    kClosing,         // refused: only what we have said has still to reach the peer
    kUp,
    kClosed,
  };

  enum class Purpose { kHandshake, kJoin, kProbe };  // of a dialled one

  Channel(ChannelOwner& owner, Link& link_, std::unique_ptr<Connection> stream, bool dialled,
          Purpose purpose_, uint64_t now_ns)
      : dialled_(dialled),
        purpose(purpose_),
        link(link_),
        phase(dialled ? Phase::kConnecting : Phase::kAwaitHello),
        opened_ns(now_ns),
        step_ns(now_ns),
        address(stream->peer_address()),
        connection(std::move(stream)),
        owner_(owner) {
    connection->set_handler(this);
  }

  void connected() override { phase = Phase::kAwaitChallenge; }
  void readable() override { owner_.channel_readable(*this); }
  void closed(const std::string& reason) override { owner_.channel_closed(*this, reason); }
  void sampled(const SendMoments& moments) override { owner_.channel_sampled(*this, moments); }

  // Says no to the peer's hello or join, and goes on for a moment, so that it can read why.
  void refuse(const wire::RefuseFrame& refusal, const std::string& why, uint64_t now_ns);
  void close_soon(uint64_t now_ns) {
    phase = Phase::kClosing;
    opened_ns = now_ns - limits::kHandshakeTimeout_ns + limits::kFarewell_ns;
  }
  void close() {
    phase = Phase::kClosed;
    connection.reset();
  }
  // Of a probe, on either side.
  [[nodiscard]] bool probes() const {
    return phase == Phase::kMeasuring || (dialled_ && purpose == Purpose::kProbe);
  }
  [[nodiscard]] bool open() const { return phase != Phase::kClosed; }
  [[nodiscard]] bool up() const { return phase == Phase::kUp; }
  [[nodiscard]] bool dialled() const { return dialled_; }
  // Begins, or has begun, a session; and is not only one that wants to join.
  [[nodiscard]] bool shakes_hands() const {
    if (phase == Phase::kParked || phase == Phase::kAwaitJoin) return false;
    return dialled_ ? purpose == Purpose::kHandshake : phase >= Phase::kDraining;
  }
  // Dialled to join a session, whether it has joined by now or not.
  [[nodiscard]] bool dialled_to_join() const { return dialled_ && purpose == Purpose::kJoin; }
  // Accepted, and has not said yet who it is.
  [[nodiscard]] bool unknown() const { return !dialled_ && phase == Phase::kAwaitHello; }
  // The peer's host has taken the connection; whether the peer speaks is another matter.
  [[nodiscard]] bool reached() const {
    return phase != Phase::kConnecting || connection->reached();
  }
  // Before it is up, at each tick: whoever takes the next step of what leads there answers, however far away.
  void look_for_steps(uint64_t now_ns) {
    const std::pair step{phase, reached()};
    if (std::exchange(seen_, step) != step) step_ns = now_ns;
  }
  [[nodiscard]] uint64_t unsent_bytes() const {
    return connection->queued_bytes_total() - connection->sent_bytes_total();
  }
  // How long nothing has come, or the peer has not been known to hear this node, while this node was
  // there.
  [[nodiscard]] uint64_t silent_ns(const OwnLateness& own, uint64_t now_ns) const {
    return own.passed_ns(std::min(life.last_heard_ns, life.last_echo_ns), now_ns);
  }

 private:
  const bool dialled_;

 public:
  const Purpose purpose;
  Link& link;
  Phase phase;
  uint64_t opened_ns;
  uint64_t step_ns;          // when it was last seen to have got on, before it is up
  bool renews = false;       // dialled to take the place of a connection that works
  uint64_t incarnation = 0;  // unique in the session; of the connection that began it: 0
  std::string address;
  std::unique_ptr<Connection> connection;
  wire::FrameReader reader;
  Introduction intro;
  SignsOfLife life;     // once up
  TripSamples samples;  // once up

 private:
  std::pair<Phase, bool> seen_{Phase::kConnecting, false};  // by look_for_steps()
  ChannelOwner& owner_;
};

}  // namespace twinblock
