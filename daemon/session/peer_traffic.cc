#include "session/peer_traffic.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/checks.h"
#include "base/limits.h"
#include "mirror/link_choice.h"

namespace twinblock {

using wire::FrameHeader;

PeerTraffic::PeerTraffic(const SessionEnvironment& env, Links& links, ControlStream& control,
                         Heartbeats& heartbeats, TripSampler& sampler)
    : env_(env), links_(links), control_(control), heartbeats_(heartbeats), sampler_(sampler) {}

// --- to the peer

void PeerTraffic::put_in_order(const FrameHeader& header, std::span<const std::byte> payload) {
  control_.send(header, payload,
                control_channel_ != nullptr ? &control_channel_->connection() : nullptr);
}

void PeerTraffic::ask_in_order(const FrameHeader& header, std::span<const std::byte> payload,
                               PeerRequest& waiter) {
  const PeerRequests::Entry& entry = requests_.add(waiter, {header, 0, {}, 0}, env_.clock.now_ns());
  requests_.put_in_order(entry);
  put_in_order(entry.header, payload);
}

void PeerTraffic::ask_somewhere(const FrameHeader& header, uint64_t offset_bytes,
                                std::span<const std::byte> body, uint32_t crc,
                                PeerRequest& waiter) {
  send(requests_.add(waiter, {header, offset_bytes, body, crc}, env_.clock.now_ns()));
}

void PeerTraffic::answer(uint64_t incarnation, const wire::AckFrame& ack,
                         std::span<const std::byte> body, uint32_t crc) {
  Channel* channel = links_.of(incarnation);
  if (channel == nullptr) return;
  channel->connection().send(
      wire::seal(wire::to_header(ack), static_cast<uint32_t>(body.size()), crc), body);
}

Channel* PeerTraffic::pick(uint64_t bytes, const Link* lost_on) const {
  const std::vector<Channel*>& up = links_.up();
  if (up.size() <= 1) return up.empty() ? nullptr : up.front();
  const uint64_t now = env_.clock.now_ns();
  std::array<LinkLoad, limits::kLinksMax> loads;
  std::array<Channel*, limits::kLinksMax> channels;
  size_t count = 0;
  for (const bool suspicious_too : {false, true}) {
    for (Channel* channel : up) {
      if (!suspicious_too && channel->silent_ns(env_.lateness, now) > heartbeats_.suspicious_ns()) continue;
      const LinkMeter& meter = channel->link().meter();
      loads[count] = {meter.in_flight_bytes(), meter.rate_bytes_per_s(), meter.round_trip_ns(),
                      meter.proven(), &channel->link() == lost_on};
      channels[count++] = channel;
    }
    if (count > 0) break;
  }
  return channels[choose_link(std::span(loads).first(count), bytes, env_.config.link_timeout_ns)];
}

void PeerTraffic::send_over(Channel& channel, const PeerRequests::Entry& entry) {
  const uint64_t bytes = sizeof(FrameHeader) + entry.body.size();
  requests_.put_over(entry, channel.link(), channel.incarnation(),
                     channel.connection().queued_bytes_total() + bytes,
                     channel.link().meter().sent(bytes, env_.clock.now_ns()));
  FrameHeader header = entry.header;
  sampler_.begin(channel, entry, header);
  channel.connection().send(
      wire::seal(header, static_cast<uint32_t>(entry.body.size()), entry.body_crc), entry.body);
}

void PeerTraffic::send(const PeerRequests::Entry& entry) {
  if (Channel* channel = pick(sizeof(FrameHeader) + entry.body.size(), entry.link))
    send_over(*channel, entry);
  else
    requests_.put_off(entry);
}

// --- sessions and connections

void PeerTraffic::session_up() {
  TB_CHECK(requests_.empty(), "what is asked without a session is never sent, and waits for its answer");
  last_answer_ns_ = 0;
  control_.reset();
}

void PeerTraffic::session_lost() {
  control_channel_ = nullptr;
  requests_.clear();
  control_.reset();
}

void PeerTraffic::channel_up(Channel& channel) {
  if (control_channel_ == nullptr) {
    control_channel_ = &channel;
    control_.attach(channel.connection());
  }
  send_again(PeerRequests::kNoConnection);
}

void PeerTraffic::channel_down(const Channel& channel, LinkEnd end) {
  if (!requests_.empty()) {
    const uint64_t since_ns = in_doubt_since_ns();
    if (std::exchange(partings_of_ns_, since_ns) != since_ns) partings_ = renewals_ = 0;
    if (end == LinkEnd::kRenewed)
      ++renewals_;
    else if (links_.up().empty())
      ++partings_;
  }
  if (control_channel_ != &channel) return;
  control_channel_ = pick(0);
  if (control_channel_ != nullptr) control_.attach(control_channel_->connection());
}

// No link was up when they came, or the one that carried them is gone.
void PeerTraffic::send_again(uint64_t incarnation) {
  requests_.each_on(incarnation, [this](const PeerRequests::Entry& entry) {
    resent_ns_ = env_.clock.now_ns();
    send(entry);
  });
}

// --- from the peer

ControlStream::Arrival PeerTraffic::arrived(Channel& channel, const FrameHeader& header) {
  const ControlStream::Arrival arrival = control_.arrived(header);
  if (arrival != ControlStream::Arrival::kNext) return arrival;
  last_control_ns_ = env_.clock.now_ns();
  if (control_.unconfirmed() >= limits::kControlFramesUnconfirmedMax)
    heartbeats_.send(channel, last_control_ns_);
  return arrival;
}

bool PeerTraffic::take_ack(Channel& channel, wire::Frame& frame) {
  const bool control = wire::is_ordered(frame.header);
  const auto ack = wire::frame_as<wire::AckFrame>(frame.header);
  const PeerRequests::Entry* entry = requests_.find(ack.request);
  const bool known =
      entry != nullptr &&
      (control ? entry->incarnation == PeerRequests::kControlStream
               : entry->incarnation == channel.incarnation() &&
                     entry->sent_end_bytes <= channel.connection().sent_bytes_total());
  if (!known) return false;
  const uint64_t now = env_.clock.now_ns();
  uint64_t heard = entry->asked_ns;
  if (!control) {
    const uint64_t arrived = frame.arrived_ns == 0 ? now : std::min(frame.arrived_ns, now);
    channel.link().meter().answered(entry->stamp, ack.held_ns, arrived, now);
    // The peer had it when its own time with it began.
    heard = std::max(entry->stamp.sent_ns, now - std::min(now, ack.held_ns));
    sampler_.time(channel, *entry, frame, now);
  }
  heartbeats_.heard_by_peer(control ? nullptr : &channel, heard);
  last_answer_ns_ = now;
  PeerRequest* request = entry->request;
  const PeerAnswer answer{entry->offset_bytes, static_cast<int>(ack.error), ack.held_ns,
                          ack.disk_ns, frame.payload};
  requests_.remove(*entry);
  request->answered(answer);
  return true;
}

// What a disk that works needs for a request can't be told from its length: it may have a queue
// before it, and a flush writes what came in half a minute. So a request gets longer while the
// peer's disk gets on, as its heartbeats say; but only so much, since one may hang while others are
// done.
std::optional<uint64_t> PeerTraffic::hangs_ns(uint64_t now) const {
  const uint64_t timeout = env_.config.disk_timeout_ns;
  const auto passed_ns = [&](uint64_t since_ns) { return env_.lateness.passed_ns(since_ns, now); };
  const uint64_t age_max_ns = std::max(limits::kRequestPatience * limits::kDiskPatience * timeout,
                                       2 * env_.config.peer_timeout_ns);
  const bool gets_on = passed_ns(heartbeats_.disk_got_on_ns()) <= timeout;
  // What was sent again may have been begun then. But what the peer has already is not begun twice: one whose disk does
  // nothing at all is not waited for longer because the links part.
  const bool stands_still = !gets_on && heartbeats_.disk_still_ns() > timeout;
  const uint64_t resent_ns = stands_still ? 0 : std::min(now, resent_ns_);
  std::optional<uint64_t> hangs;
  requests_.each_while([&](const PeerRequests::Entry& entry) {
    if (passed_ns(entry.asked_ns) <= timeout) return false;  // those behind it are younger
    // An answer on the control stream follows what comes before it there.
    const bool control = entry.incarnation == PeerRequests::kControlStream;
    const uint64_t asked_ns = std::max(entry.asked_ns, control ? last_control_ns_ : resent_ns);
    const uint64_t limit = gets_on && !control ? limits::kDiskPatience * timeout : timeout;
    if (passed_ns(asked_ns) > limit) hangs = passed_ns(asked_ns);
    if (passed_ns(entry.asked_ns) > age_max_ns) hangs = passed_ns(entry.asked_ns);
    return !hangs;
  });
  return hangs;
}

// What is small gets through where others do, and waits for the peer's disk: only the time since the last answer tells
// anything. What is large may be what the links do not carry.
uint64_t PeerTraffic::in_doubt_since_ns() const {
  uint64_t since_ns = UINT64_MAX;
  requests_.each_while([&](const PeerRequests::Entry& entry) {
    const auto type = static_cast<wire::FrameType>(entry.header.type);
    const bool large = !entry.body.empty() || type == wire::FrameType::kRead || type == wire::FrameType::kDigest;
    since_ns = std::min(since_ns, large ? entry.asked_ns : std::max(entry.asked_ns, last_answer_ns_));
    return !large;
  });
  return since_ns;
}

bool PeerTraffic::carries_nothing(uint64_t now, uint64_t replaced_ns) const {
  if (requests_.empty()) return false;
  // A peer's slow disk is no parting, and nothing that other connections do not carry. But what it is busy with may be
  // what is small, while the links part over what is large: that is believed for as long as a disk may take.
  const bool busy = heartbeats_.disk_still_ns() > 0;
  const uint64_t oldest_ns = requests_.oldest_asked_ns();
  const uint64_t since_ns = std::max(oldest_ns, last_answer_ns_);
  const auto is_old = [&](uint64_t moment_ns) {
    return env_.lateness.passed_ns(moment_ns, now) > env_.config.peer_timeout_ns;
  };
  if (replaced_ns > since_ns && is_old(since_ns) && !busy) return true;
  const uint64_t in_doubt_ns = in_doubt_since_ns();
  const bool too_many = partings_ > limits::kPartingsMax || renewals_ > limits::kRenewalsMax;
  if (partings_of_ns_ != in_doubt_ns || !too_many || !is_old(in_doubt_ns)) return false;
  return !busy || env_.lateness.passed_ns(in_doubt_ns, now) > env_.config.disk_timeout_ns;
}

}  // namespace twinblock
