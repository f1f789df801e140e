#include "volume/session.h"

#include <algorithm>
#include <utility>

#include "base/limits.h"
#include "volume/session_channel.h"

namespace twinblock {

using wire::FrameHeader;
using wire::FrameType;
using wire::header_of;

Session::Session(Environment environment, SessionOwner& owner)
    : env_(std::move(environment)), owner_(owner), peer_(env_.config.other(env_.node).name) {
  const LinkConfig& link = env_.config.links.front();
  link_ = LinkAddresses{link.name, link.address.at(env_.node), link.address.at(peer_)};
  dial_timer_ = env_.clock.make_timer([this] { dial(); });
  tick_timer_ = env_.clock.make_timer([this] { tick(); });
}

Session::~Session() = default;

bool Session::i_am_preferred() const { return env_.node < peer_; }

Status Session::start() {
  Status listening = env_.network.listen(
      link_, [this](std::unique_ptr<Connection> connection) { accepted(std::move(connection)); },
      [this](const std::string& why) {
        env_.log.log(Severity::kWarning, "link " + link_.name + ": " + why);
      });
  if (!listening) return listening;
  schedule_dial(i_am_preferred() ? 0 : limits::kSecondDialerDelay_ns);
  last_tick_ns_ = env_.clock.now_ns();
  tick_timer_->arm(limits::kHeartbeatInterval_ns);
  return ok_status();
}

void Session::stop(const std::string& reason) {
  stopped_ = true;
  dial_timer_->disarm();
  if (current_ != nullptr && established_)
    send_small(header_of(FrameType::kGoodbye), wire::text_bytes(reason));
}

void Session::schedule_dial(uint64_t delay_ns) {
  if (!stopped_) dial_timer_->arm(delay_ns);
}

void Session::poke() {
  for (auto& channel : channels_)
    if (channel->phase == Channel::Phase::kDraining && !owner_.draining()) {
      answer_hello(*channel);
      return;
    }
  if (!established_ && channels_.empty()) schedule_dial(0);
}

void Session::dial() {
  if (stopped_ || established_) return;
  const bool busy = std::any_of(channels_.begin(), channels_.end(), [](const auto& channel) {
    return channel->dialled() || channel->phase >= Channel::Phase::kDraining;
  });
  if (busy) return;
  if (owner_.draining()) {
    schedule_dial(limits::kReconnectDelayMin_ns);
    return;
  }
  channels_.push_back(
      std::make_unique<Channel>(*this, env_.network.dial(link_), true, env_.clock.now_ns()));
}

void Session::accepted(std::unique_ptr<Connection> connection) {
  if (stopped_) return;
  if (channels_.size() >= limits::kPendingConnectionsMax) {
    env_.log.log(Severity::kWarning, "link " + link_.name + ": too many connections from " +
                                         connection->peer_address() +
                                         " without a hello; closed the newest");
    return;
  }
  channels_.push_back(
      std::make_unique<Channel>(*this, std::move(connection), false, env_.clock.now_ns()));
}

void Session::discard(Channel& channel) {
  channel.close();
  if (current_ == &channel) current_ = nullptr;
  const auto at = std::find_if(channels_.begin(), channels_.end(),
                               [&](const auto& held) { return held.get() == &channel; });
  if (at == channels_.end()) return;
  buried_.push_back(std::move(*at));
  channels_.erase(at);
}

void Session::bury() { buried_.clear(); }

void Session::note_error(const std::string& error) {
  last_error_ = error;
  // A peer that stays away is reported once, not at every attempt.
  if (error == logged_error_) return;
  logged_error_ = error;
  env_.log.log(Severity::kWarning, "link " + link_.name + ": " + error);
}

void Session::channel_closed(Channel& channel, const std::string& reason) {
  if (&channel == current_ && established_) {
    lose("the connection to " + channel.address + " was closed (" + reason + ")", 0);
    return;
  }
  // Who can't be reached refuses nothing any more.
  if (channel.phase == Channel::Phase::kConnecting) refusal_.clear();
  discard(channel);
  if (refusal_.empty()) note_error(reason);
  if (established_ || dial_timer_->armed()) return;
  dial_delay_ns_ =
      std::clamp(dial_delay_ns_ * 2, limits::kReconnectDelayMin_ns, limits::kReconnectDelayMax_ns);
  schedule_dial(dial_delay_ns_);
}

void Session::channel_readable(Channel& channel) {
  last_heard_ns_ = &channel == current_ ? env_.clock.now_ns() : last_heard_ns_;
  channel.reader.begin_turn();
  wire::Frame frame;
  while (channel.phase != Channel::Phase::kClosed) {
    switch (channel.reader.next(*channel.connection, frame)) {
      case wire::FrameReader::Outcome::kNothing:
        return;
      case wire::FrameReader::Outcome::kFrame:
        if (!handle(channel, frame)) return;
        break;
      case wire::FrameReader::Outcome::kError: {
        const std::string why = channel.address + " sent " + channel.reader.error();
        if (&channel == current_ && established_) {
          lose(why, limits::kReconnectDelayMin_ns);
        } else {
          env_.log.log(Severity::kWarning, "link " + link_.name + ": closed: " + why);
          channel_closed(channel, why);
        }
        return;
      }
    }
  }
}

// Whether the channel is still open.
bool Session::handle(Channel& channel, wire::Frame& frame) {
  if (channel.phase != Channel::Phase::kUp) return handle_handshake(channel, frame);
  switch (static_cast<FrameType>(frame.header.type)) {
    case FrameType::kAck:
      handle_ack(frame);
      break;
    case FrameType::kHeartbeat:
      handle_heartbeat(frame.header);
      break;
    case FrameType::kHello:
    case FrameType::kVerdict:
    case FrameType::kRefuse:
      lose(channel.address + " sent a " + wire::frame_type_name(frame.header.type) +
               " frame within the session",
           limits::kReconnectDelayMin_ns);
      break;
    case FrameType::kGoodbye:
      lose(peer_ + " said goodbye: " + wire::printable(frame.payload),
           limits::kReconnectDelayMin_ns);
      break;
    default:
      owner_.session_frame(frame);
      break;
  }
  return channel.phase != Channel::Phase::kClosed;
}

void Session::drop(const std::string& reason, uint64_t retry_delay_ns) {
  if (established_) lose(reason, retry_delay_ns);
}

void Session::lose(const std::string& reason, uint64_t retry_delay_ns) {
  established_ = false;
  Channel* lost = current_;
  current_ = nullptr;
  discard(*lost);
  requests_.clear();
  last_error_ = reason;
  refuse_until_ns_ = env_.clock.now_ns() + retry_delay_ns;
  env_.log.log(Severity::kWarning, "session with " + peer_ + " is lost: " + reason);
  const uint64_t share = i_am_preferred() ? 0 : limits::kSecondDialerDelay_ns;
  dial_delay_ns_ = std::max(retry_delay_ns, limits::kReconnectDelayMin_ns);
  schedule_dial(retry_delay_ns + share);
  owner_.session_lost(reason);
}

void Session::handle_ack(wire::Frame& frame) {
  const PeerRequests::Entry entry = requests_.take(frame.header.sequence);
  if (entry.request == nullptr || entry.sent_end_bytes > sent_bytes_total()) {
    // An answer to what was not asked, or not sent yet: whoever sends that can't be trusted with a
    // buffer that may be still in use.
    lose(peer_ + " acknowledged a request that it was not sent (number " +
             std::to_string(frame.header.sequence) + ")",
         limits::kReconnectDelayMin_ns);
    return;
  }
  last_echo_ns_ = std::max(last_echo_ns_, entry.asked_ns);
  entry.request->answered(frame.header, frame.payload);
}

void Session::handle_heartbeat(const FrameHeader& header) {
  const uint64_t now = env_.clock.now_ns();
  peer_tick_ = header.offset;
  peer_tick_at_ns_ = now;
  const uint64_t echo = header.length;
  if (echo == 0 || echo > now) return;
  last_echo_ns_ = std::max(last_echo_ns_, echo);
  if (now - echo >= header.aux0) round_trip_ns_ = now - echo - header.aux0;
}

// Heartbeats, silence, and handshakes that do not come to an end.
void Session::tick() {
  bury();
  const uint64_t now = env_.clock.now_ns();
  const bool stalled = now - last_tick_ns_ > 5 * limits::kHeartbeatInterval_ns;
  last_tick_ns_ = now;
  tick_timer_->arm(limits::kHeartbeatInterval_ns);

  std::vector<Channel*> late;
  for (auto& channel : channels_)
    if (channel->phase != Channel::Phase::kUp && channel->phase != Channel::Phase::kDraining &&
        now - channel->opened_ns > limits::kHandshakeTimeout_ns)
      late.push_back(channel.get());
  for (Channel* channel : late)
    channel_closed(*channel, channel->phase == Channel::Phase::kConnecting
                                 ? "connect to " + channel->address + ": no answer"
                                 : channel->address + " did not finish the handshake in time");

  if (!established_) return;
  FrameHeader beat = header_of(FrameType::kHeartbeat);
  beat.offset = now;
  beat.length = peer_tick_;
  beat.aux0 = peer_tick_ == 0 ? 0 : now - peer_tick_at_ns_;
  send(beat);
  // After a pause of this process, what the peer sent meanwhile has not been read yet.
  if (stalled) {
    last_heard_ns_ = std::max(last_heard_ns_, now - env_.config.peer_timeout_ns / 2);
    last_echo_ns_ = std::max(last_echo_ns_, now - env_.config.peer_timeout_ns / 2);
    return;
  }
  // What this node has not read because it has enough to do is not the peer's silence, and what the
  // peer takes from a long queue proves that our direction works before any answer to it can come.
  if (paused_) last_heard_ns_ = now;
  const uint64_t sent = sent_bytes_total();
  if (sent != std::exchange(sent_at_tick_bytes_, sent) && sent < queued_bytes_total())
    last_echo_ns_ = now;
  const uint64_t timeout = env_.config.peer_timeout_ns;
  if (now - last_heard_ns_ > timeout)
    lose(peer_ + " has been silent for " + format_duration(now - last_heard_ns_), 0);
  else if (now - last_echo_ns_ > timeout)
    lose(peer_ + " has not heard this node for " + format_duration(now - last_echo_ns_), 0);
  else if (!requests_.empty() && now - requests_.oldest_asked_ns() > env_.config.disk_timeout_ns)
    lose(peer_ + " is alive but has not finished a request for " +
             format_duration(now - requests_.oldest_asked_ns()) + "; its disk may hang",
         10 * limits::kReconnectDelayMax_ns);
}

void Session::send(const FrameHeader& header) { current_->connection->send(wire::seal(header)); }

void Session::send_small(const FrameHeader& header, std::span<const std::byte> payload) {
  current_->connection->send(wire::seal(header, payload));
  current_->connection->send(payload);
}

void Session::send_body(const FrameHeader& header, std::span<const std::byte> body, uint32_t crc) {
  current_->connection->send(wire::seal(header, static_cast<uint32_t>(body.size()), crc), body);
}

void Session::request(FrameHeader header, std::span<const std::byte> body, uint32_t crc,
                      PeerRequest& waiter) {
  const uint64_t end = queued_bytes_total() + sizeof header + body.size();
  header.sequence = requests_.add(waiter, end, env_.clock.now_ns());
  send_body(header, body, crc);
}

void Session::request_small(FrameHeader header, std::span<const std::byte> payload,
                            PeerRequest& waiter) {
  const uint64_t end = queued_bytes_total() + sizeof header + payload.size();
  header.sequence = requests_.add(waiter, end, env_.clock.now_ns());
  send_small(header, payload);
}

uint64_t Session::queued_bytes_total() const { return current_->connection->queued_bytes_total(); }
uint64_t Session::sent_bytes_total() const { return current_->connection->sent_bytes_total(); }
void Session::pause_reading(bool paused) {
  paused_ = paused;
  if (current_ != nullptr) current_->connection->pause_reading(paused);
}

Session::LinkState Session::link_state() const {
  if (established_) return LinkState::kUp;
  if (!refusal_.empty()) return LinkState::kRefused;
  return channels_.empty() ? LinkState::kDown : LinkState::kConnecting;
}

}  // namespace twinblock
