#include "session/session.h"

#include <algorithm>
#include <utility>

#include "base/checks.h"
#include "base/limits.h"
#include "words/verdict_words.h"

namespace twinblock {

Session::Session(SessionEnvironment environment, SessionOwner& owner)
    : env_(std::move(environment)),
      owner_(owner),
      strangers_(env_.log),
      peer_log_(env_.log, "and yet other things were told"),
      links_(env_, *this),
      heartbeats_(env_, owner, links_, control_),
      sampler_(env_.clock, links_),
      traffic_(env_, links_, control_, heartbeats_, sampler_),
      retirements_(owner, traffic_),
      joins_(env_, links_, heartbeats_, *this),
      newcomers_(env_, links_, heartbeats_, joins_, strangers_),
      dialler_(env_, owner, links_, *this),
      prober_(env_, links_),
      responder_(env_, links_, strangers_),
      handshake_(env_, owner, *this, {links_, joins_, newcomers_, dialler_, prober_, responder_, strangers_}),
      roster_(env_, *this, {links_, joins_, dialler_, handshake_}),
      routes_(env_, owner, *this,
              {links_, control_, heartbeats_, sampler_, traffic_, retirements_, joins_, newcomers_,
               handshake_}),
      watch_(env_, owner, *this,
             {strangers_, peer_log_, links_, heartbeats_, traffic_, joins_, newcomers_, handshake_, responder_}) {
  resume_timer_ = env_.clock.make_timer([this] {
    for (Channel* channel : std::vector(links_.up()))
      if (!links_.paused() && channel->up()) channel_readable(*channel);
  });
}

// --- from the engine

Status Session::start() {
  if (Status listening = roster_.start(); !listening) return listening;
  dialler_.schedule_in_turn(0);
  watch_.start();
  return ok_status();
}

void Session::stop(const std::string& reason) {
  stopped_ = true;
  dialler_.stop();
  if (established_) send_ordered(wire::GoodbyeFrame{}, wire::text_bytes(reason));
}

void Session::drop(const std::string& reason, uint64_t retry_delay_ns) {
  if (established_) lose(reason, retry_delay_ns);
}

void Session::keys_changed() {
  const auto too_late = [](const Channel& channel) {
    return channel.open() && !channel.up() && channel.connection().key_dropped();
  };
  for (Channel* channel : links_.channels(too_late))
    if (channel->open()) channel_closed(*channel, "the key that was proven there was dropped meanwhile");
}

void Session::volume_grew() {
  for (Channel* channel : links_.up()) channel->reader().set_volume_bytes(owner_.volume_bytes());
}

void Session::pause_reading(bool paused) {
  if (!paused) resume_timer_->arm(0);
  links_.pause_reading(paused);
}

// --- the whole session

void Session::establish(Channel& channel, Verdict verdict) {
  TB_CHECK(!established_, "there is one session at a time");
  established_ = true;
  id_ = channel.intro().session_id();
  joins_.session_up();
  traffic_.session_up();
  heartbeats_.session_up();
  handshake_.session_up(channel);
  links_.pause_reading(false);
  last_error_.clear();
  env_.log.log(Severity::kInfo, "session with " + env_.peer() + " (" + channel.address() +
                                    ") is up: " + explain(verdict, env_.peer()));
  link_up(channel);
  SyncFacts peer = channel.intro().heard();
  peer.primary = peer.primary || goes_on(peer, channel.intro().said());
  owner_.session_up(verdict, peer, channel.intro().peer_fast_zero());
  if (established_) joins_.join_others();
}

void Session::lose(const std::string& reason, uint64_t retry_delay_ns) {
  established_ = false;
  const auto of_the_session = [](const Channel& channel) {
    return channel.up() || channel.phase() == Channel::Phase::kParked || channel.dialled_to_join();
  };
  for (Channel* channel : links_.channels(of_the_session)) {
    if (channel->up())
      links_.mark_down(*channel);
    else
      links_.discard(*channel);
  }
  links_.restart();
  traffic_.session_lost();
  retirements_.clear();
  newcomers_.session_lost();
  last_error_ = reason;
  env_.log.log(Severity::kWarning, "session with " + env_.peer() + " is lost: " + reason);
  handshake_.session_lost(retry_delay_ns);
  owner_.session_lost(reason, retry_delay_ns);
  owner_.links_changed();
  handshake_.let_newcomers_in();
}

void Session::note_error(Link& link, const std::string& error) {
  last_error_ = error;
  // A peer that stays away is reported once, not at every attempt, nor each time that two reasons take turns.
  if (!link.note_error(error, env_.clock.now_ns())) return;
  env_.events.tell("link-error", {{"link", link.name()}, {"reason", error}});
  env_.log.log(Severity::kWarning, "link " + link.name() + ": " + error);
}

// --- its links

void Session::link_up(Channel& channel) {
  const Link& link = channel.link();
  channel.reader().set_volume_bytes(owner_.volume_bytes());
  links_.mark_up(channel);
  heartbeats_.channel_up(channel);
  env_.events.tell(
      "link-up",
      {{"link", link.name()}, {"local", link.addresses().local}, {"peer", link.addresses().peer}});
  if (channel.incarnation() != 0)
    env_.log.log(Severity::kInfo, "link " + link.name() + " is up");
  // A session may begin over a link that is disabled here, where there is no other.
  const auto spare =
      links_.channels([](const Channel& each) { return each.up() && !each.link().enabled(); });
  heartbeats_.send(channel, env_.clock.now_ns());
  traffic_.channel_up(channel);
  for (Channel* other : spare)
    if (links_.up().size() > 1) link_down(*other, "the link is disabled, and another one is up");
  owner_.links_changed();
}

void Session::link_down(Channel& channel, const std::string& reason, LinkEnd end) {
  Link& link = channel.link();
  links_.mark_down(channel);
  const bool last = links_.up().empty();
  if (end == LinkEnd::kLost)
    links_.tell_lost(link, reason);
  else
    env_.log.log(Severity::kInfo, "link " + link.name() + " gets a new connection");
  traffic_.channel_down(channel, end);
  retirements_.retire(channel.incarnation());
  if (last) {
    joins_.linger(newcomers_.waiting());
  } else {
    joins_.schedule_in_turn(
        link, end == LinkEnd::kLost ? link.left_alone_after_loss_ns(env_.clock.now_ns()) : 0);
  }
  owner_.links_changed();
}

bool Session::tells_in_vain() const {
  return retirements_.full() || control_.kept_bytes() > limits::kControlBytesKeptMax;
}

// --- from the network

void Session::channel_closed(Channel& channel, const std::string& reason) {
  if (channel.up())
    link_down(channel, "the connection to " + channel.address() + " was closed (" + reason + ")",
              joins_.ended_by_peer(channel.link()));
  else if (channel.dialled_to_join())
    joins_.closed(channel, reason);
  else if (channel.probes() && channel.dialled())
    prober_.closed(channel, reason);
  else if (channel.probes())
    links_.discard(channel);
  else
    handshake_.closed(channel, reason);
}

// Bytes are a sign of life; that the socket is looked at is none: its kernel may have something to tell, such
// as that it sent again what nobody acknowledges.
wire::FrameReader::Outcome Session::next_frame(Channel& channel, wire::Frame& frame) {
  const uint64_t before = channel.reader().received_bytes_total();
  const wire::FrameReader::Outcome outcome = channel.reader().next(channel.connection(), frame);
  if (channel.reader().received_bytes_total() != before) heartbeats_.heard(channel);
  return outcome;
}

void Session::channel_readable(Channel& channel) {
  channel.reader().begin_turn();
  wire::Frame frame;
  while (channel.open()) {
    // What has been read already waits, too (pause_reading).
    if (links_.paused() && channel.up()) return;
    switch (next_frame(channel, frame)) {
      case wire::FrameReader::Outcome::kNothing:
        if (channel.probes() && !channel.dialled()) responder_.received(channel);
        return;
      case wire::FrameReader::Outcome::kFrame:
        if (!(channel.up() ? routes_.take(channel, frame) : handshake_.take(channel, frame))) return;
        break;
      case wire::FrameReader::Outcome::kError:
        routes_.refuse(channel);
        return;
    }
  }
}

void Session::channel_sampled(Channel& channel, const SendMoments& moments) {
  sampler_.sampled(channel, moments);
}

}  // namespace twinblock
