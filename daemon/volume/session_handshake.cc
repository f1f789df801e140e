// The handshake (session.h draws it): from a connection to a session, or to a refusal that both
// sides can read.
#include <algorithm>
#include <cerrno>
#include <vector>

#include "base/checks.h"
#include "base/limits.h"
#include "volume/hello.h"
#include "volume/session_channel.h"

namespace twinblock {

using wire::FrameType;

void Session::schedule_dial(uint64_t delay_ns) {
  if (!stopped_) dial_timer_->arm(delay_ns);
}

// One link after the other: the first one that leads to a session is joined by the rest.
void Session::dial() {
  if (stopped_ || established_) return;
  const bool busy = std::any_of(channels_.begin(), channels_.end(),
                                [](const auto& channel) { return channel->shakes_hands(); });
  if (busy) return;
  if (owner_.draining()) {
    schedule_dial(limits::kReconnectDelayMin_ns);
    return;
  }
  for (size_t looked = 0; looked < links_.size(); ++looked) {
    SessionLink& link = *links_[next_dial_ % links_.size()];
    next_dial_ = (next_dial_ + 1) % links_.size();
    if (!link.enabled) continue;
    channels_.push_back(std::make_unique<Channel>(*this, link, env_.network.dial(link.addresses),
                                                  true, Channel::Purpose::kHandshake,
                                                  env_.clock.now_ns()));
    return;
  }
}

bool Session::handle_handshake(Channel& channel, wire::Frame& frame) {
  const auto type = static_cast<FrameType>(frame.header.type);
  if (channel.phase == Channel::Phase::kClosing) return true;
  if (type == FrameType::kChallenge && channel.phase == Channel::Phase::kAwaitChallenge)
    return handle_challenge(channel, wire::frame_as<wire::ChallengeFrame>(frame.header));
  if (type == FrameType::kJoin) {
    const bool answer = channel.phase == Channel::Phase::kAwaitJoin;
    const bool question = channel.phase == Channel::Phase::kAwaitHello && !channel.dialled();
    if (answer || question)
      return handle_join(channel, wire::frame_as<wire::JoinFrame>(frame.header));
  }
  if (type == FrameType::kHello && channel.phase == Channel::Phase::kAwaitHello)
    return handle_hello(channel, wire::payload_as<wire::HelloPayload>(frame.payload));
  if (type == FrameType::kVerdict && channel.phase == Channel::Phase::kAwaitVerdict)
    return handle_verdict(channel, wire::frame_as<wire::VerdictFrame>(frame.header).verdict);
  const bool has_asked = channel.dialled() || channel.phase == Channel::Phase::kAwaitVerdict;
  if (type == FrameType::kRefuse && has_asked) return handle_refusal(channel, frame);
  close_stranger(channel, std::string("sent a ") + wire::frame_type_name(frame.header.type) +
                              " frame out of turn");
  return false;
}

// The acceptor has spoken: now we say who we are. Whether the channel is still open.
bool Session::handle_challenge(Channel& channel, const wire::ChallengeFrame& challenge) {
  channel.peer_nonce = challenge.nonce;
  if (channel.purpose == Channel::Purpose::kJoin) {
    ask_to_join(channel);
    return true;
  }
  channel.phase = Channel::Phase::kAwaitHello;
  channel.nonce = env_.random();
  channel.session_id = {channel.nonce, channel.peer_nonce};
  send_hello(channel);
  return true;
}

// The peer says no. Always false: the channel is closed. What says no to another hello or join than
// ours may be a recording, and is only written down.
bool Session::handle_refusal(Channel& channel, const wire::Frame& frame) {
  const std::string said = peer_ + " refuses: " + wire::printable(frame.payload);
  const auto refusal = wire::frame_as<wire::RefuseFrame>(frame.header);
  if (channel.purpose == Channel::Purpose::kJoin) {
    const bool ours = channel.phase == Channel::Phase::kAwaitJoin &&
                      refusal.incarnation == channel.incarnation &&
                      SessionId{refusal.dialler, refusal.acceptor} == channel.session_id;
    const JoinFailure failure = !ours                     ? JoinFailure::kNoAnswer
                                : refusal.error == ESTALE ? JoinFailure::kNoSession
                                : refusal.error == EAGAIN ? JoinFailure::kLater
                                                          : JoinFailure::kRefused;
    join_failed(channel, said, failure);
    return false;
  }
  const bool ours = refusal.nonce == channel.nonce && refusal.nonce != 0;
  if (ours && !established_) {
    last_verdict_.reset();
    refusal_ = said;
    tell_refusal();
  }
  note_error(channel.link, said);
  channel_closed(channel, said);
  return false;
}

// What repeats another number than ours was said on another connection: it was recorded there, or
// comes from who can't read what we say. Then the channel is closed.
bool Session::is_recorded(Channel& channel, uint64_t echo) {
  if (echo == channel.nonce && echo != 0) return false;
  close_stranger(channel, "answers another connection than this one: a recording, perhaps");
  return true;
}

// Of a connection that is not part of the session.
void Session::close_stranger(Channel& channel, const std::string& why) {
  strangers_.tell("link " + channel.link.config.name + ": closed: " + channel.address, why,
                  env_.clock.now_ns());
  if (channel.unknown())
    discard(channel);
  else
    channel_closed(channel, channel.address + " " + why);
}

bool Session::handle_hello(Channel& channel, const wire::HelloPayload& hello) {
  if (is_recorded(channel, hello.echo)) return false;
  channel.link.answers = true;
  channel.peer_nonce = hello.nonce;
  const HelloMismatch mismatch = compare_hello(hello, env_.config, env_.node);
  if (!mismatch.for_us.empty()) {
    refuse(channel, mismatch.for_peer, mismatch.for_us);
    return false;
  }
  channel.heard = facts_of(hello, !i_am_preferred());
  channel.peer_fast_zero = (hello.flags & wire::kHelloFastZero) != 0;
  std::copy_n(hello.instance, channel.peer_instance.size(), channel.peer_instance.begin());
  if (channel.dialled()) {
    peer_facts_ = channel.heard;
    peer_facts_at_ns_ = env_.clock.now_ns();
    channel.phase = Channel::Phase::kAwaitVerdict;
    return true;
  }
  channel.session_id = {channel.peer_nonce, channel.nonce};
  // The peer may dial sooner than this node means to talk to it; a new process may have mended it.
  const bool too_soon = env_.clock.now_ns() < refuse_until_ns_;
  if (too_soon && channel.peer_instance == peer_instance_) {
    discard(channel);
    return false;
  }
  if (!established_) return let_in(channel);
  probe(channel);
  return channel.phase != Channel::Phase::kClosed;
}

// Whether the channel is still open.
bool Session::let_in(Channel& channel) {
  if (!resolve_collision(channel)) return false;
  peer_facts_ = channel.heard;
  peer_facts_at_ns_ = env_.clock.now_ns();
  channel.phase = Channel::Phase::kDraining;
  if (!owner_.draining()) answer_hello(channel);
  return channel.phase != Channel::Phase::kClosed;
}

// Both nodes dialled at the same time: the preferred node's connection is the one that stays, once
// it is connected. Whether `channel`, which was accepted and has brought a good hello, may go on.
bool Session::resolve_collision(Channel& channel) {
  std::vector<Channel*> others;
  for (auto& other : channels_)
    if (other.get() != &channel && other->phase != Channel::Phase::kUp && other->shakes_hands())
      others.push_back(other.get());
  for (Channel* other : others) {
    if (other->dialled() && i_am_preferred() && other->phase != Channel::Phase::kConnecting) {
      discard(channel);
      return false;
    }
    discard(*other);
  }
  return true;
}

void Session::send_hello(Channel& channel) {
  channel.said = owner_.facts();
  owner_.facts_told();
  wire::HelloPayload hello = make_hello(env_.config, env_.node, channel.link.config.name,
                                        env_.instance, channel.said, owner_.fast_zero());
  hello.nonce = channel.nonce;
  hello.echo = channel.peer_nonce;
  const auto payload = wire::bytes_of(hello);
  const wire::HeaderBytes header = wire::seal(wire::to_header(wire::HelloFrame{}), payload);
  channel.connection->send(header);
  channel.connection->send(payload);
}

void Session::send_verdict(Channel& channel, Verdict verdict) {
  channel.connection->send(wire::seal(wire::to_header(wire::VerdictFrame{verdict})));
}

void Session::answer_hello(Channel& channel) {
  send_hello(channel);
  channel.verdict = decide(channel.said, channel.heard);
  send_verdict(channel, channel.verdict);
  channel.phase = Channel::Phase::kAwaitVerdict;
}

bool Session::handle_verdict(Channel& channel, Verdict theirs) {
  if (channel.dialled()) channel.verdict = decide(channel.said, channel.heard);
  const Verdict verdict = channel.verdict;
  if (theirs != mirrored(verdict)) {
    refuse(channel, "the two nodes disagree on who is newer; this is a bug in twinblock",
           "the two nodes disagree on who is newer (" + explain(verdict, peer_) +
               "); this is a bug in twinblock");
    return false;
  }
  if (!same_facts(channel.said, owner_.facts())) {
    // Not an error: something happened here meanwhile. Say nothing and begin anew.
    discard(channel);
    schedule_dial(limits::kReconnectDelayMin_ns);
    return false;
  }
  if (channel.dialled()) send_verdict(channel, verdict);
  last_verdict_ = verdict;
  if (!is_usable(verdict)) {
    not_usable(channel, verdict);
    return false;
  }
  establish(channel, verdict);
  return channel.phase != Channel::Phase::kClosed;
}

// The peer has to be told why, or it would dial without end: the connection closes when the peer
// has read it, or at the handshake's timeout.
void Session::refuse(Channel& channel, const std::string& to_peer, const std::string& for_us) {
  send_refusal(channel, to_peer);
  channel.close_soon(env_.clock.now_ns());
  // Whoever dials may say anything, and another thing each time. Where something is known of the peer
  // already, only what this node hears when it dials itself changes that.
  const bool known = established_ || last_verdict_ || !refusal_.empty();
  if (known && !channel.dialled()) {
    strangers_.tell("link " + channel.link.config.name + ": refused " + channel.address + ":",
                    for_us, env_.clock.now_ns());
    return;
  }
  last_verdict_.reset();
  // Without its port, which is another one each time: what stays the same is told once.
  refusal_ = "refused " + peer_ + " (" + channel.link.addresses.peer + "): " + for_us;
  tell_refusal();
  note_error(channel.link, refusal_);
}

void Session::send_refusal(Channel& channel, const std::string& why) {
  const auto text = wire::text_bytes(why);
  const wire::RefuseFrame refusal{.nonce = channel.peer_nonce};
  channel.connection->send(wire::seal(wire::to_header(refusal), text));
  channel.connection->send(text);
}

void Session::not_usable(Channel& channel, Verdict verdict) {
  refusal_ = explain(verdict, peer_);
  tell_refusal();
  const std::string advice = advise(verdict, env_.config.volume, peer_);
  note_error(channel.link, refusal_ + (advice.empty() ? "" : "; " + advice));
  dial_delay_ns_ = limits::kReconnectDelayMax_ns;
  if (channel.dialled()) {
    // Our verdict has to reach the peer before the connection goes.
    channel.close_soon(env_.clock.now_ns());
  } else {
    discard(channel);
  }
  schedule_dial(dial_delay_ns_);
}

// Once for each reason, and not at every attempt.
void Session::tell_refusal() {
  if (refusal_ == told_refusal_ || last_verdict_ == Verdict::kWaitForInit) return;
  told_refusal_ = refusal_;
  const bool split_brain = last_verdict_ && is_split_brain(*last_verdict_);
  env_.events.tell(split_brain ? "split-brain" : "refused",
                   {{"peer", peer_}, {"reason", refusal_}});
}

void Session::establish(Channel& channel, Verdict verdict) {
  TB_CHECK(!established_, "there is one session at a time");
  established_ = true;
  session_ = channel.session_id;
  next_incarnation_ = peer_incarnation_ = 0;
  dials_ = 0;
  last_answer_ns_ = replaced_ns_ = 0;
  control_.reset();
  dial_delay_ns_ = 0;
  next_dial_ = 0;
  dial_timer_->disarm();
  last_heard_ns_ = last_echo_ns_ = env_.clock.now_ns();
  peer_instance_ = channel.peer_instance;
  paused_ = false;
  refusal_.clear();
  told_refusal_.clear();
  last_error_.clear();
  channel.incarnation = 0;
  env_.log.log(Severity::kInfo, "session with " + peer_ + " (" + channel.address +
                                    ") is up: " + explain(verdict, peer_));
  link_up(channel);
  owner_.session_up(verdict, channel.heard, channel.peer_fast_zero);
  if (!established_) return;
  for (const auto& link : links_)
    if (link->up == nullptr)
      schedule_join(*link, i_am_preferred() ? 0 : limits::kSecondDialerDelay_ns);
  std::vector<Channel*> parked;
  for (const auto& other : channels_)
    if (other->phase == Channel::Phase::kParked) parked.push_back(other.get());
  for (Channel* other : parked)
    if (established_ && other->phase == Channel::Phase::kParked) accept_join(*other);
}

}  // namespace twinblock
