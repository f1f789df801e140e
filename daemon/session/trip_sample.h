// Round trips whose moments the kernels of both hosts are asked for, of one connection: one frame at a time,
// a request of ours or an answer. Owned by the channel; loop thread only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <utility>

#include "base/units.h"
#include "io/connection.h"
#include "wire/frames.h"

namespace twinblock {

// Kernels tell moments by the wall clock of their host, which somebody may set meanwhile: then some are as far from
// the others as that was, and what is reckoned with them is wrong. (Two clocks that are read one after the other differ
// by a little.)
constexpr uint64_t kClocksApart_ns = 1 * kMillisecond_ns;
inline bool in_order(std::initializer_list<uint64_t> moments_ns) {
  uint64_t latest_ns = 0;
  for (const uint64_t at_ns : moments_ns) {
    if (at_ns + kClocksApart_ns < latest_ns) return false;
    latest_ns = std::max(latest_ns, at_ns);
  }
  return true;
}

// At the sender of the request.
struct TripSample {
  uint64_t sequence = 0;  // of the request; 0: none is under way
  uint64_t length_bytes = 0;
  bool alone = false;  // nothing else was under way on the link
  SendMoments moments;
  uint64_t arrived_ns = 0, read_ns = 0;  // the answer
  // At the peer, all in ns: see wire::FrameType::kTimes.
  uint64_t turnaround_ns = 0, peer_receive_ns = 0, peer_send_ns = 0, peer_qdisc_ns = 0;

  // Whether one moment fits to the other, and what the peer says into the time between the first and the last.
  [[nodiscard]] bool adds_up() const {
    const uint64_t trip_ns = read_ns - std::min(read_ns, moments.taken_ns) + kClocksApart_ns;
    return in_order({moments.taken_ns, moments.queued_ns, moments.sent_ns, arrived_ns, read_ns}) &&
           std::max({turnaround_ns, peer_receive_ns, peer_send_ns, peer_qdisc_ns}) <= trip_ns;
  }
};

// At the one who answers.
struct AnswerSample {
  uint64_t sequence = 0;                 // 0: none is under way
  uint64_t arrived_ns = 0, read_ns = 0;  // the request
  uint64_t answered_ns = 0;
};

class TripSamples {
 public:
  // A request of ours whose times are to come goes next.
  void begin(uint64_t sequence, uint64_t length_bytes, bool alone) {
    request_ = {};
    request_.sequence = sequence;
    request_.length_bytes = length_bytes;
    request_.alone = alone;
    moments_known_ = answered_ = told_ = false;
    answer_ = {};
  }
  // An answer of ours whose times the peer wants goes next.
  void begin_answer(const AnswerSample& answer) {
    request_ = {};
    answer_ = answer;
  }

  // The kernel has told when it sent what is under way: an answer's, which is over with that …
  [[nodiscard]] std::optional<AnswerSample> take_answer() {
    if (answer_.sequence == 0) return std::nullopt;
    return std::exchange(answer_, {});
  }
  // … or a request's, once. Whether it was one.
  bool sent(const SendMoments& moments) {
    if (request_.sequence == 0 || moments_known_) return false;
    sent_ns_ = moments.sent_ns;
    request_.moments = moments;
    moments_known_ = true;
    return true;
  }
  // Whether it has told that the peer's has acknowledged it, once. Of answers that says nothing: TCP need
  // not hurry to acknowledge them. Not where that can't be, as a clock was set.
  bool acknowledged(const SendMoments& moments, uint64_t now_ns) {
    if (moments.acknowledged_ns == 0 || moments.sent_ns != sent_ns_) return false;
    sent_ns_ = 0;
    return in_order({moments.taken_ns, moments.sent_ns, moments.acknowledged_ns, now_ns});
  }
  // The answer to a request has come. Whether that is the one.
  bool answered(uint64_t sequence, uint64_t arrived_ns, uint64_t read_ns) {
    if (request_.sequence != sequence) return false;
    request_.arrived_ns = arrived_ns;
    request_.read_ns = read_ns;
    answered_ = true;
    return true;
  }
  // The peer says its times. Whether they are the one's.
  bool told(const wire::TimesFrame& times) {
    if (request_.sequence == 0 || request_.sequence != times.request) return false;
    request_.turnaround_ns = times.turnaround_ns;
    request_.peer_receive_ns = times.receive_ns;
    request_.peer_send_ns = times.send_ns;
    request_.peer_qdisc_ns = times.queue_ns;
    told_ = true;
    return true;
  }
  // It is complete when all three have come, in any order, and over with that. One that does not add up is none.
  [[nodiscard]] std::optional<TripSample> take_complete() {
    if (request_.sequence == 0 || !moments_known_ || !answered_ || !told_) return std::nullopt;
    const TripSample complete = std::exchange(request_, {});
    return complete.adds_up() ? std::optional(complete) : std::nullopt;
  }

 private:
  TripSample request_;
  bool moments_known_ = false;
  bool answered_ = false;
  bool told_ = false;
  uint64_t sent_ns_ = 0;  // of the frame whose acknowledgement is to come
  AnswerSample answer_;
};

}  // namespace twinblock
