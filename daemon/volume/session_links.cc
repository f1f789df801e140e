// The links of a session: joining, the choice for each frame, silence, and what happens when one
// dies (invariant 5).
//
// A connection that is dead for one side is closed there, and `retire` says so over another link.
// The peer closes it, too. Each side answers `retired` when all work that came to it over that
// connection has ended: nothing of it can land any more, so that what it had not acknowledged is
// sent again. An acknowledgement travels over the connection of its request only, so it can't come
// once that is closed, and no request is answered twice.
#include <algorithm>
#include <array>
#include <utility>

#include "base/checks.h"
#include "base/limits.h"
#include "base/units.h"
#include "volume/session.h"
#include "volume/session_channel.h"

namespace twinblock {

using wire::FrameHeader;
using wire::FrameType;
using wire::header_of;

Status Session::listen(SessionLink& link) {
  return env_.network.listen(
      link.addresses,
      [this, &link](std::unique_ptr<Connection> connection) {
        accepted(link, std::move(connection));
      },
      [this, name = link.config.name](const std::string& why) {
        env_.log.log(Severity::kWarning, "link " + name + ": " + why);
      });
}

Session::SessionLink* Session::find_link(const std::string& name) const {
  for (const auto& link : links_)
    if (link->config.name == name) return link.get();
  return nullptr;
}

const LinkConfig& Session::link_config(const std::string& name) const {
  const SessionLink* link = find_link(name);
  TB_CHECK(link != nullptr, "the caller has looked whether there is one");
  return link->config;
}

bool Session::can_spare(const std::string& name) const {
  return std::any_of(links_.begin(), links_.end(), [&](const auto& link) {
    return link->config.name != name && link->enabled && (!established_ || link->up != nullptr);
  });
}

std::string Session::link_names() const {
  std::string names;
  for (const auto& link : links_) names += (names.empty() ? "" : ", ") + link->config.name;
  return names;
}

Status Session::add_link(const LinkConfig& config) {
  auto link = std::make_unique<SessionLink>(
      config, LinkAddresses{config.name, config.address.at(env_.node), config.address.at(peer_)});
  link->join_timer = env_.clock.make_timer([this, held = link.get()] { join(*held); });
  if (started_)
    if (Status listening = listen(*link); !listening) return listening;
  links_.push_back(std::move(link));
  if (!started_) return ok_status();
  if (established_)
    schedule_join(*links_.back(), i_am_preferred() ? 0 : limits::kSecondDialerDelay_ns);
  else
    poke();
  return ok_status();
}

Status Session::remove_link(const std::string& name) {
  const auto at = std::find_if(links_.begin(), links_.end(),
                               [&](const auto& link) { return link->config.name == name; });
  if (at == links_.end()) return Error{"there is no link " + name, "", 0};
  (void)enable_link(name, false);
  env_.network.unlisten(name);
  removed_.push_back(std::move(*at));
  links_.erase(at);
  next_dial_ = 0;
  return ok_status();
}

Status Session::enable_link(const std::string& name, bool enabled) {
  SessionLink* link = find_link(name);
  if (link == nullptr) return Error{"there is no link " + name, "", 0};
  if (link->enabled == enabled) return ok_status();
  link->enabled = enabled;
  if (enabled) {
    link->refused = false;
    if (established_)
      schedule_join(*link, i_am_preferred() ? 0 : limits::kSecondDialerDelay_ns);
    else
      poke();
    return ok_status();
  }
  link->join_timer->disarm();
  link->damped = false;
  std::vector<Channel*> others;
  for (const auto& channel : channels_)
    if (&channel->link == link && channel->phase != Channel::Phase::kUp)
      others.push_back(channel.get());
  for (Channel* channel : others) discard(*channel);
  if (link->up != nullptr) link_down(*link->up, "the link was disabled or removed");
  if (!established_ && channels_.empty()) schedule_dial(limits::kReconnectDelayMin_ns);
  return ok_status();
}

// --- joining

void Session::schedule_join(SessionLink& link, uint64_t delay_ns) {
  if (stopped_ || !link.enabled) return;
  link.join_at_ns = env_.clock.now_ns() + delay_ns;
  link.join_timer->arm(delay_ns);
}

void Session::join(SessionLink& link) {
  link.damped = false;
  if (stopped_ || !established_ || !link.enabled) return;
  const uint64_t now = env_.clock.now_ns();
  // One that has fallen silent may be replaced by a new connection over the same link.
  if (link.up != nullptr && link.up->silent_ns(now) < env_.config.link_timeout_ns) return;
  const bool pending = std::any_of(channels_.begin(), channels_.end(), [&](const auto& channel) {
    return &channel->link == &link && channel->dialled() &&
           channel->purpose == Channel::Purpose::kJoin && channel->phase != Channel::Phase::kUp;
  });
  if (pending) return;
  channels_.push_back(std::make_unique<Channel>(*this, link, env_.network.dial(link.addresses),
                                                true, Channel::Purpose::kJoin, now));
}

void Session::ask_to_join(Channel& channel) {
  channel.phase = Channel::Phase::kAwaitJoin;
  channel.session_id = session_;
  channel.incarnation = 2 * ++next_incarnation_ + (i_am_preferred() ? 0 : 1);
  FrameHeader header = header_of(FrameType::kJoin);
  header.sequence = channel.incarnation;
  header.offset = session_;
  channel.connection->send(wire::seal(header));
}

// Whether the channel is still open.
bool Session::handle_join(Channel& channel, const FrameHeader& header) {
  if (channel.phase == Channel::Phase::kAwaitJoin) {
    if (header.sequence != channel.incarnation || header.offset != session_) {
      join_failed(channel, channel.address + " answered for another session", JoinFailure::kLater);
      return false;
    }
    if (channel.link.up != nullptr) link_down(*channel.link.up, "replaced by a new connection");
    if (channel.phase == Channel::Phase::kClosed) return false;
    link_up(channel);
    return channel.phase != Channel::Phase::kClosed;
  }
  channel.incarnation = header.sequence;
  channel.session_id = header.offset;
  const bool about_to_stand =
      !established_ && std::any_of(channels_.begin(), channels_.end(), [&](const auto& other) {
        return other.get() != &channel && other->phase == Channel::Phase::kAwaitVerdict &&
               other->session_id == channel.session_id;
      });
  if (about_to_stand) {
    channel.phase = Channel::Phase::kParked;
    return true;
  }
  return accept_join(channel);
}

// Whether the channel is still open.
bool Session::accept_join(Channel& channel) {
  const auto refuse_join = [&](const std::string& why) {
    const auto text = wire::text_bytes(why);
    channel.connection->send(wire::seal(header_of(FrameType::kRefuse), text));
    channel.connection->send(text);
    channel.close_soon(env_.clock.now_ns());
    return true;
  };
  if (!established_ || channel.session_id != session_)
    return refuse_join("the session that it would join has ended on " + env_.node);
  if (!channel.link.enabled) return refuse_join("the link is disabled on " + env_.node);
  if (channel_of(channel.incarnation) != nullptr) return refuse_join("it has joined already");
  // Both dialled: the preferred node's connection stays, once it is connected.
  std::vector<Channel*> ours;
  for (const auto& other : channels_)
    if (other.get() != &channel && &other->link == &channel.link && other->dialled() &&
        other->purpose == Channel::Purpose::kJoin && other->phase != Channel::Phase::kUp)
      ours.push_back(other.get());
  for (Channel* other : ours) {
    if (i_am_preferred() && other->phase == Channel::Phase::kAwaitJoin) {
      discard(channel);
      return false;
    }
    discard(*other);
  }
  if (channel.link.up != nullptr) link_down(*channel.link.up, peer_ + " has joined it anew");
  if (channel.phase == Channel::Phase::kClosed) return false;
  FrameHeader consent = header_of(FrameType::kJoin);
  consent.sequence = channel.incarnation;
  consent.offset = session_;
  channel.connection->send(wire::seal(consent));
  link_up(channel);
  return channel.phase != Channel::Phase::kClosed;
}

void Session::join_failed(Channel& channel, const std::string& reason, JoinFailure failure) {
  SessionLink& link = channel.link;
  discard(channel);
  if (!established_) return;
  link.refused = failure == JoinFailure::kRefused;
  if (failure != JoinFailure::kLater) note_error(link, reason);
  if (failure == JoinFailure::kRefused || failure == JoinFailure::kUnreachable) link.tried = true;
  const uint64_t delay = link.damping.failed();
  schedule_join(link, up_.empty() ? LinkDamping::kRetryMin_ns : delay);
  give_up_if_all_tried();
}

// --- up and down

void Session::link_up(Channel& channel) {
  SessionLink& link = channel.link;
  const uint64_t now = env_.clock.now_ns();
  channel.phase = Channel::Phase::kUp;
  channel.reader.set_volume_bytes(env_.config.size_bytes);
  channel.last_heard_ns = channel.last_echo_ns = now;
  last_heard_ns_ = now;
  last_echo_ns_ = std::max(last_echo_ns_, channel.opened_ns);  // it has answered what began then
  link.up = &channel;
  link.up_since_ns = now;
  link.join_timer->disarm();
  link.damping.joined();
  link.tried = link.damped = link.refused = false;
  link.logged_error.clear();
  link.meter.restarted();
  for (const auto& each : links_) each->tried = false;
  list_up();
  if (paused_) channel.connection->pause_reading(true);
  if (channel.incarnation != 0)
    env_.log.log(Severity::kInfo, "link " + link.config.name + " is up");
  heartbeat(channel, now);
  if (control_channel_ == nullptr) {
    control_channel_ = &channel;
    control_.attach(*channel.connection);
  }
  requests_.each_on(PeerRequests::kNoConnection,
                    [this](PeerRequests::Entry& entry) { put_again(entry); });
  owner_.links_changed();
}

void Session::link_down(Channel& channel, const std::string& reason) {
  SessionLink& link = channel.link;
  const uint64_t incarnation = channel.incarnation;
  const uint64_t up_for_ns = env_.clock.now_ns() - link.up_since_ns;
  link.in_before_bytes += channel.reader.received_bytes_total();
  link.out_before_bytes += channel.connection->sent_bytes_total();
  link.up = nullptr;
  link.last_error = reason;
  ++link.failovers;
  link.meter.restarted();
  discard(channel);
  list_up();
  env_.log.log(Severity::kWarning,
               "link " + link.config.name + " is lost: " + reason +
                   (up_.empty() ? "; no other link is up" : "; going on over the others"));
  if (control_channel_ == &channel) {
    control_channel_ = pick(0);
    if (control_channel_ != nullptr) control_.attach(*control_channel_->connection);
  }
  retire(incarnation);
  if (up_.empty()) {
    linger();
  } else {
    const uint64_t delay = link.damping.lost(up_for_ns);
    link.damped = delay > 0;
    schedule_join(link, delay + (i_am_preferred() ? 0 : limits::kSecondDialerDelay_ns));
  }
  owner_.links_changed();
}

void Session::list_up() {
  up_.clear();
  for (const auto& link : links_)
    if (link->up != nullptr) up_.push_back(link->up);
}

// The session stands without any link. It ends if none can be had: at once if all refuse, else
// when the peer timeout has passed.
void Session::linger() {
  for (const auto& link : links_) {
    link->tried = link->damped = false;
    schedule_join(*link, i_am_preferred() ? 0 : limits::kSecondJoinDelay_ns);
  }
  give_up_if_all_tried();  // none may be used
}

void Session::give_up_if_all_tried() {
  if (!established_ || !up_.empty()) return;
  std::string reasons;
  for (const auto& link : links_) {
    if (!link->enabled) continue;
    if (!link->tried) return;
    reasons += (reasons.empty() ? "" : "; ") + link->config.name + ": " + link->last_error;
  }
  lose("no link to " + peer_ + " is left (" + reasons + ")", 0);
}

// --- retirement

void Session::retire(uint64_t incarnation) {
  Retirement& retirement = retirements_.emplace_back(Retirement{incarnation});
  if (owner_.working_for(incarnation)) {
    FrameHeader header = header_of(FrameType::kRetire);
    header.sequence = incarnation;
    send(header);
  } else {
    confirm_retirement(retirement);
  }
}

// Tells the peer that nothing that came over the connection can land here any more, once that is
// so.
void Session::confirm_retirement(Retirement& retirement) {
  if (retirement.by_us || owner_.working_for(retirement.incarnation)) return;
  retirement.by_us = true;
  FrameHeader header = header_of(FrameType::kRetired);
  header.sequence = retirement.incarnation;
  send(header);
}

void Session::work_ended(uint64_t incarnation) {
  for (Retirement& retirement : retirements_)
    if (retirement.incarnation == incarnation) confirm_retirement(retirement);
  std::erase_if(retirements_, [](const Retirement& each) { return each.by_us && each.by_peer; });
}

// The peer has closed this connection.
void Session::close_incarnation(uint64_t incarnation, const std::string& reason) {
  if (Channel* channel = channel_of(incarnation)) {
    link_down(*channel, reason);
    return;
  }
  const bool known =
      std::any_of(retirements_.begin(), retirements_.end(),
                  [&](const Retirement& each) { return each.incarnation == incarnation; });
  if (known) return;
  // It never came to be one on this side: nothing came over it, and nothing may.
  for (const auto& channel : channels_)
    if (channel->phase == Channel::Phase::kAwaitJoin && channel->incarnation == incarnation) {
      join_failed(*channel, reason, JoinFailure::kLater);
      break;
    }
  retire(incarnation);
}

void Session::handle_retired(uint64_t incarnation) {
  for (Retirement& retirement : retirements_)
    if (retirement.incarnation == incarnation) retirement.by_peer = true;
  std::erase_if(retirements_, [](const Retirement& each) { return each.by_us && each.by_peer; });
  requests_.each_on(incarnation, [this](PeerRequests::Entry& entry) { put_again(entry); });
}

// --- frames

Session::Channel* Session::channel_of(uint64_t incarnation) const {
  for (Channel* channel : up_)
    if (channel->incarnation == incarnation) return channel;
  return nullptr;
}

Session::Channel* Session::pick(uint64_t bytes) {
  if (up_.size() <= 1) return up_.empty() ? nullptr : up_.front();
  const uint64_t now = env_.clock.now_ns();
  std::array<LinkLoad, limits::kLinksMax> loads;
  std::array<Channel*, limits::kLinksMax> channels;
  size_t count = 0;
  for (const bool suspicious_too : {false, true}) {
    for (Channel* channel : up_) {
      if (!suspicious_too && channel->silent_ns(now) > suspicious_ns()) continue;
      const LinkMeter& meter = channel->link.meter;
      loads[count] = {meter.in_flight_bytes(), meter.rate_bytes_per_s(), meter.round_trip_ns()};
      channels[count++] = channel;
    }
    if (count > 0) break;
  }
  return channels[choose_link(std::span(loads).first(count), bytes)];
}

void Session::put(PeerRequests::Entry& entry, Channel& channel) {
  const uint64_t bytes = sizeof(FrameHeader) + entry.body.size();
  entry.incarnation = channel.incarnation;
  entry.sent_end_bytes = channel.connection->queued_bytes_total() + bytes;
  entry.stamp = channel.link.meter.sent(bytes, env_.clock.now_ns());
  channel.connection->send(
      wire::seal(entry.header, static_cast<uint32_t>(entry.body.size()), entry.body_crc),
      entry.body);
}

void Session::put_again(PeerRequests::Entry& entry) {
  // The peer begins anew with it.
  resent_ns_ = env_.clock.now_ns();
  put_somewhere(entry);
}

void Session::put_somewhere(PeerRequests::Entry& entry) {
  if (Channel* channel = pick(sizeof(FrameHeader) + entry.body.size()))
    put(entry, *channel);
  else
    entry.incarnation = PeerRequests::kNoConnection;
}

// --- liveness

uint64_t Session::tick_interval_ns() const {
  return std::min(limits::kHeartbeatInterval_ns, env_.config.link_timeout_ns / 4);
}

uint64_t Session::suspicious_ns() const {
  return std::min(limits::kSuspicious_ns, env_.config.link_timeout_ns * 3 / 5);
}

void Session::heartbeat(Channel& channel, uint64_t now) {
  FrameHeader beat = header_of(FrameType::kHeartbeat);
  beat.offset = now;
  beat.length = channel.peer_tick;
  beat.aux0 = channel.peer_tick == 0 ? 0 : now - channel.peer_tick_at_ns;
  beat.sequence = control_.received();
  channel.connection->send(wire::seal(beat));
}

void Session::heartbeats(uint64_t now) {
  // What this node has not read because it has enough to do is not the peer's silence, and what the
  // peer takes from a long queue proves that our direction works before any answer to it can come.
  if (paused_) last_heard_ns_ = now;
  for (Channel* channel : up_) {
    if (paused_) channel->last_heard_ns = now;
    // Before the heartbeat, which waits for the end of this turn and says nothing of a queue.
    const uint64_t sent = channel->connection->sent_bytes_total();
    if (sent != std::exchange(channel->sent_at_tick_bytes, sent) && channel->unsent_bytes() > 0)
      channel->last_echo_ns = last_echo_ns_ = now;
    heartbeat(*channel, now);
  }
  for (const auto& link : links_) {
    link->in_rate.update(in_bytes(*link), now);
    link->out_rate.update(out_bytes(*link), now);
  }
}

// A silent link is given up while another one lives. The last one is the peer timeout's.
void Session::look_for_silence(uint64_t now) {
  const uint64_t timeout = env_.config.link_timeout_ns;
  std::vector<Channel*> silent;
  bool healthy = false;
  bool alive = false;
  for (Channel* channel : up_) {
    healthy = healthy || channel->silent_ns(now) <= suspicious_ns();
    alive = alive || channel->silent_ns(now) <= timeout;
    if (channel->silent_ns(now) > timeout) silent.push_back(channel);
  }
  // Not put off by each further tick.
  const uint64_t soon_ns = i_am_preferred() ? 0 : limits::kSecondJoinDelay_ns;
  if (!healthy)
    for (const auto& link : links_)
      if (!link->join_timer->armed() || link->join_at_ns > now + soon_ns)
        schedule_join(*link, soon_ns);
  if (!alive) return;
  for (Channel* channel : silent)
    link_down(*channel, peer_ + " was silent on it, or did not hear this node, for " +
                            format_duration(channel->silent_ns(now)));
}

}  // namespace twinblock
