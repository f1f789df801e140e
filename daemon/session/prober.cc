#include "session/prober.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "base/crc32c.h"
#include "base/limits.h"
#include "base/units.h"
#include "session/hello.h"

namespace twinblock {

using wire::FrameType;

namespace {

constexpr uint64_t kTurn_ns = 1 * kMillisecond_ns;
constexpr uint64_t kPatience_ns = 5 * kSecond_ns;
constexpr uint64_t kUnderWayOfArrived = 4;  // at most, beside kProbeAheadBytesMin

// What a stream consists of: bytes that no link compresses.
const std::array<std::byte, limits::kProbePayloadBytesMax>& filling() {
  static const auto kFilling = [] {
    std::array<std::byte, limits::kProbePayloadBytesMax> bytes{};
    uint64_t state = 0x9e3779b97f4a7c15;  // xorshift64: Marsaglia, 2003
    for (std::byte& byte : bytes) {
      state ^= state << 13;
      state ^= state >> 7;
      state ^= state << 17;
      byte = static_cast<std::byte>(state);
    }
    return bytes;
  }();
  return kFilling;
}

}  // namespace

Prober::Prober(const SessionEnvironment& env, Links& links)
    : env_(env), links_(links), timer_(env.clock.make_timer([this] { turn(); })) {}

Channel* Prober::channel() const {
  const auto found = links_.channels(
      [](const Channel& each) { return each.dialled() && each.probes(); });
  return found.empty() ? nullptr : found.front();
}

bool Prober::under_way() const {
  return result_ && result_->stage != ProbeStage::kDone && result_->stage != ProbeStage::kFailed;
}

Result<uint64_t> Prober::begin(const std::string& name, uint64_t duty) {
  Link* link = links_.find(name);
  if (link == nullptr) return Error{"there is no link " + name, "the links are " + links_.names(), 0};
  if (under_way())
    return Error{"link " + result_->link + " is being probed", "wait until that has ended", 0};
  const uint64_t now = env_.clock.now_ns();
  result_.emplace();
  result_->number = ++count_;
  result_->link = name;
  result_->here = env_.network.host_of(link->addresses());
  duty_ = duty;
  asked_ = talk_ = 0;
  round_trips_ = true;
  heard_ns_ = now;
  passed_on_bytes_ = 0;
  deadline_ns_ = now + limits::kProbeMax_ns;
  links_.open(*link, env_.network.dial(link->addresses()), true, Channel::Purpose::kProbe);
  timer_->arm(kTurn_ns);
  return result_->number;
}

// --- frames

bool Prober::challenged(Channel& channel, uint64_t nonce) {
  channel.enter(Channel::Phase::kMeasuring);
  channel.connection().send(wire::seal(wire::to_header(wire::ProbeFrame{nonce})));
  return true;
}

bool Prober::take(Channel& channel, const wire::Frame& frame) {
  heard_ns_ = env_.clock.now_ns();
  switch (static_cast<FrameType>(frame.header.type)) {
    case FrameType::kProbeHost:
      if (result_->stage != ProbeStage::kConnecting) break;
      result_->there = probe_host_of(wire::payload_as<wire::ProbeHostPayload>(frame.payload));
      result_->protection = channel.connection().protection();
      result_->stage = ProbeStage::kTalking;
      next_ask(channel);
      return true;
    case FrameType::kProbeAnswer:
      if (result_->stage != ProbeStage::kTalking ||
          wire::frame_as<wire::ProbeAnswerFrame>(frame.header).number != asked_)
        break;
      answered(channel);
      return true;
    case FrameType::kProbeReport:
      if (result_->stage != ProbeStage::kStreaming || !all_sent_) break;
      return reported(channel, frame);
    case FrameType::kRefuse:
      fail(env_.peer() + " refuses: " + wire::printable(frame.payload));
      return false;
    default:
      break;
  }
  fail(env_.peer() + " sent a " + wire::frame_type_name(frame.header.type) +
       " frame that was not asked for");
  return false;
}

void Prober::closed(Channel& channel, const std::string& reason) {
  if (!channel.reached()) {
    fail(reason);
    return;
  }
  const bool answered = result_ && result_->stage != ProbeStage::kConnecting;
  fail("the connection to " + channel.address() + " was closed (" + reason + ")" +
       (answered ? "" : "; a node of an earlier version knows no probes"));
}

void Prober::fail(const std::string& why) {
  if (Channel* open = channel()) links_.discard(*open);
  timer_->disarm();
  if (!under_way()) return;
  result_->stage = ProbeStage::kFailed;
  result_->error = why;
}

// --- to and fro

void Prober::ask(Channel& channel, size_t bytes) {
  const auto payload = std::span(filling()).first(bytes);
  channel.connection().send(wire::seal(wire::to_header(wire::ProbeAskFrame{++asked_}), payload), payload);
  asked_ns_ = env_.clock.now_ns();
}

void Prober::answered(Channel& channel) {
  const uint64_t now = env_.clock.now_ns();
  if (round_trips_) {
    result_->round_trips_ns.push_back(now - asked_ns_);
    round_trips_ = result_->round_trips_ns.size() < limits::kProbeRoundTrips &&
                   now - talk_began_ns_ < 10 * limits::kProbeTalk_ns;
    if (!round_trips_) talk_began_ns_ = 0;
  } else {
    ProbeTalk& talk = result_->talks.at(talk_);
    ++talk.count;
    talk.passed_ns = now - talk_began_ns_;
    if (talk.passed_ns >= limits::kProbeTalk_ns) {
      ++talk_;
      talk_began_ns_ = 0;
    }
  }
  next_ask(channel);
}

void Prober::next_ask(Channel& channel) {
  if (!round_trips_ && talk_ == result_->talks.size()) {
    wait_or_stream(channel);
    return;
  }
  if (talk_began_ns_ == 0) talk_began_ns_ = env_.clock.now_ns();
  ask(channel, round_trips_ ? 0 : result_->talks.at(talk_).bytes);
}

// --- a stream

bool Prober::clients_write() const {
  uint64_t rate = 0;
  for (const auto& link : links_.all()) rate += link->out_bytes_per_s() + link->in_bytes_per_s();
  return rate > limits::kProbeBusyBytes_per_s;
}

void Prober::wait_or_stream(Channel& channel) {
  result_->busy = clients_write();
  const uint64_t now = env_.clock.now_ns();
  if ((result_->busy || duty_ != 0) && now < next_stream_ns_) {
    result_->stage = ProbeStage::kWaiting;
    result_->wait_ns = next_stream_ns_ - now;
    heard_ns_ = now;
    return;
  }
  begin_stream(channel);
}

void Prober::begin_stream(Channel& channel) {
  ProbeStream& stream = result_->stream;
  uint64_t sum_ns = 0;
  for (const uint64_t each : result_->round_trips_ns) sum_ns += each;
  const uint64_t round_trip_ns = sum_ns / std::max<size_t>(1, result_->round_trips_ns.size());
  stream.asked_ns =
      std::clamp(limits::kProbeStreamRoundTrips * round_trip_ns,
                 result_->busy ? limits::kProbeStreamBusy_ns : limits::kProbeStream_ns,
                 limits::kProbeStreamMax_ns);
  const uint64_t duty = duty_ != 0 ? duty_ : result_->busy ? limits::kProbeDutyBusy : 100;
  const uint64_t now = env_.clock.now_ns();
  next_stream_ns_ = now + stream.asked_ns * 100 / duty;
  result_->stage = ProbeStage::kStreaming;
  result_->wait_ns = 0;
  stream_began_ns_ = looked_ns_ = now;
  all_sent_ = half_seen_ = held_ = false;
  sent_at_begin_bytes_ = channel.connection().sent_bytes_total();
  volume_at_begin_bytes_ = channel.link().totals().out_bytes;
  stream_on(channel);
}

void Prober::send_data(Channel& channel, bool last) {
  const std::span<const std::byte> payload = filling();
  static const uint32_t kCrc = crc32c(payload);
  channel.connection().send(wire::seal(wire::to_header(wire::ProbeDataFrame{last}),
                                      static_cast<uint32_t>(payload.size()), kCrc),
                           payload);
}

void Prober::stream_on(Channel& channel) {
  ProbeStream& stream = result_->stream;
  const uint64_t now = env_.clock.now_ns();
  heard_ns_ = now;  // its own time is bounded
  const uint64_t passed_ns = now - stream_began_ns_;
  uint64_t unsent = channel.unsent_bytes();
  // The socket had room, and nothing lay ready: that was this node's doing, unless it waits for the link.
  if (unsent == 0 && passed_ns > 0 && !held_) stream.late_ns += now - looked_ns_;
  looked_ns_ = now;
  const auto state = channel.connection().stream();
  if (state && !std::exchange(half_seen_, half_seen_ || passed_ns >= stream.asked_ns / 2) && half_seen_)
    stream.half = *state;
  if (passed_ns >= stream.asked_ns) {
    if (state) stream.end = *state;
    stream.beside_bytes = channel.link().totals().out_bytes - volume_at_begin_bytes_;
    all_sent_ = true;
    send_data(channel, true);
    return;
  }
  const uint64_t sent = channel.connection().sent_bytes_total() - sent_at_begin_bytes_;
  const uint64_t rate = passed_ns == 0 ? 0 : sent * kMillisecond_ns / passed_ns;  // a millisecond's
  const uint64_t ahead =
      std::clamp(20 * rate, limits::kProbeAheadBytesMin, limits::kProbeAheadBytesMax);
  // All of it has to arrive before the peer can answer, and a slow link takes minutes for what a host's buffer takes: no more
  // is under way than a multiple of what has arrived, which is more than any congestion window.
  const uint64_t total = channel.connection().sent_bytes_total();
  const uint64_t arrived = state ? std::min(total, state->acked_bytes) : total;
  const uint64_t most = limits::kProbeAheadBytesMin + kUnderWayOfArrived * arrived;
  for (; unsent < ahead && total - arrived + unsent < most; unsent += limits::kProbePayloadBytesMax) send_data(channel, false);
  held_ = total - arrived + unsent >= most;
}

bool Prober::reported(Channel& channel, const wire::Frame& frame) {
  const auto report = wire::frame_as<wire::ProbeReportFrame>(frame.header);
  ProbeStream& stream = result_->stream;
  stream.received_bytes = report.received_bytes;
  stream.passed_ns = report.passed_ns;
  stream.receive_buffer_bytes = report.buffer_bytes;
  stream.interval_bytes.resize(frame.payload.size() / sizeof(uint32_t));
  std::copy(frame.payload.begin(), frame.payload.end(),
            std::as_writable_bytes(std::span(stream.interval_bytes)).begin());
  result_->stage = ProbeStage::kDone;
  timer_->disarm();
  links_.discard(channel);
  return false;
}

// --- as time passes

// The peer can't answer before it has got what it is to answer: what lies ahead here, and in the kernel, takes a slow
// link many seconds.
void Prober::see_what_gets_on(const Channel& channel, uint64_t now) {
  const auto state = channel.connection().stream();
  const uint64_t passed_on = channel.connection().sent_bytes_total() + (state ? state->acked_bytes : 0);
  if (std::exchange(passed_on_bytes_, passed_on) != passed_on) heard_ns_ = now;
}

void Prober::turn() {
  if (!under_way()) return;
  Channel* open = channel();
  if (open == nullptr) {
    fail("link " + result_->link + " was disabled or removed");
    return;
  }
  timer_->arm(kTurn_ns);
  const uint64_t now = env_.clock.now_ns();
  see_what_gets_on(*open, now);
  if (result_->stage == ProbeStage::kWaiting) {
    wait_or_stream(*open);
  } else if (result_->stage == ProbeStage::kStreaming && !all_sent_) {
    stream_on(*open);
  } else if (now > deadline_ns_) {
    fail("the probe has not ended within " + format_duration(limits::kProbeMax_ns) + ": the link is too slow for it");
  } else if (env_.lateness.passed_ns(heard_ns_, now) > kPatience_ns) {
    fail(open->reached() ? env_.peer() + " has not answered for " + format_duration(now - heard_ns_)
                         : "connect to " + open->address() + ": no answer");
  }
}

}  // namespace twinblock
