#include "session/session.h"

#include <algorithm>
#include <utility>

#include "base/checks.h"
#include "base/limits.h"
#include "base/units.h"

namespace twinblock {

using wire::FrameType;

Session::Session(SessionEnvironment environment, SessionOwner& owner)
    : env_(std::move(environment)),
      owner_(owner),
      strangers_(env_.log),
      links_(env_, *this),
      heartbeats_(env_, owner, links_, control_),
      sampler_(env_.clock, links_),
      traffic_(env_, links_, control_, heartbeats_, sampler_),
      retirements_(owner, traffic_),
      joins_(env_, links_, heartbeats_, *this),
      newcomers_(env_, links_, heartbeats_, joins_, strangers_),
      dialler_(env_, owner, links_, *this),
      handshake_(env_, owner, *this, links_, joins_, newcomers_, dialler_, strangers_) {
  for (const LinkConfig& link : env_.config.links) (void)add_link(link);
  tick_timer_ = env_.clock.make_timer([this] { tick(); });
  resume_timer_ = env_.clock.make_timer([this] {
    for (Channel* channel : std::vector(links_.up()))
      if (!links_.paused() && channel->up()) channel_readable(*channel);
  });
}

Session::~Session() = default;

// --- from the engine

Status Session::start() {
  started_ = true;
  for (const auto& link : links_.all())
    if (Status listening = listen(*link); !listening) return listening;
  dialler_.schedule_in_turn(0);
  arm_tick(heartbeats_.interval_ns());
  return ok_status();
}

void Session::stop(const std::string& reason) {
  stopped_ = true;
  dialler_.stop();
  if (established_) send_ordered(wire::GoodbyeFrame{}, wire::text_bytes(reason));
}

void Session::poke() {
  if (handshake_.go_on()) return;
  if (!established_ && links_.idle()) dialler_.schedule(0);
}

void Session::drop(const std::string& reason, uint64_t retry_delay_ns) {
  if (established_) lose(reason, retry_delay_ns);
}

void Session::pause_reading(bool paused) {
  if (!paused) resume_timer_->arm(0);
  links_.pause_reading(paused);
}

std::vector<LinkView> Session::link_views() const {
  return links_.views(!established_ && !handshake_.refusal().empty());
}

// --- the whole session

void Session::establish(Channel& channel, Verdict verdict) {
  TB_CHECK(!established_, "there is one session at a time");
  established_ = true;
  id_ = channel.intro.session_id;
  joins_.session_up();
  traffic_.session_up();
  heartbeats_.session_up();
  handshake_.session_up(channel);
  links_.pause_reading(false);
  last_error_.clear();
  channel.incarnation = 0;
  env_.log.log(Severity::kInfo, "session with " + env_.peer() + " (" + channel.address +
                                    ") is up: " + explain(verdict, env_.peer()));
  link_up(channel);
  SyncFacts peer = channel.intro.heard;
  peer.primary = peer.primary || goes_on(peer, channel.intro.said);
  owner_.session_up(verdict, peer, channel.intro.peer_fast_zero);
  if (established_) joins_.join_others();
}

void Session::lose(const std::string& reason, uint64_t retry_delay_ns) {
  established_ = false;
  const auto of_the_session = [](const Channel& channel) {
    return channel.up() || channel.phase == Channel::Phase::kParked || channel.dialled_to_join();
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
  owner_.session_lost(reason);
  owner_.links_changed();
  handshake_.let_newcomers_in();
}

void Session::note_error(Link& link, const std::string& error) {
  last_error_ = link.last_error = error;
  // A peer that stays away is reported once, not at every attempt, nor each time that two reasons take turns.
  if (!link.errors.news(error, env_.clock.now_ns())) return;
  env_.events.tell("link-error", {{"link", link.config.name}, {"reason", error}});
  env_.log.log(Severity::kWarning, "link " + link.config.name + ": " + error);
}

// --- links

Status Session::listen(Link& link) {
  return env_.network.listen(
      link.addresses,
      [this, &link](std::unique_ptr<Connection> connection) {
        handshake_.accept(link, std::move(connection));
      },
      [this, &link](const Refusal& refusal) { refused(link, refusal); });
}

// Somebody was not let in. Where the link is not up it may be the peer, with another key than ours.
void Session::refused(Link& link, const Refusal& refusal) {
  if (refusal.from_peers_address && link.up == nullptr) return note_error(link, refusal.why);
  const std::string before =
      refusal.more > 0 ? " (and " + std::to_string(refusal.more) + " more before it)" : "";
  env_.log.log(Severity::kWarning, "link " + link.config.name + ": " + refusal.why + before);
}

bool Session::can_spare(const std::string& name) const {
  const auto& all = links_.all();
  return std::any_of(all.begin(), all.end(), [&](const auto& link) {
    return link->config.name != name && link->enabled && (!established_ || link->up != nullptr);
  });
}

Status Session::add_link(const LinkConfig& config) {
  Link& link = links_.add(config);
  joins_.prepare(link);
  if (!started_) return ok_status();
  if (Status listening = listen(link); !listening) {
    links_.remove(link);
    return listening;
  }
  try_link(link);
  return ok_status();
}

Status Session::remove_link(const std::string& name) {
  Link* link = links_.find(name);
  if (link == nullptr) return Error{"there is no link " + name, "", 0};
  env_.network.unlisten(name);
  link->enabled = false;
  close_link(*link);
  links_.remove(*link);
  dialler_.begin_with_first();
  return ok_status();
}

Status Session::enable_link(const std::string& name, bool enabled) {
  Link* link = links_.find(name);
  if (link == nullptr) return Error{"there is no link " + name, "", 0};
  if (link->enabled == enabled) return ok_status();
  link->enabled = enabled;
  if (enabled) {
    link->refused = false;
    try_link(*link);
  } else {
    close_link(*link);
  }
  return ok_status();
}

void Session::try_link(Link& link) {
  if (established_)
    joins_.schedule_in_turn(link);
  else
    poke();
}

// Ends every connection of a link that may not be used any more.
void Session::close_link(Link& link) {
  link.join_timer->disarm();
  link.damped = false;
  const auto others = links_.channels(
      [&](const Channel& channel) { return &channel.link == &link && !channel.up(); });
  for (Channel* channel : others) links_.discard(*channel);
  if (link.up != nullptr) link_down(*link.up, "the link was disabled or removed");
  if (!established_ && links_.idle()) dialler_.schedule(limits::kReconnectDelayMin_ns);
}

void Session::link_up(Channel& channel) {
  const Link& link = channel.link;
  channel.reader.set_volume_bytes(env_.config.size_bytes);
  links_.mark_up(channel);
  heartbeats_.channel_up(channel);
  env_.events.tell(
      "link-up",
      {{"link", link.config.name}, {"local", link.addresses.local}, {"peer", link.addresses.peer}});
  if (channel.incarnation != 0)
    env_.log.log(Severity::kInfo, "link " + link.config.name + " is up");
  // A session may begin over a link that is disabled here, where there is no other.
  const auto spare =
      links_.channels([](const Channel& each) { return each.up() && !each.link.enabled; });
  heartbeats_.send(channel, env_.clock.now_ns());
  traffic_.channel_up(channel);
  for (Channel* other : spare)
    if (links_.up().size() > 1) link_down(*other, "the link is disabled, and another one is up");
  owner_.links_changed();
}

void Session::link_down(Channel& channel, const std::string& reason, LinkEnd end) {
  Link& link = channel.link;
  const uint64_t up_for_ns = env_.clock.now_ns() - link.up_since_ns;
  links_.mark_down(channel);
  const bool last = links_.up().empty();
  if (end == LinkEnd::kLost)
    tell_link_lost(link, reason);
  else
    env_.log.log(Severity::kInfo, "link " + link.config.name + " gets a new connection");
  traffic_.channel_down(channel);
  retirements_.retire(channel.incarnation);
  if (last) {
    joins_.linger(newcomers_.waiting());
  } else {
    const uint64_t delay = end == LinkEnd::kLost ? link.damping.lost(up_for_ns) : 0;
    link.damped = delay > 0;
    joins_.schedule_in_turn(link, delay);
  }
  owner_.links_changed();
}

void Session::tell_link_lost(Link& link, const std::string& reason) {
  const auto& up = links_.up();
  link.last_error = reason;
  ++link.failovers;
  env_.log.log(Severity::kWarning,
               "link " + link.config.name + " is lost: " + reason +
                   (up.empty() ? "; no other link is up" : "; going on over the others"));
  env_.events.tell(
      "link-lost",
      {{"link", link.config.name}, {"links_up", uint64_t{up.size()}}, {"reason", reason}});
  if (up.empty()) return;
  std::string others;
  for (const Channel* channel : up)
    others += (others.empty() ? "" : ",") + channel->link.config.name;
  env_.events.tell("failover", {{"link", link.config.name}, {"to", others}});
}

// --- from the network

void Session::channel_closed(Channel& channel, const std::string& reason) {
  if (channel.up())
    link_down(channel, "the connection to " + channel.address + " was closed (" + reason + ")",
              joins_.renews(channel.link) ? LinkEnd::kRenewed : LinkEnd::kLost);
  else if (channel.dialled_to_join())
    joins_.closed(channel, reason);
  else
    handshake_.closed(channel, reason);
}

void Session::channel_readable(Channel& channel) {
  heartbeats_.heard(channel);
  channel.reader.begin_turn();
  wire::Frame frame;
  while (channel.open()) {
    // What has been read already waits, too (pause_reading).
    if (links_.paused() && channel.up()) return;
    switch (channel.reader.next(*channel.connection, frame)) {
      case wire::FrameReader::Outcome::kNothing:
        return;
      case wire::FrameReader::Outcome::kFrame:
        if (!(channel.up() ? route(channel, frame) : handshake_.take(channel, frame))) return;
        break;
      case wire::FrameReader::Outcome::kError:
        refuse_frame(channel);
        return;
    }
  }
}

void Session::channel_sampled(Channel& channel, const SendMoments& moments) {
  sampler_.sampled(channel, moments);
}

// What was damaged on its way comes again over another link. What the peer meant so is no frame of
// this version, however often it comes: then the session ends.
void Session::refuse_frame(Channel& channel) {
  const std::string why = "sent " + channel.reader.error();
  if (!channel.up())
    handshake_.close_stranger(channel, why);
  else if (channel.reader.error_came_as_sent())
    lose(env_.peer() + " " + why, limits::kReconnectDelayMax_ns);
  else
    link_down(channel, channel.address + " " + why);
}

// Whether the channel is still open.
bool Session::route(Channel& channel, wire::Frame& frame) {
  if (wire::is_ordered(frame.header)) {
    switch (traffic_.arrived(channel, frame.header)) {
      case ControlStream::Arrival::kNext:
        return route_ordered(channel, frame);
      case ControlStream::Arrival::kRepeated:
        return true;
      case ControlStream::Arrival::kGap:
        lose(channel.address + " sent a " + wire::frame_type_name(frame.header.type) +
                 " frame before another one that is missing",
             limits::kReconnectDelayMin_ns);
        return false;
    }
  }
  switch (static_cast<FrameType>(frame.header.type)) {
    case FrameType::kAck:
      take_ack(channel, frame);
      break;
    case FrameType::kHeartbeat:
      take_heartbeat(channel, frame);
      break;
    case FrameType::kTimes:
      sampler_.take(channel, wire::frame_as<wire::TimesFrame>(frame.header));
      break;
    case FrameType::kData:
    case FrameType::kFlush:
    case FrameType::kRead:
    case FrameType::kDigest:
      owner_.session_frame(frame, channel.incarnation);
      break;
    default:
      lose(channel.address + " sent a " + wire::frame_type_name(frame.header.type) +
               " frame within the session",
           limits::kReconnectDelayMin_ns);
      break;
  }
  return channel.open();
}

// A frame of the control stream, each once and in order. Whether the channel is still open.
bool Session::route_ordered(Channel& channel, wire::Frame& frame) {
  switch (static_cast<FrameType>(frame.header.type)) {
    case FrameType::kAck:
      take_ack(channel, frame);
      break;
    case FrameType::kRetire:
      take_retirement(wire::frame_as<wire::RetireFrame>(frame.header).incarnation);
      break;
    case FrameType::kRetired: {
      const auto retired = wire::frame_as<wire::RetiredFrame>(frame.header);
      take_retirement(retired.incarnation);
      retirements_.confirmed_by_peer(retired.incarnation);
      break;
    }
    case FrameType::kGoodbye:
      lose(env_.peer() + " said goodbye: " + wire::printable(frame.payload),
           limits::kReconnectDelayMin_ns);
      break;
    default:
      owner_.session_frame(frame, PeerRequests::kControlStream);
      break;
  }
  return channel.open();
}

void Session::take_ack(Channel& channel, wire::Frame& frame) {
  const uint64_t request = wire::frame_as<wire::AckFrame>(frame.header).request;
  if (!traffic_.take_ack(channel, frame))
    lose(env_.peer() + " acknowledged a request that it was not sent (number " +
             std::to_string(request) + ")",
         limits::kReconnectDelayMin_ns);
}

void Session::take_heartbeat(Channel& channel, const wire::Frame& frame) {
  const uint64_t kept_bytes = control_.kept_bytes();
  if (!heartbeats_.take(channel, frame)) {
    lose(env_.peer() + " has received more than it was sent", limits::kReconnectDelayMin_ns);
    return;
  }
  newcomers_.session_answers();
  if (control_.kept_bytes() < kept_bytes) owner_.control_confirmed();
}

// The peer has closed this connection.
void Session::take_retirement(uint64_t incarnation) {
  const std::string reason = env_.peer() + " has retired the connection";
  if (Channel* channel = links_.of(incarnation)) {
    link_down(*channel, reason);
    return;
  }
  if (retirements_.knows(incarnation)) return;
  if (incarnation > limits::kIncarnationMax || retirements_.full()) {
    lose(env_.peer() + " retires connections that there are not", limits::kReconnectDelayMin_ns);
    return;
  }
  // It never came to be one on this side: nothing came over it, and nothing may.
  joins_.withdrawn(incarnation, reason);
  retirements_.retire(incarnation);
}

// --- as time passes

void Session::arm_tick(uint64_t delay_ns) {
  env_.lateness.expect(env_.clock.now_ns() + delay_ns);
  tick_timer_->arm(delay_ns);
}

void Session::tick() {
  links_.sweep();
  const uint64_t now = env_.clock.now_ns();
  // The loop calls timers before it looks at sockets: after a stand-still the peer hears at once that
  // this node lives, and is judged when what it sent meanwhile has been read. Once: a loop that has
  // time for one turn only, again and again, judges as well.
  catching_up_ = env_.lateness.looks(now) && !catching_up_;
  if (catching_up_) {
    arm_tick(0);
    if (established_) heartbeats_.send_all(now);
    return;
  }
  arm_tick(heartbeats_.interval_ns());
  strangers_.tick(now);
  handshake_.time_out_late(now);
  if (!established_) return;
  heartbeats_.send_all(now);
  links_.update_rates(now);
  owner_.links_changed();
  look_for_loss(now);
}

void Session::look_for_loss(uint64_t now) {
  if (const auto silence = heartbeats_.silence(now))
    lose(*silence, 0);
  else if (traffic_.carries_nothing(now, joins_.replaced_ns()))
    lose("the links to " + env_.peer() + " are up, but nothing comes through", 0);
  else if (const auto hangs = traffic_.hangs_ns(now))
    lose(env_.peer() + " is alive but has not finished a request for " + format_duration(*hangs) +
             "; its disk may hang",
         10 * limits::kReconnectDelayMax_ns);
  else
    look_for_silence(now);
  if (established_ && newcomers_.believed(now))
    lose(env_.peer() + " connected anew, and the session has been silent for " +
             format_duration(heartbeats_.silent_ns(now)),
         0);
}

// A silent link is given up while another one lives. The last one is the peer timeout's.
void Session::look_for_silence(uint64_t now) {
  std::vector<Channel*> silent;
  bool healthy = false;
  bool alive = false;
  for (Channel* channel : links_.up()) {
    const uint64_t silent_ns = channel->silent_ns(env_.lateness, now);
    healthy = healthy || silent_ns <= heartbeats_.suspicious_ns();
    if (heartbeats_.is_gone(*channel, now))
      silent.push_back(channel);
    else
      alive = alive || silent_ns <= env_.config.link_timeout_ns;
  }
  if (!healthy) joins_.replace_silent();
  if (!alive) return;
  for (Channel* channel : silent) {
    Link& link = channel->link;
    link_down(*channel, env_.peer() + " was silent on it, or did not hear this node, for " +
                            format_duration(channel->silent_ns(env_.lateness, now)));
    // Both nodes leave it alone for the same time, and one of them dials first.
    link.patience.given_up(now, link.join_at_ns - std::min(link.join_at_ns, now + env_.in_turn_ns(0)));
  }
}

}  // namespace twinblock
