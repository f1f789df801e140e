// A round trip whose moments the kernels of both hosts are asked for. Private to the session; loop
// thread only.
#pragma once

#include <cstdint>

#include "io/connection.h"

namespace twinblock {

// At the sender of the request. It is complete when all three have come, in any order.
struct TripSample {
  uint64_t sequence = 0;  // of the request; 0: none is under way
  uint64_t length_bytes = 0;
  bool alone = false;  // nothing else was under way on the link
  SendMoments moments;
  bool moments_known = false;
  uint64_t arrived_ns = 0, read_ns = 0;  // the answer
  bool answered = false;
  // At the peer, all in ns: see wire::FrameType::kTimes.
  uint64_t turnaround_ns = 0, peer_receive_ns = 0, peer_send_ns = 0, peer_qdisc_ns = 0;
  bool told = false;
  [[nodiscard]] bool complete() const { return sequence != 0 && moments_known && answered && told; }
};

// At the one who answers.
struct AnswerSample {
  uint64_t sequence = 0;                 // 0: none is under way
  uint64_t arrived_ns = 0, read_ns = 0;  // the request
  uint64_t answered_ns = 0;
};

// Of one connection.
struct TripSamples {
  TripSample request;    // one of ours whose times are to come
  uint64_t sent_ns = 0;  // of the frame whose acknowledgement is to come
  AnswerSample answer;   // one of ours whose times the peer wants
};

}  // namespace twinblock
