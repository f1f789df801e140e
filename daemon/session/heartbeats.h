// Heartbeats over each connection of the session, and what they tell: that the peer lives, that it
// hears this node, and whether its disk gets on. Owned by the session; loop thread only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "session/control_stream.h"
#include "session/links.h"

namespace twinblock {

class Heartbeats {
 public:
  Heartbeats(const SessionEnvironment& env, SessionOwner& owner, Links& links,
             ControlStream& control);

  [[nodiscard]] uint64_t interval_ns() const;
  // A connection that is silent for longer gets no more while another one is better.
  [[nodiscard]] uint64_t suspicious_ns() const;

  // A session begins: both directions have just worked.
  void session_up();
  // `channel` has become part of it.
  void channel_up(Channel& channel);
  // Something has come over `channel`.
  void heard(Channel& channel);
  // The peer is known to have heard this node at `moment_ns`, over `channel` (null: over any).
  // `waited_ns`: for how long, at most, the peer itself has been there since.
  void heard_by_peer(Channel* channel, uint64_t moment_ns, uint64_t waited_ns = ~uint64_t{0});

  // One heartbeat, now.
  void send(Channel& channel, uint64_t now_ns);
  // Each interval, over all connections.
  void send_all(uint64_t now_ns);
  // One has come. False: the peer says that it has received more than it was sent.
  bool take(Channel& channel, const wire::Frame& frame);

  // Whether the link may be given up, if another one lives. A peer that is late itself makes its links
  // wait, but no client for longer than the peer timeout.
  [[nodiscard]] bool is_gone(const Channel& channel, uint64_t now_ns) const;

  // When the latest of those was sent that the peer has answered, and when the peer was last heard; 0: never.
  [[nodiscard]] uint64_t answered_beat_ns() const { return answered_beat_ns_; }
  [[nodiscard]] uint64_t last_heard_ns() const { return last_heard_ns_; }
  // For how long nothing has come over any connection, while this node was there.
  [[nodiscard]] uint64_t silent_ns(uint64_t now_ns) const;
  // The same of one of them, in time in which the peer was there: it has been heard over another one
  // since. A peer that stands still is silent on all, and each of its moments without a word counts
  // as one interval and a little at the most. Nor does it count that the peer had not read yet what this
  // node sent over any of them, nor that what it says of that lies behind other frames, which come.
  [[nodiscard]] uint64_t missing_ns(const Channel& channel, uint64_t now_ns) const;
  // Why the session counts as lost, when it does.
  [[nodiscard]] std::optional<std::string> silence(uint64_t now_ns) const;
  // When the peer's disk last got on, as its heartbeats say.
  [[nodiscard]] uint64_t disk_got_on_ns() const { return disk_got_on_ns_; }
  // For how long it had something to do and did not get on, when the peer was last heard; else 0.
  [[nodiscard]] uint64_t disk_still_ns() const { return disk_still_ns_; }
  // The peer is primary, and its own disk stands still: for how long a request of its own has waited, when it was last
  // heard; else 0.
  [[nodiscard]] uint64_t peer_stalled_ns() const { return peer_stalled_ns_; }

 private:
  // What a node that is there may let pass from one of its heartbeats to the next.
  [[nodiscard]] uint64_t one_beat_ns() const;
  void tell_patience(const Link& link, uint64_t now_ns);

  const SessionEnvironment& env_;
  SessionOwner& owner_;
  Links& links_;
  ControlStream& control_;
  uint64_t last_heard_ns_ = 0;  // on any link
  uint64_t last_echo_ns_ = 0;
  uint64_t last_beat_ns_ = 0;  // when the latest heartbeat came, over any link
  uint64_t presence_ns_ = 0;  // of the peer, in all
  uint64_t answered_beat_ns_ = 0;
  uint64_t disk_got_on_ns_ = 0;
  uint64_t disk_still_ns_ = 0;
  uint64_t peer_stalled_ns_ = 0;
};

}  // namespace twinblock
