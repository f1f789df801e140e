// One connection of a link and its reader, before and after its handshake. Private to the session;
// loop thread only.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "base/checks.h"
#include "base/limits.h"
#include "io/connection.h"
#include "session/channel_phase.h"
#include "session/environment.h"
#include "session/introduction.h"
#include "session/signs_of_life.h"
#include "session/trip_sample.h"
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

// After close() it is only a name for logs, until it is deleted.
class Channel final : public ConnectionHandler {
 public:
  using Phase = ChannelPhase;
  // Of a dialled one.
  enum class Purpose {
    kHandshake,
    kJoin,
    kRenewal,  // joins, and takes the place of a connection that works
    kProbe,
  };

  Channel(ChannelOwner& owner, Link& link, std::unique_ptr<Connection> stream, bool dialled, Purpose purpose,
          uint64_t now_ns, ChannelSteps& steps)
      : owner_(owner),
        link_(link),
        dialled_(dialled),
        purpose_(purpose),
        address_(stream->peer_address()),
        connection_(std::move(stream)),
        phase_(dialled ? Phase::kConnecting : Phase::kAwaitHello),
        opened_ns_(now_ns),
        step_ns_(now_ns),
        steps_(steps) {
    connection_->set_handler(this);
  }

  void connected() override { enter(Phase::kAwaitChallenge); }
  void readable() override { owner_.channel_readable(*this); }
  void closed(const std::string& reason) override { owner_.channel_closed(*this, reason); }
  void sampled(const SendMoments& moments) override { owner_.channel_sampled(*this, moments); }

  // --- how far it has come
  [[nodiscard]] Phase phase() const { return phase_; }
  // Into what may follow, and is for this side.
  void enter(Phase to) {
    TB_CHECK(may_follow(phase_, to), "the table of a connection's phases has this step");
    TB_CHECK(dialled_ ? rules_of(to).dialled : rules_of(to).accepted,
             "who dialled goes another way than who accepted");
    steps_.took(phase_, to);
    phase_ = to;
  }
  // It belongs to a session, or asks to: as the connection that one of the two nodes has given this number;
  // the one that began the session has 0.
  void join(const SessionId& session, uint64_t incarnation) {
    intro_.mean(session);
    incarnation_ = incarnation;
  }
  // Says no to the peer's hello or join, and goes on for a moment, so that it can read why.
  void refuse(const wire::RefuseFrame& refusal, const std::string& why, uint64_t now_ns);
  void close_soon(uint64_t now_ns) {
    enter(Phase::kClosing);
    closing_ns_ = now_ns;
  }
  void close() {
    enter(Phase::kClosed);
    connection_.reset();
  }
  // Before it is up, at each tick: whoever takes the next step of what leads there answers, however far away.
  void look_for_steps(uint64_t now_ns) {
    const std::pair step{phase_, reached()};
    if (std::exchange(seen_, step) != step) step_ns_ = now_ns;
  }

  // --- what it is
  [[nodiscard]] Link& link() const { return link_; }
  [[nodiscard]] const std::string& address() const { return address_; }
  [[nodiscard]] bool dialled() const { return dialled_; }
  [[nodiscard]] bool open() const { return phase_ != Phase::kClosed; }
  [[nodiscard]] bool up() const { return phase_ == Phase::kUp; }
  // Of a probe, on either side.
  [[nodiscard]] bool probes() const {
    return phase_ == Phase::kMeasuring || (dialled_ && purpose_ == Purpose::kProbe);
  }
  // Begins, or has begun, a session; and is not only one that wants to join.
  [[nodiscard]] bool shakes_hands() const {
    return dialled_ ? purpose_ == Purpose::kHandshake : rules_of(phase_).begins;
  }
  // Dialled to join a session, whether it has joined by now or not.
  [[nodiscard]] bool dialled_to_join() const {
    return dialled_ && (purpose_ == Purpose::kJoin || renews());
  }
  // … to take the place of a connection that works.
  [[nodiscard]] bool renews() const { return purpose_ == Purpose::kRenewal; }
  // Accepted, and has not said yet who it is.
  [[nodiscard]] bool unknown() const { return !dialled_ && phase_ == Phase::kAwaitHello; }
  // The peer's host has taken the connection; whether the peer speaks is another matter.
  [[nodiscard]] bool reached() const { return phase_ != Phase::kConnecting || connection_->reached(); }
  [[nodiscard]] uint64_t incarnation() const { return incarnation_; }
  [[nodiscard]] uint64_t opened_ns() const { return opened_ns_; }
  // Whether it has had its time, before it is up: for the handshake, or, where it goes soon, for the peer to read why.
  // (Counted from when it began, and not back from the end of a handshake's time: the clock may be younger than that.)
  [[nodiscard]] bool overdue(const OwnLateness& own, uint64_t now_ns) const {
    return phase_ == Phase::kClosing ? own.passed_ns(closing_ns_, now_ns) > limits::kFarewell_ns
                                     : own.passed_ns(opened_ns_, now_ns) > limits::kHandshakeTimeout_ns;
  }
  // When it was last seen to have got on, before it is up.
  [[nodiscard]] uint64_t step_ns() const { return step_ns_; }
  [[nodiscard]] uint64_t unsent_bytes() const {
    return connection_->queued_bytes_total() - connection_->sent_bytes_total();
  }
  // How long nothing has come, or the peer has not been known to hear this node, while this node was
  // there.
  [[nodiscard]] uint64_t silent_ns(const OwnLateness& own, uint64_t now_ns) const {
    return own.passed_ns(std::min(life_.last_heard_ns(), life_.last_echo_ns()), now_ns);
  }

  // --- its parts, each with a state of its own; the stream while it is open
  [[nodiscard]] Connection& connection() { return *connection_; }
  [[nodiscard]] const Connection& connection() const { return *connection_; }
  [[nodiscard]] wire::FrameReader& reader() { return reader_; }
  [[nodiscard]] Introduction& intro() { return intro_; }
  [[nodiscard]] const Introduction& intro() const { return intro_; }
  [[nodiscard]] SignsOfLife& life() { return life_; }
  [[nodiscard]] const SignsOfLife& life() const { return life_; }
  [[nodiscard]] TripSamples& samples() { return samples_; }

 private:
  ChannelOwner& owner_;
  Link& link_;
  const bool dialled_;
  const Purpose purpose_;
  const std::string address_;
  std::unique_ptr<Connection> connection_;
  Phase phase_;
  const uint64_t opened_ns_;
  uint64_t closing_ns_ = 0;  // from when on it goes soon
  uint64_t step_ns_;
  std::pair<Phase, bool> seen_{Phase::kConnecting, false};  // by look_for_steps()
  uint64_t incarnation_ = 0;  // unique in the session; of the connection that began it: 0
  wire::FrameReader reader_;
  Introduction intro_;
  SignsOfLife life_;     // once up
  TripSamples samples_;  // once up
  ChannelSteps& steps_;  // that channels took
};

}  // namespace twinblock
