// Where the time of a request goes between the nodes: of each from what this node knows, of samples
// from what the kernels of both hosts say (Linux: Documentation/networking/timestamping.rst).
//
// No clock of one host is compared with one of the other: the wire's part is the time between
// departure and arrival here less that between arrival and departure there.
//
// Owned by the session; loop thread only.
#pragma once

#include <cstdint>

#include "base/limits.h"
#include "session/links.h"
#include "session/peer_requests.h"

namespace twinblock {

class TripSampler {
 public:
  TripSampler(Clock& clock, Links& links) : clock_(clock), links_(links) {}

  // Every so many client writes one is sampled, 0: none; more than one in a while
  // (limits::kSampleInterval_ns) only if it is each.
  void set_every(uint32_t writes) { every_ = writes; }
  [[nodiscard]] uint32_t every() const { return every_; }

  // `header` goes to the connection of `channel` next, for `entry`: it may become a sample.
  void begin(Channel& channel, const PeerRequests::Entry& entry, wire::FrameHeader& header);
  // The acknowledgement of `entry` has come at `now_ns`: its waiter is told the times.
  void time(Channel& channel, const PeerRequests::Entry& entry, const wire::Frame& ack,
            uint64_t now_ns);
  // The answer that comes next is to a request that the peer samples (kFlagSample): its times
  // follow it. The request's moments: it came into this host's kernel, and its frame was read.
  void sample_answer(uint64_t incarnation, uint64_t sequence, uint64_t arrived_ns,
                     uint64_t read_ns);
  // The kernel has told of the frame that it was asked for.
  void sampled(Channel& channel, const SendMoments& moments);
  // What the peer says of a request that was sampled.
  void take(Channel& channel, const wire::TimesFrame& times);

 private:
  void tell(Channel& channel, const AnswerSample& sample, const SendMoments& moments);
  void finish(Channel& channel);

  Clock& clock_;
  Links& links_;
  uint32_t every_ = limits::kSampleEvery;
  uint32_t since_ = limits::kSampleEvery;  // the first write is sampled
  uint64_t next_ns_ = 0;
};

}  // namespace twinblock
