// The handshake: from a connection to a session, or to a refusal that both sides can read.
//
// D dialling and A accepting, on one link:
//   1. A -> D  challenge: a number that A has never used before
//   2. D -> A  hello: D's facts, a number of D's, and A's again
//   3. A       checks that it is an answer to its own challenge, and volume, size, nodes; keeps the
//              session that stands, if there is one and it answers (newcomers.h); lets disk work of
//              an older one finish, so that nothing of it can land later (invariant 5); decides
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
// Owned by the session; loop thread only.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "session/dialler.h"
#include "session/hello.h"
#include "session/link_joins.h"
#include "session/newcomers.h"
#include "session/probe_responder.h"
#include "session/prober.h"
#include "session/stranger_log.h"

namespace twinblock {

class Handshake {
 public:
  struct Parts {
    Links& links;
    LinkJoins& joins;
    Newcomers& newcomers;
    Dialler& dialler;
    Prober& prober;
    ProbeResponder& responder;
    StrangerLog& strangers;
  };
  Handshake(const SessionEnvironment& env, SessionOwner& owner, SessionSteps& session,
            const Parts& parts);

  void accept(Link& link, std::unique_ptr<Connection> connection);
  // Somebody was not let in so far.
  void refused(Link& link, const Refusal& refusal);
  // A frame has come over a connection that is not part of the session. Whether it is still open.
  bool take(Channel& channel, wire::Frame& frame);
  // Closes a connection that is not part of the session, and says why in the log.
  void close_stranger(Channel& channel, const std::string& why);
  // Such a connection, which wanted to begin a session, has ended.
  void closed(Channel& channel, const std::string& reason);
  // Those that do not come to an end are ended; often.
  void time_out_late(uint64_t now_ns);
  // Something changed that may make one succeed, or disk work of an earlier session may have ended: whoever
  // waited for that goes on, or one is begun.
  void try_now();

  // The session begins with this connection.
  void session_up(const Channel& channel);
  // It is lost: newcomers who waited for that go on; the peer's process that had it is not talked
  // to before `retry_delay_ns` are over.
  void session_lost(uint64_t retry_delay_ns);
  void let_newcomers_in();
  // This node becomes primary without a session: what the peer was told to a primary of before, which it had overtaken,
  // is not said of this one.
  void promoted();

  // Why the last one came to nothing; empty when it did not.
  [[nodiscard]] const std::string& refusal() const { return refusal_; }
  [[nodiscard]] std::optional<Verdict> last_verdict() const { return last_verdict_; }
  // What the peer last said of itself, whether a session came of it or not, and when.
  [[nodiscard]] const std::optional<SyncFacts>& peer_facts() const { return peer_facts_; }
  [[nodiscard]] uint64_t peer_facts_at_ns() const { return peer_facts_at_ns_; }
  // When it last said so it named another size of the same volume: until one of the two has grown there is no session.
  [[nodiscard]] bool peer_has_another_size() const { return peer_has_another_size_; }

 private:
  [[nodiscard]] Channel* least_known() const;
  bool take_challenge(Channel& channel, const wire::ChallengeFrame& challenge);
  bool take_refusal(Channel& channel, const wire::Frame& frame);
  bool take_hello(Channel& channel, const wire::HelloPayload& hello);
  bool take_verdict(Channel& channel, Verdict theirs);
  [[nodiscard]] bool is_recorded(Channel& channel, uint64_t echo);
  [[nodiscard]] bool too_soon(const Channel& channel) const;
  [[nodiscard]] bool same_volume(const wire::HelloPayload& hello) const;
  void see_size(Channel& channel, const wire::HelloPayload& hello, HelloMismatch& mismatch);
  void hear(const Channel& channel);
  void time_out(Channel& channel);
  bool go_on();
  bool let_in(Channel& channel);
  bool resolve_collision(Channel& channel);
  void send_hello(Channel& channel);
  void send_verdict(Channel& channel, Verdict verdict);
  void answer_hello(Channel& channel);
  void refuse(Channel& channel, const std::string& to_peer, const std::string& for_us);
  void not_usable(Channel& channel, Verdict verdict);
  void tell_refusal();

  const SessionEnvironment& env_;
  SessionOwner& owner_;
  SessionSteps& session_;
  Links& links_;
  LinkJoins& joins_;
  Newcomers& newcomers_;
  Dialler& dialler_;
  Prober& prober_;
  ProbeResponder& responder_;
  StrangerLog& strangers_;
  uint64_t refuse_until_ns_ = 0;    // the same process of the peer is not talked to before
  metadata::Uuid peer_instance_{};  // of the last session
  std::string refusal_;
  std::string told_refusal_;  // the last one that was told as an event
  std::optional<Verdict> last_verdict_;
  std::optional<SyncFacts> peer_facts_;
  uint64_t peer_facts_at_ns_ = 0;
  bool peer_has_another_size_ = false;
};

}  // namespace twinblock
