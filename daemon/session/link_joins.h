// How further links join a session, on both sides; and how one without any link gets one back.
// Owned by the session; loop thread only.
#pragma once

#include <cstdint>
#include <string>

#include "session/heartbeats.h"
#include "session/links.h"
#include "wire/frames.h"

namespace twinblock {

class LinkJoins {
 public:
  using Failure = JoinFailure;

  LinkJoins(const SessionEnvironment& env, Links& links, const Heartbeats& heartbeats,
            SessionSteps& session);

  // Once for each link, before anything else.
  void prepare(Link& link);
  // A session has begun.
  void session_up();
  // … and stands: all other links join it, and those connections that came too early.
  void join_others();

  void schedule(Link& link, uint64_t delay_ns);
  // Both nodes do: the preferred one `delay_ns` from now, the other one later.
  void schedule_in_turn(Link& link, uint64_t delay_ns = 0);
  // All links have fallen silent: each is dialled anew.
  void replace_silent();
  // Each link gets a new connection, one link after the other, in this session or the next: one that is dialled
  // now has the key of now. The old one goes when the new one stands, and stays when a peer that is there does not take it.
  void renew_all();
  // The next one of these, if none is under way: at each tick, as a link may not have been up or heard, or been
  // dialled for another reason.
  void renew_next();
  // The peer has ended the link's connection: why. Where it has been asked to take a new one in its place, that
  // may be under way.
  [[nodiscard]] LinkEnd ended_by_peer(const Link& link) const;
  // The session stands without any link. It ends if none can be had: at once if all refuse, else
  // when the peer timeout has passed. `at_once`: somebody waits for the answer.
  void linger(bool at_once);

  // A connection that was dialled to join may speak. Where the one that it is to replace is still
  // there, that is given a moment: after a stand-still of the peer both work at the same time.
  void may_ask(Channel& channel);
  // A join frame has come over one that asked, or over an accepted one, which asks. Whether the
  // channel is still open.
  bool take(Channel& channel, const wire::JoinFrame& join);
  // A connection that was dialled to join has come to nothing; it is closed.
  void refused(Channel& channel, const wire::RefuseFrame& refusal, const std::string& said);
  void closed(Channel& channel, const std::string& reason);
  void failed(Channel& channel, const std::string& reason, Failure failure);
  // The peer has closed a connection that it has, and this side does not.
  void withdrawn(uint64_t incarnation, const std::string& reason);

  // When a connection was last replaced that one of the two nodes held for dead; 0: not in this session.
  [[nodiscard]] uint64_t replaced_ns() const { return replaced_ns_; }

 private:
  void join(Link& link);
  void ask(Channel& channel);
  [[nodiscard]] bool is_heard(const Link& link) const;
  [[nodiscard]] bool works(const Link& link) const;
  [[nodiscard]] bool speaks(const Link& link) const;
  [[nodiscard]] bool lives(const Channel& channel) const;
  bool accept(Channel& channel, bool renews);
  bool refuse(Channel& channel, const std::string& why, int code = 0);
  void replace(Link& link, LinkEnd end, const std::string& why);
  [[nodiscard]] std::vector<Channel*> attempts(const Link& link) const;
  void give_up_if_all_tried();

  const SessionEnvironment& env_;
  Links& links_;
  const Heartbeats& heartbeats_;
  SessionSteps& session_;
  uint64_t next_incarnation_ = 0;
  uint64_t peer_incarnation_ = 0;  // the last one that the peer gave
  uint64_t replaced_ns_ = 0;
};

}  // namespace twinblock
