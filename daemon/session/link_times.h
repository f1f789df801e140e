// What samples have told of a link: where the time of a round trip over it goes. Owned by the link; loop thread
// only.
#pragma once

#include <array>
#include <cstdint>

#include "telemetry/latency.h"
#include "telemetry/stack_estimate.h"

namespace twinblock {

class LinkTimes {
 public:
  // A sample is complete. `alone`: nothing else was under way.
  void record(const TripTimes& times, const StackEstimate::Sample& stack, bool alone, uint64_t now_ns) {
    trips_.record(times, now_ns);
    alone_.record(alone);
    stack_.sampled(stack);
  }
  // The peer's kernel has acknowledged a sample.
  void acknowledged(uint64_t after_ns, uint64_t now_ns) { trips_.record(TripPart::kTcpAck, after_ns, now_ns); }

  [[nodiscard]] const StackEstimate& stack() const { return stack_; }
  [[nodiscard]] std::array<Distribution, kTripParts> parts(Window window, uint64_t now_ns) const {
    return trips_.view(window, now_ns);
  }
  [[nodiscard]] double alone_share() const { return alone_.share(); }

 private:
  StackEstimate stack_;
  TripLatency trips_;
  SampledAlone alone_;
};

}  // namespace twinblock
