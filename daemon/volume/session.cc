#include "volume/session.h"

#include <algorithm>
#include <utility>

#include "base/limits.h"
#include "volume/session_channel.h"

namespace twinblock {

using wire::FrameHeader;
using wire::FrameType;

Session::Session(Environment environment, SessionOwner& owner)
    : env_(std::move(environment)),
      owner_(owner),
      peer_(env_.config.other(env_.node).name),
      strangers_(env_.log) {
  for (const LinkConfig& link : env_.config.links) (void)add_link(link);
  dial_timer_ = env_.clock.make_timer([this] { dial(); });
  tick_timer_ = env_.clock.make_timer([this] { tick(); });
  resume_timer_ = env_.clock.make_timer([this] {
    for (Channel* channel : std::vector(up_))
      if (!paused_ && channel->phase == Channel::Phase::kUp) channel_readable(*channel);
  });
}

Session::~Session() = default;

bool Session::i_am_preferred() const { return env_.node < peer_; }

Status Session::start() {
  started_ = true;
  for (const auto& link : links_)
    if (Status listening = listen(*link); !listening) return listening;
  schedule_dial(i_am_preferred() ? 0 : limits::kSecondDialerDelay_ns);
  last_tick_ns_ = env_.clock.now_ns();
  tick_timer_->arm(tick_interval_ns());
  return ok_status();
}

void Session::stop(const std::string& reason) {
  stopped_ = true;
  dial_timer_->disarm();
  if (established_) send_ordered(wire::GoodbyeFrame{}, wire::text_bytes(reason));
}

void Session::poke() {
  for (auto& channel : channels_)
    if (channel->phase == Channel::Phase::kDraining && !owner_.draining()) {
      answer_hello(*channel);
      return;
    }
  if (!established_ && channels_.empty()) schedule_dial(0);
}

void Session::accepted(SessionLink& link, std::unique_ptr<Connection> connection) {
  if (stopped_) return;
  if (channels_.size() - up_.size() >= limits::kPendingConnectionsMax) {
    strangers_.tell("link " + link.config.name + ": " + connection->peer_address(),
                    "was closed: there are too many connections without a hello",
                    env_.clock.now_ns());
    return;
  }
  channels_.push_back(std::make_unique<Channel>(*this, link, std::move(connection), false,
                                                Channel::Purpose::kHandshake, env_.clock.now_ns()));
  Channel& channel = *channels_.back();
  channel.nonce = env_.random();
  channel.connection->send(wire::seal(wire::to_header(wire::ChallengeFrame{channel.nonce})));
}

void Session::discard(Channel& channel) {
  channel.close();
  const auto at = std::find_if(channels_.begin(), channels_.end(),
                               [&](const auto& held) { return held.get() == &channel; });
  if (at == channels_.end()) return;
  buried_.push_back(std::move(*at));
  channels_.erase(at);
}

void Session::note_error(const SessionLink& held, const std::string& error) {
  auto& link = const_cast<SessionLink&>(held);
  last_error_ = link.last_error = error;
  // A peer that stays away is reported once, not at every attempt.
  if (error == link.logged_error) return;
  link.logged_error = error;
  env_.events.tell("link-error", {{"link", link.config.name}, {"reason", error}});
  env_.log.log(Severity::kWarning, "link " + link.config.name + ": " + error);
}

void Session::channel_closed(Channel& channel, const std::string& reason) {
  if (channel.phase == Channel::Phase::kUp) {
    link_down(channel, "the connection to " + channel.address + " was closed (" + reason + ")");
    return;
  }
  if (channel.dialled() && channel.purpose == Channel::Purpose::kJoin) {
    join_failed(channel, reason,
                channel.phase == Channel::Phase::kConnecting ? JoinFailure::kUnreachable
                                                             : JoinFailure::kLater);
    return;
  }
  if (channel.unknown()) {
    if (!established_)
      strangers_.tell("link " + channel.link.config.name + ": " + channel.address,
                      "said no hello: " + reason, env_.clock.now_ns());
    discard(channel);
    return;
  }
  // Who can't be reached refuses nothing any more.
  if (channel.phase == Channel::Phase::kConnecting) refusal_.clear();
  SessionLink& link = channel.link;
  const bool accepted = !channel.dialled(), refused = channel.phase == Channel::Phase::kClosing;
  const std::string address = channel.address;
  link.answers = channel.phase != Channel::Phase::kConnecting;
  discard(channel);
  if (established_) return;
  // Who dials here has another address each time; that a refused one goes is as it should be.
  if (accepted && !refused)
    strangers_.tell("link " + link.config.name + ": " + address, reason, env_.clock.now_ns());
  if (!accepted && refusal_.empty()) note_error(link, reason);
  if (dial_timer_->armed()) return;
  // Every link is tried before a pause.
  const auto usable = static_cast<size_t>(
      std::count_if(links_.begin(), links_.end(), [](const auto& each) { return each->enabled; }));
  if (++dials_ < usable) {
    schedule_dial(0);
    return;
  }
  dials_ = 0;
  dial_delay_ns_ =
      std::clamp(dial_delay_ns_ * 2, limits::kReconnectDelayMin_ns, limits::kReconnectDelayMax_ns);
  schedule_dial(dial_delay_ns_);
}

void Session::channel_readable(Channel& channel) {
  channel.last_heard_ns = env_.clock.now_ns();
  if (channel.phase == Channel::Phase::kUp) last_heard_ns_ = channel.last_heard_ns;
  channel.reader.begin_turn();
  wire::Frame frame;
  while (channel.phase != Channel::Phase::kClosed) {
    // What has been read already waits, too (pause_reading).
    if (paused_ && channel.phase == Channel::Phase::kUp) return;
    switch (channel.reader.next(*channel.connection, frame)) {
      case wire::FrameReader::Outcome::kNothing:
        return;
      case wire::FrameReader::Outcome::kFrame:
        if (!handle(channel, frame)) return;
        break;
      case wire::FrameReader::Outcome::kError:
        refuse_frame(channel);
        return;
    }
  }
}

// What was damaged on its way comes again over another link. What the peer meant so is no frame of
// this version, however often it comes: then the session ends.
void Session::refuse_frame(Channel& channel) {
  const std::string why = "sent " + channel.reader.error();
  if (channel.phase != Channel::Phase::kUp)
    close_stranger(channel, why);
  else if (channel.reader.error_came_as_sent())
    lose(peer_ + " " + why, limits::kReconnectDelayMax_ns);
  else
    link_down(channel, channel.address + " " + why);
}

// Whether the channel is still open.
bool Session::handle(Channel& channel, wire::Frame& frame) {
  if (channel.phase != Channel::Phase::kUp) return handle_handshake(channel, frame);
  if (wire::is_ordered(frame.header)) {
    switch (control_.arrived(frame.header)) {
      case ControlStream::Arrival::kNext:
        last_control_ns_ = env_.clock.now_ns();
        if (control_.unconfirmed() >= limits::kControlFramesUnconfirmedMax)
          heartbeat(channel, last_control_ns_);
        return handle_control(channel, frame);
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
      handle_ack(channel, frame);
      break;
    case FrameType::kHeartbeat: {
      const uint64_t kept_bytes = control_.kept_bytes();
      if (!handle_heartbeat(channel, frame)) return false;
      if (control_.kept_bytes() < kept_bytes) owner_.control_confirmed();
      break;
    }
    case FrameType::kTimes:
      handle_times(channel, wire::frame_as<wire::TimesFrame>(frame.header));
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
  return channel.phase != Channel::Phase::kClosed;
}

// A frame of the control stream, each once and in order.
bool Session::handle_control(Channel& channel, wire::Frame& frame) {
  switch (static_cast<FrameType>(frame.header.type)) {
    case FrameType::kAck:
      handle_ack(channel, frame);
      break;
    case FrameType::kRetire:
      close_incarnation(wire::frame_as<wire::RetireFrame>(frame.header).incarnation,
                        peer_ + " has retired the connection");
      break;
    case FrameType::kRetired: {
      const auto retired = wire::frame_as<wire::RetiredFrame>(frame.header);
      close_incarnation(retired.incarnation, peer_ + " has retired the connection");
      handle_retired(retired.incarnation);
      break;
    }
    case FrameType::kGoodbye:
      lose(peer_ + " said goodbye: " + wire::printable(frame.payload),
           limits::kReconnectDelayMin_ns);
      break;
    default:
      owner_.session_frame(frame, PeerRequests::kControlStream);
      break;
  }
  return channel.phase != Channel::Phase::kClosed;
}

void Session::drop(const std::string& reason, uint64_t retry_delay_ns) {
  if (established_) lose(reason, retry_delay_ns);
}

void Session::lose(const std::string& reason, uint64_t retry_delay_ns) {
  established_ = false;
  std::vector<Channel*> theirs;
  for (const auto& channel : channels_)
    if (channel->phase == Channel::Phase::kUp || channel->phase == Channel::Phase::kParked ||
        (channel->dialled() && channel->purpose == Channel::Purpose::kJoin))
      theirs.push_back(channel.get());
  for (Channel* channel : theirs) {
    if (channel->phase == Channel::Phase::kUp) {
      channel->link.in_before_bytes += channel->reader.received_bytes_total();
      channel->link.out_before_bytes += channel->connection->sent_bytes_total();
    }
    discard(*channel);
  }
  for (const auto& link : links_) {
    link->up = nullptr;
    link->join_timer->disarm();
    link->meter.restarted();
    link->damped = false;
  }
  up_.clear();
  control_channel_ = nullptr;
  requests_.clear();
  control_.reset();
  retirements_.clear();
  probe_ns_ = 0;
  last_error_ = reason;
  refuse_until_ns_ = env_.clock.now_ns() + retry_delay_ns;
  env_.log.log(Severity::kWarning, "session with " + peer_ + " is lost: " + reason);
  const uint64_t share = i_am_preferred() ? 0 : limits::kSecondDialerDelay_ns;
  dial_delay_ns_ = std::max(retry_delay_ns, limits::kReconnectDelayMin_ns);
  schedule_dial(retry_delay_ns + share);
  owner_.session_lost(reason);
  owner_.links_changed();
  let_newcomer_in();
}

void Session::handle_ack(Channel& channel, wire::Frame& frame) {
  const bool control = wire::is_ordered(frame.header);
  const auto ack = wire::frame_as<wire::AckFrame>(frame.header);
  PeerRequests::Entry* entry = requests_.find(ack.request);
  const bool known =
      entry != nullptr &&
      (control ? entry->incarnation == PeerRequests::kControlStream
               : entry->incarnation == channel.incarnation &&
                     entry->sent_end_bytes <= channel.connection->sent_bytes_total());
  if (!known) {
    // An answer to what was not asked, or not sent yet: whoever sends that can't be trusted with a
    // buffer that may be still in use.
    lose(peer_ + " acknowledged a request that it was not sent (number " +
             std::to_string(ack.request) + ")",
         limits::kReconnectDelayMin_ns);
    return;
  }
  const uint64_t now = env_.clock.now_ns();
  uint64_t heard = entry->asked_ns;
  if (!control) {
    channel.link.meter.answered(entry->stamp, now);
    // The peer had it when its own time with it began.
    heard = std::max(entry->stamp.sent_ns, now - std::min(now, ack.held_ns));
    channel.last_echo_ns = std::max(channel.last_echo_ns, heard);
    time_request(channel, *entry, frame, now);
  }
  last_echo_ns_ = std::max(last_echo_ns_, heard);
  last_answer_ns_ = now;
  PeerRequest* request = entry->request;
  const PeerAnswer answer{entry->offset_bytes, static_cast<int>(ack.error), ack.held_ns,
                          ack.disk_ns, frame.payload};
  requests_.remove(*entry);
  request->answered(answer);
}

// Whether the channel is still open.
bool Session::handle_heartbeat(Channel& channel, const wire::Frame& frame) {
  const auto beat = wire::frame_as<wire::HeartbeatFrame>(frame.header);
  const uint64_t now = env_.clock.now_ns();
  if (!control_.peer_has(beat.received)) {
    lose(peer_ + " has received more than it was sent", limits::kReconnectDelayMin_ns);
    return false;
  }
  disk_got_on_ns_ = std::max(disk_got_on_ns_, now - std::min(now, beat.disk_still_ns));
  if (frame.arrived_ns != 0)
    (void)channel.answers.arrived_ns(beat.sent_ns, frame.arrived_ns, frame.arrived_alone);
  channel.peer_tick = beat.sent_ns;
  channel.peer_tick_at_ns = now;
  const uint64_t echo = beat.echo_ns;
  if (echo == 0 || echo > now) return true;
  if (probe_ns_ != 0 && echo >= probe_ns_) session_answers();
  answered_beat_ns_ = std::max(answered_beat_ns_, echo);
  // The peer heard a beat `held_ns` before it sent this one: however long that beat was under way
  // behind other frames, our direction works. One that has stopped reading, as it has enough to do,
  // says so.
  const uint64_t heard = beat.full ? now : std::max(echo, now - std::min(now, beat.held_ns));
  channel.last_echo_ns = std::max(channel.last_echo_ns, heard);
  last_echo_ns_ = std::max(last_echo_ns_, heard);
  if (now - echo >= beat.held_ns) {
    channel.round_trip_ns = now - echo - beat.held_ns;
    channel.link.meter.round_trip(*channel.round_trip_ns, now);
  }
  return true;
}

// Heartbeats, silence, and handshakes that do not come to an end.
void Session::tick() {
  buried_.clear();
  removed_.clear();
  const uint64_t now = env_.clock.now_ns();
  const bool stalled = now - last_tick_ns_ > 5 * tick_interval_ns();
  last_tick_ns_ = now;
  tick_timer_->arm(tick_interval_ns());
  strangers_.tick(now);
  time_out_handshakes(now);
  if (!established_) return;
  heartbeats(now);
  owner_.links_changed();
  // After a pause of this process, what the peer sent meanwhile has not been read yet.
  if (stalled) {
    const uint64_t half = now - env_.config.peer_timeout_ns / 2;
    last_heard_ns_ = std::max(last_heard_ns_, half);
    last_echo_ns_ = std::max(last_echo_ns_, half);
    for (Channel* channel : up_) channel->last_heard_ns = channel->last_echo_ns = now;
    return;
  }
  const uint64_t timeout = env_.config.peer_timeout_ns;
  if (now - last_heard_ns_ > timeout)
    lose(peer_ + " has been silent for " + format_duration(now - last_heard_ns_), 0);
  else if (now - last_echo_ns_ > timeout)
    lose(peer_ + " has not heard this node for " + format_duration(now - last_echo_ns_), 0);
  else if (carries_nothing(now))
    lose("the links to " + peer_ + " are up, but nothing comes through", 0);
  else if (const auto hangs = hangs_ns(now))
    lose(peer_ + " is alive but has not finished a request for " + format_duration(*hangs) +
             "; its disk may hang",
         10 * limits::kReconnectDelayMax_ns);
  else
    look_for_silence(now);
  judge_probe(now);
}

// For how long a request has waited, if a disk that works would have done it by now. What such a
// disk needs for it can't be told from its length: it may have a queue before it, and a flush
// writes what came in half a minute. So a request gets longer while the peer's disk gets on, as its
// heartbeats say; but only so much, since one may hang while others are done.
std::optional<uint64_t> Session::hangs_ns(uint64_t now) {
  const uint64_t timeout = env_.config.disk_timeout_ns;
  const bool gets_on = now - std::min(now, disk_got_on_ns_) <= timeout;
  std::optional<uint64_t> hangs;
  requests_.each_while([&](const PeerRequests::Entry& entry) {
    if (now - entry.asked_ns <= timeout) return false;  // those behind it are younger
    // An answer on the control stream follows what comes before it there.
    const bool control = entry.incarnation == PeerRequests::kControlStream;
    const uint64_t asked_ns =
        std::max(entry.asked_ns, control ? last_control_ns_ : std::min(now, resent_ns_));
    const uint64_t limit = gets_on && !control ? limits::kDiskPatience * timeout : timeout;
    if (now - std::min(now, asked_ns) > limit) hangs = now - asked_ns;
    return !hangs;
  });
  return hangs;
}

// Links that join, but carry no data: requests are old, nothing was answered for as long, and
// connections were replaced meanwhile.
bool Session::carries_nothing(uint64_t now) const {
  if (requests_.empty()) return false;
  const uint64_t since = std::max(requests_.oldest_asked_ns(), last_answer_ns_);
  return now - since > env_.config.peer_timeout_ns && replaced_ns_ > since;
}

void Session::time_out_handshakes(uint64_t now) {
  // With another link to try, a connection that brings nothing is not waited for as long.
  const uint64_t patience =
      links_.size() > 1 || established_ ? limits::kLinkPatience_ns : limits::kHandshakeTimeout_ns;
  std::vector<Channel*> late;
  for (auto& channel : channels_)
    if (channel->phase != Channel::Phase::kUp && channel->phase != Channel::Phase::kDraining &&
        now - channel->opened_ns > (channel->dialled() ? patience : limits::kHandshakeTimeout_ns))
      late.push_back(channel.get());
  for (Channel* channel : late) {
    if (channel->phase == Channel::Phase::kClosed) continue;
    if (channel->dialled() && channel->purpose == Channel::Purpose::kJoin) {
      join_failed(*channel, "connect to " + channel->address + ": no answer",
                  JoinFailure::kNoAnswer);
      continue;
    }
    channel_closed(*channel, channel->unknown() ? "it took too long"
                             : channel->phase == Channel::Phase::kConnecting
                                 ? "connect to " + channel->address + ": no answer"
                                 : "the handshake did not end in time");
  }
}

void Session::put_in_order(const FrameHeader& header, std::span<const std::byte> payload) {
  control_.send(header, payload,
                control_channel_ != nullptr ? control_channel_->connection.get() : nullptr);
}

void Session::ask_in_order(const FrameHeader& header, std::span<const std::byte> payload,
                           PeerRequest& waiter) {
  PeerRequests::Entry& entry = requests_.add(waiter, header, env_.clock.now_ns());
  entry.incarnation = PeerRequests::kControlStream;
  put_in_order(entry.header, payload);
}

void Session::ask_somewhere(const FrameHeader& header, uint64_t offset_bytes,
                            std::span<const std::byte> body, uint32_t crc, PeerRequest& waiter) {
  PeerRequests::Entry& entry = requests_.add(waiter, header, env_.clock.now_ns());
  entry.offset_bytes = offset_bytes;
  entry.body = body;
  entry.body_crc = crc;
  send_first(entry);
}

void Session::answer_unordered(uint64_t incarnation, const wire::AckFrame& ack,
                               std::span<const std::byte> body, uint32_t crc) {
  Channel* channel = channel_of(incarnation);
  if (channel == nullptr) return;
  channel->connection->send(
      wire::seal(wire::to_header(ack), static_cast<uint32_t>(body.size()), crc), body);
}

uint64_t Session::queued_bytes_total(uint64_t incarnation) const {
  const Channel* channel = channel_of(incarnation);
  return channel != nullptr ? channel->connection->queued_bytes_total() : 0;
}

uint64_t Session::sent_bytes_total(uint64_t incarnation) const {
  const Channel* channel = channel_of(incarnation);
  return channel != nullptr ? channel->connection->sent_bytes_total() : ~uint64_t{0};
}

uint64_t Session::unsent_bytes() const {
  uint64_t bytes = 0;
  for (const Channel* channel : up_) bytes += channel->unsent_bytes();
  return bytes;
}

void Session::pause_reading(bool paused) {
  paused_ = paused;
  if (!paused) resume_timer_->arm(0);
  for (Channel* channel : up_) channel->connection->pause_reading(paused);
}

}  // namespace twinblock
