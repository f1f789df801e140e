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
#include <cerrno>
#include <utility>

#include "base/checks.h"
#include "base/limits.h"
#include "base/units.h"
#include "volume/session.h"
#include "volume/session_channel.h"

namespace twinblock {

using wire::FrameHeader;
using wire::FrameType;

namespace {

// More come from a peer that has gone mad only.
constexpr size_t kRetirementsMax = 256;

}  // namespace

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
  env_.network.unlisten(name);
  (*at)->enabled = false;
  close_link(**at);
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
  close_link(*link);
  return ok_status();
}

// Ends every connection of a link that may not be used any more.
void Session::close_link(SessionLink& link) {
  link.join_timer->disarm();
  link.damped = false;
  std::vector<Channel*> others;
  for (const auto& channel : channels_)
    if (&channel->link == &link && channel->phase != Channel::Phase::kUp)
      others.push_back(channel.get());
  for (Channel* channel : others) discard(*channel);
  if (link.up != nullptr) link_down(*link.up, "the link was disabled or removed");
  if (!established_ && channels_.empty()) schedule_dial(limits::kReconnectDelayMin_ns);
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
  link.tried = link.damped = link.refused = link.answers = false;
  link.logged_error.clear();
  if (link.failovers == 0) link.last_error.clear();  // of before it was ever up
  link.meter.restarted();
  for (const auto& each : links_) each->tried = false;
  list_up();
  // A session may begin over a link that is disabled here, where there is no other.
  std::vector<Channel*> spare;
  for (Channel* other : up_)
    if (!other->link.enabled && up_.size() > 1) spare.push_back(other);
  if (paused_) channel.connection->pause_reading(true);
  env_.events.tell(
      "link-up",
      {{"link", link.config.name}, {"local", link.addresses.local}, {"peer", link.addresses.peer}});
  if (channel.incarnation != 0)
    env_.log.log(Severity::kInfo, "link " + link.config.name + " is up");
  heartbeat(channel, now);
  if (control_channel_ == nullptr) {
    control_channel_ = &channel;
    control_.attach(*channel.connection);
  }
  requests_.each_on(PeerRequests::kNoConnection,
                    [this](PeerRequests::Entry& entry) { send_again(entry); });
  for (Channel* other : spare)
    if (up_.size() > 1) link_down(*other, "the link is disabled, and another one is up");
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
  tell_link_lost(link, reason);
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

void Session::tell_link_lost(const SessionLink& link, const std::string& reason) {
  env_.events.tell(
      "link-lost",
      {{"link", link.config.name}, {"links_up", uint64_t{up_.size()}}, {"reason", reason}});
  if (up_.empty()) return;
  std::string others;
  for (const Channel* channel : up_)
    others += (others.empty() ? "" : ",") + channel->link.config.name;
  env_.events.tell("failover", {{"link", link.config.name}, {"to", others}});
}

void Session::list_up() {
  up_.clear();
  for (const auto& link : links_)
    if (link->up != nullptr) up_.push_back(link->up);
}

// The session stands without any link. It ends if none can be had: at once if all refuse, else
// when the peer timeout has passed.
void Session::linger() {
  const bool now = i_am_preferred() || probe_ns_ != 0;  // the answer to a join is waited for
  for (const auto& link : links_) {
    link->tried = link->damped = false;
    schedule_join(*link, now ? 0 : limits::kSecondJoinDelay_ns);
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
    send_ordered(wire::RetireFrame{.incarnation = incarnation});
  } else {
    confirm_retirement(retirement);
  }
}

// Tells the peer that nothing that came over the connection can land here any more, once that is
// so.
void Session::confirm_retirement(Retirement& retirement) {
  if (retirement.by_us || owner_.working_for(retirement.incarnation)) return;
  retirement.by_us = true;
  send_ordered(wire::RetiredFrame{.incarnation = retirement.incarnation});
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
  if (incarnation > limits::kIncarnationMax || retirements_.size() >= kRetirementsMax) {
    lose(peer_ + " retires connections that there are not", limits::kReconnectDelayMin_ns);
    return;
  }
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
  requests_.each_on(incarnation, [this](PeerRequests::Entry& entry) { send_again(entry); });
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
      loads[count] = {meter.in_flight_bytes(), meter.rate_bytes_per_s(), meter.round_trip_ns(),
                      meter.proven()};
      channels[count++] = channel;
    }
    if (count > 0) break;
  }
  return channels[choose_link(std::span(loads).first(count), bytes)];
}

void Session::send_over(Channel& channel, PeerRequests::Entry& entry) {
  const uint64_t bytes = sizeof(FrameHeader) + entry.body.size();
  entry.incarnation = channel.incarnation;
  entry.sent_end_bytes = channel.connection->queued_bytes_total() + bytes;
  entry.stamp = channel.link.meter.sent(bytes, env_.clock.now_ns());
  FrameHeader header = entry.header;
  begin_sample(channel, entry, header);
  channel.connection->send(
      wire::seal(header, static_cast<uint32_t>(entry.body.size()), entry.body_crc), entry.body);
}

void Session::send_first(PeerRequests::Entry& entry) {
  if (Channel* channel = pick(sizeof(FrameHeader) + entry.body.size()))
    send_over(*channel, entry);
  else
    entry.incarnation = PeerRequests::kNoConnection;
}

// No link was up when it came, or the one that carried it is gone: the peer begins anew with it.
void Session::send_again(PeerRequests::Entry& entry) {
  resent_ns_ = env_.clock.now_ns();
  send_first(entry);
}

// --- liveness

uint64_t Session::tick_interval_ns() const {
  return std::min(limits::kHeartbeatInterval_ns, env_.config.link_timeout_ns / 4);
}

uint64_t Session::suspicious_ns() const {
  return std::min(limits::kSuspicious_ns, env_.config.link_timeout_ns * 3 / 5);
}

void Session::heartbeat(Channel& channel, uint64_t now) {
  const wire::HeartbeatFrame beat{
      .sent_ns = now,
      .echo_ns = channel.peer_tick,
      .held_ns = channel.peer_tick == 0 ? 0 : now - channel.peer_tick_at_ns,
      .received = control_.received(),
      .full = paused_,
      .disk_still_ns = owner_.disk_still_ns()};
  control_.confirmed();
  channel.connection->send(wire::seal(wire::to_header(beat)));
}

void Session::heartbeats(uint64_t now) {
  // What this node has not read because it has enough to do is not the peer's silence, and what the
  // peer takes from a long queue proves that our direction works before any answer to it can come.
  if (paused_) last_heard_ns_ = last_echo_ns_ = now;
  for (Channel* channel : up_) {
    if (paused_) channel->last_heard_ns = channel->last_echo_ns = now;
    // Before the heartbeat, which waits for the end of this turn and says nothing of a queue. Nor
    // does what the kernel has room for: of the bytes that were queued at the last tick some must
    // have left since, and some must wait still.
    const uint64_t sent = channel->connection->sent_bytes_total();
    const bool waits = sent < std::exchange(channel->queued_at_tick_bytes,
                                            channel->connection->queued_bytes_total());
    if (sent != std::exchange(channel->sent_at_tick_bytes, sent) && waits)
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
