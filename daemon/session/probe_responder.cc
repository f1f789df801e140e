#include "session/probe_responder.h"

#include <algorithm>
#include <string>

#include "base/limits.h"
#include "session/hello.h"

namespace twinblock {

using wire::FrameType;

namespace {

// Who asks without reading the answers; who probes has one question under way.
constexpr uint64_t kUnreadBytesMax = 64 * kKiB;
// So long one may say nothing.
constexpr uint64_t kSilence_ns = limits::kProbeMax_ns / 4;

}  // namespace

Channel* ProbeResponder::channel() const {
  const auto found = links_.channels([](const Channel& each) {
    return !each.dialled() && each.phase() == Channel::Phase::kMeasuring;
  });
  return found.empty() ? nullptr : found.front();
}

bool ProbeResponder::accept(Channel& asking) {
  if (channel() != nullptr) {
    asking.refuse({}, env_.node + " answers another probe just now; try again in a moment",
                  env_.clock.now_ns());
    return false;
  }
  asking.enter(Channel::Phase::kMeasuring);
  asking.reader().set_read_bytes_max(limits::kProbePayloadBytesMax);
  counts_ = false;
  const wire::ProbeHostPayload host = make_probe_host(env_.network.host_of(asking.link().addresses()));
  const auto payload = wire::bytes_of(host);
  asking.connection().send(wire::seal(wire::to_header(wire::ProbeHostFrame{}), payload));
  asking.connection().send(payload);
  return true;
}

bool ProbeResponder::take(Channel& asking, const wire::Frame& frame) {
  switch (static_cast<FrameType>(frame.header.type)) {
    case FrameType::kProbeAsk: {
      const uint64_t number = wire::frame_as<wire::ProbeAskFrame>(frame.header).number;
      asking.connection().send(wire::seal(wire::to_header(wire::ProbeAnswerFrame{number})));
      return reads(asking);
    }
    case FrameType::kProbeData:
      if (!counts_) {
        counts_ = true;
        first_ns_ = last_ns_ = received_bytes_ = 0;
        interval_bytes_.clear();
        // What came together with the first one counts, too.
        seen_bytes_ = asking.reader().received_bytes_total() - asking.reader().unread_bytes() -
                      sizeof(wire::FrameHeader) - frame.payload.size();
      }
      received(asking);
      if (!wire::frame_as<wire::ProbeDataFrame>(frame.header).last) return true;
      report(asking);
      return reads(asking);
    default:
      close(asking, std::string("sent a ") + wire::frame_type_name(frame.header.type) + " frame within a probe");
      return false;
  }
}

// Whether it takes what it has asked for; else it is closed.
bool ProbeResponder::reads(Channel& asking) {
  if (asking.unsent_bytes() <= kUnreadBytesMax) return true;
  close(asking, "probes, and does not read the answers");
  return false;
}

void ProbeResponder::close(Channel& asking, const std::string& why) {
  strangers_.tell("link " + asking.link().name() + ": closed: " + asking.address(), why, env_.clock.now_ns());
  links_.discard(asking);
}

void ProbeResponder::received(Channel& asking) {
  if (!counts_) return;
  const uint64_t total = asking.reader().received_bytes_total();
  const uint64_t came = total - std::min(total, seen_bytes_);
  if (came == 0) return;
  seen_bytes_ = total;
  const uint64_t now = env_.clock.now_ns();
  if (first_ns_ == 0) first_ns_ = now;
  last_ns_ = now;
  received_bytes_ += came;
  const uint64_t interval = (now - first_ns_) / limits::kProbeInterval_ns;
  if (interval >= limits::kProbeIntervalsMax) return;
  if (interval >= interval_bytes_.size()) interval_bytes_.resize(interval + 1);
  uint32_t& bytes = interval_bytes_[interval];
  bytes += static_cast<uint32_t>(std::min<uint64_t>(came, ~uint32_t{0} - bytes));
}

void ProbeResponder::report(Channel& asking) {
  counts_ = false;
  const auto state = asking.connection().stream();
  const wire::ProbeReportFrame report{.received_bytes = received_bytes_,
                                      .passed_ns = last_ns_ - first_ns_,
                                      .buffer_bytes = state ? state->receive_buffer_bytes : 0};
  const auto payload = std::as_bytes(std::span<const uint32_t>(interval_bytes_));
  asking.connection().send(wire::seal(wire::to_header(report), payload));
  // Copied: the next stream may begin before it has gone.
  asking.connection().send(payload);
}

void ProbeResponder::tick(uint64_t now) {
  Channel* asking = channel();
  if (asking == nullptr) return;
  const bool silent =
      env_.lateness.passed_ns(asking->life().last_heard_ns(), now) > kSilence_ns;
  if (!silent && now - asking->opened_ns() <= limits::kProbeMax_ns) return;
  close(*asking, silent ? "probes, and says nothing" : "probes for too long");
}

}  // namespace twinblock
