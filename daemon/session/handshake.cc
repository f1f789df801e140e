#include "session/handshake.h"

#include <algorithm>

#include "base/limits.h"
#include "base/units.h"
#include "session/hello.h"
#include "words/verdict_words.h"

namespace twinblock {

using wire::FrameType;

namespace {

// What to do where the peer has a key, and this node has none.
constexpr const char* kGiveKey =
    ": copy the other node's key file here, and name it in this node's file with key = \"…\"";

std::string without_port(const std::string& address) { return address.substr(0, address.rfind(':')); }

// An acceptor speaks first, unless it waits for TLS.
bool silent(const Channel& channel) {
  return channel.phase() == Channel::Phase::kAwaitChallenge && channel.connection().protection().empty();
}

}  // namespace

void Channel::refuse(const wire::RefuseFrame& refusal, const std::string& why, uint64_t now_ns) {
  const auto text = wire::text_bytes(why);
  connection_->send(wire::seal(wire::to_header(refusal), text));
  connection_->send(text);
  close_soon(now_ns);
}

Handshake::Handshake(const SessionEnvironment& env, SessionOwner& owner, SessionSteps& session,
                     const Parts& parts)
    : env_(env),
      owner_(owner),
      session_(session),
      links_(parts.links),
      joins_(parts.joins),
      newcomers_(parts.newcomers),
      dialler_(parts.dialler),
      prober_(parts.prober),
      responder_(parts.responder),
      strangers_(parts.strangers) {}

// --- connections

void Handshake::accept(Link& link, std::unique_ptr<Connection> connection) {
  if (session_.stopped()) return;
  if (links_.count_pending() >= limits::kPendingConnectionsMax) {
    Channel* const goes = least_known();
    strangers_.tell("link " + (goes != nullptr ? goes->link() : link).name() + ": " +
                        (goes != nullptr ? goes->address() : connection->peer_address()),
                    "was closed: there are too many connections beside the session's", env_.clock.now_ns());
    if (goes == nullptr) return;
    const bool refused = goes->phase() == Channel::Phase::kClosing;
    links_.discard(*goes);
    // A hello of its had taken the place of this node's own dial.
    if (refused && !session_.established()) dialler_.failed();
  }
  Channel& channel = links_.open(link, std::move(connection), false, Channel::Purpose::kHandshake);
  channel.intro().give_nonce(env_.random());
  channel.connection().send(wire::seal(wire::to_header(wire::ChallengeFrame{channel.intro().nonce()})));
}

// The peer says its hello at once, and gets in beside any number that hold connections and say nothing, or that were
// refused: of those that are least like it, the first that came goes. Null: all get on.
Channel* Handshake::least_known() const {
  for (const Channel::Phase phase : {Channel::Phase::kClosing, Channel::Phase::kAwaitHello}) {
    const auto found = links_.channels(
        [phase](const Channel& channel) { return !channel.dialled() && channel.phase() == phase; });
    if (!found.empty()) return found.front();
  }
  return nullptr;
}

void Handshake::closed(Channel& channel, const std::string& reason) {
  const std::string who = "link " + channel.link().name() + ": " + channel.address();
  if (channel.unknown()) {
    if (!session_.established())
      strangers_.tell(who, "said no hello: " + reason, env_.clock.now_ns());
    links_.discard(channel);
    return;
  }
  const bool accepted = !channel.dialled(), refused = channel.phase() == Channel::Phase::kClosing;
  const bool reached = channel.reached();
  const std::string why =
      silent(channel) ? channel.address() + " takes connections and says nothing: twinblockd may hang there, or be stopped "
                        "(look there); or its links are encrypted, and this node has no key" + kGiveKey
                      : reason;
  channel.link().set_answers(reached);
  // Who can't be reached refuses nothing any more; and of one dead link nothing follows.
  if (!links_.peer_answers()) refusal_.clear();
  links_.discard(channel);
  if (session_.established()) return;
  // Who dials here has another address each time; that a refused one goes is as it should be.
  if (accepted && !refused) strangers_.tell(who, reason, env_.clock.now_ns());
  if (!accepted && (refusal_.empty() || !reached)) session_.note_error(channel.link(), why);
  dialler_.failed();
}

void Handshake::close_stranger(Channel& channel, const std::string& why) {
  strangers_.tell("link " + channel.link().name() + ": closed: " + channel.address(), why,
                  env_.clock.now_ns());
  // Most probably it is the peer, which can't say it in any other way.
  if (channel.reader().error() == wire::kTlsHello && !session_.established())
    session_.note_error(channel.link(), without_port(channel.address()) + " " + why + kGiveKey);
  if (channel.probes() && channel.dialled())
    prober_.closed(channel, channel.address() + " " + why);
  else if (channel.unknown() || channel.probes())
    links_.discard(channel);
  else if (channel.dialled_to_join())
    joins_.closed(channel, channel.address() + " " + why);
  else
    closed(channel, channel.address() + " " + why);
}

// With another link to try, a connection that brings nothing is not waited for as long. One that gets on is: from
// its dial to its last step, several round trips may take longer than that together, over every link.
void Handshake::time_out_late(uint64_t now_ns) {
  const bool others = links_.count() > 1 || session_.established();
  const auto late = links_.channels([&](Channel& channel) {
    if (channel.up() || channel.probes() || channel.phase() == Channel::Phase::kDraining) return false;
    channel.look_for_steps(now_ns);
    if (channel.overdue(env_.lateness, now_ns)) return true;
    return others && channel.dialled() && channel.phase() != Channel::Phase::kClosing &&
           env_.lateness.passed_ns(channel.step_ns(), now_ns) > limits::kLinkPatience_ns;
  });
  for (Channel* channel : late)
    if (channel->open()) time_out(*channel);
}

void Handshake::time_out(Channel& channel) {
  const std::string why = channel.unknown()   ? "it took too long"
                          : channel.reached() ? "the handshake did not end in time"
                                              : "connect to " + channel.address() + ": no answer";
  if (channel.dialled_to_join())
    joins_.failed(channel, why, LinkJoins::Failure::kNoAnswer);
  else
    closed(channel, why);
}

void Handshake::try_now() {
  if (go_on()) return;
  if (!session_.established()) dialler_.schedule(0);
}

// Whether somebody had waited.
bool Handshake::go_on() {
  if (owner_.draining()) return false;
  const std::vector<Channel*> waiting = links_.channels(
      [](const Channel& channel) { return channel.phase() == Channel::Phase::kDraining; });
  if (waiting.empty()) return false;
  answer_hello(*waiting.front());
  return true;
}

void Handshake::session_up(const Channel& channel) {
  peer_instance_ = channel.intro().peer_instance();
  peer_has_another_size_ = false;
  refusal_.clear();
  told_refusal_.clear();
  dialler_.session_up();
}

void Handshake::session_lost(uint64_t retry_delay_ns) {
  refuse_until_ns_ = env_.clock.now_ns() + retry_delay_ns;
  dialler_.pause(std::max(retry_delay_ns, limits::kReconnectDelayMin_ns));
  dialler_.schedule_in_turn(retry_delay_ns);
}

void Handshake::let_newcomers_in() {
  for (Channel* newcomer : newcomers_.all()) {
    if (session_.stopped() || too_soon(*newcomer))
      links_.discard(*newcomer);
    else
      (void)let_in(*newcomer);
  }
}

// Somebody was not let in. Where the link is not up it may be the peer, with another key than ours.
void Handshake::refused(Link& link, const Refusal& refusal) {
  if (refusal.from_peers_address && link.up() == nullptr) return session_.note_error(link, refusal.why);
  const std::string before =
      refusal.more > 0 ? " (and " + std::to_string(refusal.more) + " more before it)" : "";
  env_.log.log(Severity::kWarning, "link " + link.name() + ": " + refusal.why + before);
}

// --- frames

bool Handshake::take(Channel& channel, wire::Frame& frame) {
  const auto type = static_cast<FrameType>(frame.header.type);
  if (channel.phase() == Channel::Phase::kClosing) return true;
  if (channel.phase() == Channel::Phase::kMeasuring)
    return channel.dialled() ? prober_.take(channel, frame) : responder_.take(channel, frame);
  if (type == FrameType::kChallenge && channel.phase() == Channel::Phase::kAwaitChallenge)
    return take_challenge(channel, wire::frame_as<wire::ChallengeFrame>(frame.header));
  if (type == FrameType::kJoin) {
    const auto join = wire::frame_as<wire::JoinFrame>(frame.header);
    if (channel.phase() == Channel::Phase::kAwaitJoin) return joins_.take(channel, join);
    if (channel.unknown())
      return !is_recorded(channel, join.challenge) && joins_.take(channel, join);
  }
  if (type == FrameType::kProbe && channel.unknown()) {
    const auto probe = wire::frame_as<wire::ProbeFrame>(frame.header);
    return !is_recorded(channel, probe.challenge) && responder_.accept(channel);
  }
  if (type == FrameType::kHello && channel.phase() == Channel::Phase::kAwaitHello)
    return take_hello(channel, wire::payload_as<wire::HelloPayload>(frame.payload));
  if (type == FrameType::kVerdict && channel.phase() == Channel::Phase::kAwaitVerdict)
    return take_verdict(channel, wire::frame_as<wire::VerdictFrame>(frame.header).verdict);
  const bool has_asked = channel.dialled() || channel.phase() == Channel::Phase::kAwaitVerdict;
  if (type == FrameType::kRefuse && has_asked) return take_refusal(channel, frame);
  close_stranger(channel, std::string("sent a ") + wire::frame_type_name(frame.header.type) +
                              " frame out of turn");
  return false;
}

// The acceptor has spoken: now we say who we are. Whether the channel is still open.
bool Handshake::take_challenge(Channel& channel, const wire::ChallengeFrame& challenge) {
  Introduction& intro = channel.intro();
  if (channel.probes()) return prober_.challenged(channel, challenge.nonce);
  intro.take_nonce(challenge.nonce);
  if (channel.dialled_to_join()) {
    joins_.may_ask(channel);
    return true;
  }
  channel.enter(Channel::Phase::kAwaitHello);
  intro.give_nonce(env_.random());
  intro.mean({intro.nonce(), intro.peer_nonce()});
  send_hello(channel);
  return true;
}

// The peer says no. Always false: the channel is closed. What says no to another hello than ours
// may be a recording, and is only written down.
bool Handshake::take_refusal(Channel& channel, const wire::Frame& frame) {
  const std::string said = env_.peer() + " refuses: " + wire::printable(frame.payload);
  const auto refusal = wire::frame_as<wire::RefuseFrame>(frame.header);
  if (channel.dialled_to_join()) {
    joins_.refused(channel, refusal, said);
    return false;
  }
  const bool ours = refusal.nonce == channel.intro().nonce() && refusal.nonce != 0;
  if (ours && !session_.established()) {
    last_verdict_.reset();
    refusal_ = said;
    tell_refusal();
  }
  session_.note_error(channel.link(), said);
  closed(channel, said);
  return false;
}

// What repeats another number than ours was said on another connection: it was recorded there, or
// comes from who can't read what we say. Then the channel is closed.
bool Handshake::is_recorded(Channel& channel, uint64_t echo) {
  if (echo == channel.intro().nonce() && echo != 0) return false;
  close_stranger(channel, "answers another connection than this one: a recording, perhaps");
  return true;
}

bool Handshake::take_hello(Channel& channel, const wire::HelloPayload& hello) {
  if (is_recorded(channel, hello.echo)) return false;
  Introduction& intro = channel.intro();
  channel.link().set_answers(true);
  intro.take_nonce(hello.nonce);
  HelloMismatch mismatch = compare_hello(hello, env_.config, env_.node, owner_.volume_bytes());
  if (!session_.established()) see_size(channel, hello, mismatch);
  if (!mismatch.for_us.empty()) {
    refuse(channel, mismatch.for_peer, mismatch.for_us);
    return false;
  }
  intro.hear(facts_of(hello, !env_.preferred()));
  metadata::Uuid instance{};
  std::copy_n(hello.instance, instance.size(), instance.begin());
  intro.meet(instance, (hello.flags & wire::kHelloFastZero) != 0);
  if (channel.dialled()) {
    hear(channel);
    channel.enter(Channel::Phase::kAwaitVerdict);
    return true;
  }
  intro.mean({intro.peer_nonce(), intro.nonce()});
  if (too_soon(channel)) {
    links_.discard(channel);
    return false;
  }
  if (!session_.established()) return let_in(channel);
  newcomers_.wait(channel);
  return channel.open();
}

// A volume grows, and one of two that hold it may not know it yet: it has to hear the other's size, from whoever
// dials. What else it says of itself counts, too: it may be primary.
void Handshake::see_size(Channel& channel, const wire::HelloPayload& hello, HelloMismatch& mismatch) {
  const uint64_t mine = owner_.volume_bytes();
  peer_has_another_size_ = hello.size_bytes != mine && same_volume(hello) &&
                           compare_hello(hello, env_.config, env_.node, hello.size_bytes).for_us.empty();
  if (!peer_has_another_size_) return;
  channel.intro().hear(facts_of(hello, !env_.preferred()));
  hear(channel);
  if (hello.size_bytes > mine) {
    mismatch.for_us = mismatch.for_peer = owner_.peer_is_larger(hello.size_bytes);
    return;
  }
  mismatch.for_us = mismatch.for_peer = "the volume has grown to " + format_size(mine) + " on " + env_.node + ", and has " +
                                        format_size(hello.size_bytes) + " on " + env_.peer() + ", which is to grow, too";
  if (!channel.dialled()) send_hello(channel);
}

// A replica of the volume that this node holds one of; and not what shares its name only.
bool Handshake::same_volume(const wire::HelloPayload& hello) const {
  const SyncFacts mine = owner_.facts();
  const SyncFacts theirs = facts_of(hello, !env_.preferred());
  return !mine.blank && !theirs.blank && mine.volume_uuid == theirs.volume_uuid;
}

void Handshake::hear(const Channel& channel) {
  peer_facts_ = channel.intro().heard();
  peer_facts_at_ns_ = env_.clock.now_ns();
}

// The peer may dial sooner than this node means to talk to it; a new process may have mended it.
bool Handshake::too_soon(const Channel& channel) const {
  return env_.clock.now_ns() < refuse_until_ns_ && channel.intro().peer_instance() == peer_instance_;
}

// Whether the channel is still open.
bool Handshake::let_in(Channel& channel) {
  if (!resolve_collision(channel)) return false;
  hear(channel);
  channel.enter(Channel::Phase::kDraining);
  if (!owner_.draining()) answer_hello(channel);
  return channel.open();
}

// Both nodes dialled at the same time: the preferred node's connection is the one that stays, once
// it is connected. Whether `channel`, which was accepted and has brought a good hello, may go on.
bool Handshake::resolve_collision(Channel& channel) {
  const std::vector<Channel*> others = links_.channels([&](const Channel& other) {
    return &other != &channel && !other.up() && other.shakes_hands();
  });
  for (Channel* other : others) {
    if (other->dialled() && env_.preferred() && other->phase() != Channel::Phase::kConnecting) {
      links_.discard(channel);
      return false;
    }
    links_.discard(*other);
  }
  return true;
}

void Handshake::send_hello(Channel& channel) {
  channel.intro().say(owner_.facts(), owner_.volume_bytes());
  owner_.facts_told();
  wire::HelloPayload hello = make_hello(env_.config, env_.node, channel.link().name(),
                                        env_.instance, channel.intro().said(),
                                        channel.intro().said_bytes(), owner_.fast_zero());
  hello.nonce = channel.intro().nonce();
  hello.echo = channel.intro().peer_nonce();
  const auto payload = wire::bytes_of(hello);
  channel.connection().send(wire::seal(wire::to_header(wire::HelloFrame{}), payload));
  channel.connection().send(payload);
}

void Handshake::send_verdict(Channel& channel, Verdict verdict) {
  channel.connection().send(wire::seal(wire::to_header(wire::VerdictFrame{verdict})));
}

void Handshake::answer_hello(Channel& channel) {
  send_hello(channel);
  channel.intro().judge();
  send_verdict(channel, channel.intro().verdict());
  channel.enter(Channel::Phase::kAwaitVerdict);
}

bool Handshake::take_verdict(Channel& channel, Verdict theirs) {
  Introduction& intro = channel.intro();
  if (channel.dialled()) intro.judge();
  const Verdict verdict = intro.verdict();
  if (theirs != mirrored(verdict)) {
    refuse(channel, "the two nodes disagree on who is newer; this is a bug in twinblock",
           "the two nodes disagree on who is newer (" + explain(verdict, env_.peer()) +
               "); this is a bug in twinblock");
    return false;
  }
  if (owner_.draining() || !same_facts(intro.said(), owner_.facts()) || intro.said_bytes() != owner_.volume_bytes()) {
    // Not an error: something happened, or has begun, here meanwhile. Say nothing and begin anew.
    links_.discard(channel);
    dialler_.schedule(limits::kReconnectDelayMin_ns);
    return false;
  }
  if (channel.dialled()) send_verdict(channel, verdict);
  last_verdict_ = verdict;
  if (!is_usable(verdict)) {
    not_usable(channel, verdict);
    return false;
  }
  session_.establish(channel, verdict);
  return channel.open();
}

// --- refusals

// The peer has to be told why, or it would dial without end: the connection closes when the peer
// has read it, or soon after.
void Handshake::refuse(Channel& channel, const std::string& to_peer, const std::string& for_us) {
  channel.refuse({.nonce = channel.intro().peer_nonce()}, to_peer, env_.clock.now_ns());
  // Whoever dials may say anything, and another thing each time. Where something is known of the
  // peer already, only what this node hears when it dials itself changes that.
  const bool known = session_.established() || last_verdict_ || !refusal_.empty();
  if (known && !channel.dialled()) {
    strangers_.tell("link " + channel.link().name() + ": refused " + channel.address() + ":",
                    for_us, env_.clock.now_ns());
    return;
  }
  last_verdict_.reset();
  // Without its port, which is another one each time: what stays the same is told once.
  refusal_ = "refused " + env_.peer() + " (" + channel.link().addresses().peer + "): " + for_us;
  tell_refusal();
  session_.note_error(channel.link(), refusal_);
}

void Handshake::not_usable(Channel& channel, Verdict verdict) {
  const SyncFacts &mine = channel.intro().said(), &theirs = channel.intro().heard();
  refusal_ = explain(verdict, mine, theirs, env_.peer());
  tell_refusal();
  const std::string advice = advise(verdict, mine, theirs, env_.config.volume, env_.peer());
  session_.note_error(channel.link(), refusal_ + (advice.empty() ? "" : "; " + advice));
  dialler_.pause(limits::kReconnectDelayMax_ns);
  if (channel.dialled()) {
    // Our verdict has to reach the peer before the connection goes.
    channel.close_soon(env_.clock.now_ns());
  } else {
    links_.discard(channel);
  }
  dialler_.schedule(limits::kReconnectDelayMax_ns);
}

void Handshake::promoted() {
  if (!last_verdict_ || !is_overtaken(*last_verdict_)) return;
  last_verdict_.reset();
  refusal_.clear();
  told_refusal_.clear();
}

// Once for each reason, and not at every attempt.
void Handshake::tell_refusal() {
  if (refusal_ == told_refusal_ || last_verdict_ == Verdict::kWaitForInit) return;
  told_refusal_ = refusal_;
  const bool split_brain = last_verdict_ && is_split_brain(*last_verdict_);
  env_.events.tell(split_brain ? "split-brain" : "refused",
                   {{"peer", env_.peer()}, {"reason", refusal_}});
}

}  // namespace twinblock
