// What shows that a connection works: when something came over it, when the peer is known to have heard this
// node, and the peer's ticks. Owned by the channel; loop thread only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "telemetry/arrival_estimate.h"

namespace twinblock {

class SignsOfLife {
 public:
  // The connection becomes part of the session: both directions have just worked.
  void begin(uint64_t now_ns) { last_heard_ns_ = last_echo_ns_ = now_ns; }
  // `presence_ns`, here and below: the time in which the peer was there (Heartbeats::missing_ns).
  void begin_presence(uint64_t presence_ns) {
    heard_presence_ns_ = told_presence_ns_ = echo_presence_ns_ = presence_ns;
  }
  // Any bytes from the peer have come.
  void heard(uint64_t now_ns) { last_heard_ns_ = now_ns; }
  void heard_in_presence(uint64_t presence_ns) { heard_presence_ns_ = presence_ns; }
  // The peer is known to have heard this node then.
  void heard_by_peer(uint64_t moment_ns, uint64_t presence_ns) {
    last_echo_ns_ = std::max(last_echo_ns_, moment_ns);
    echo_presence_ns_ = std::max(echo_presence_ns_, presence_ns);
  }
  // A heartbeat has come, which the peer sent at `tick_ns` by its clock, and says what it had heard.
  void ticked(uint64_t tick_ns, uint64_t now_ns, uint64_t presence_ns) {
    peer_tick_ns_ = tick_ns;
    has_ticked_ = true;
    peer_tick_at_ns_ = now_ns;
    told_presence_ns_ = presence_ns;
  }
  // The same heartbeat says that the peer has had this node's of `echo_ns` for `held_ns`: how much of that it was
  // there, as the times of its own heartbeats say: from one to the next no more than `one_beat_ns` counts.
  [[nodiscard]] uint64_t count_waiting(uint64_t tick_ns, uint64_t echo_ns, uint64_t held_ns, uint64_t one_beat_ns) {
    const uint64_t there_ns = std::min(tick_ns - std::min(tick_ns, waited_until_ns_), one_beat_ns);
    waited_ns_ = std::min(held_ns, (echo_ns == waited_for_ns_ ? waited_ns_ : 0) + there_ns);
    waited_for_ns_ = echo_ns;
    waited_until_ns_ = tick_ns;
    return waited_ns_;
  }
  void went_round(uint64_t round_trip_ns) { round_trip_ns_ = round_trip_ns; }
  // When something came that the peer sent at `sent_ns` by its clock: see ArrivalEstimate.
  uint64_t estimate_arrival(uint64_t sent_ns, uint64_t arrived_ns, bool alone) {
    return arrivals_.arrived_ns(sent_ns, arrived_ns, alone);
  }

  // What became of what was queued at the last tick.
  struct Queue {
    bool waits;  // some of it waits still
    bool moves;  // bytes have left since
  };
  Queue look_at_queue(uint64_t sent_bytes, uint64_t queued_bytes) {
    const bool waits = sent_bytes < std::exchange(queued_at_tick_bytes_, queued_bytes);
    const bool moves = sent_bytes != std::exchange(sent_at_tick_bytes_, sent_bytes);
    return {waits, moves};
  }

  [[nodiscard]] uint64_t last_heard_ns() const { return last_heard_ns_; }
  [[nodiscard]] uint64_t last_echo_ns() const { return last_echo_ns_; }
  [[nodiscard]] uint64_t heard_presence_ns() const { return heard_presence_ns_; }
  [[nodiscard]] uint64_t echo_presence_ns() const { return echo_presence_ns_; }
  [[nodiscard]] uint64_t told_presence_ns() const { return told_presence_ns_; }
  // A heartbeat has come, whatever its clock said.
  [[nodiscard]] bool has_ticked() const { return has_ticked_; }
  // The peer's clock in its last heartbeat, 0: none has come, or it said none; and for how long that is here.
  [[nodiscard]] uint64_t peer_tick_ns() const { return peer_tick_ns_; }
  [[nodiscard]] uint64_t tick_held_ns(uint64_t now_ns) const {
    return peer_tick_ns_ == 0 ? 0 : now_ns - peer_tick_at_ns_;
  }
  [[nodiscard]] std::optional<uint64_t> round_trip_ns() const { return round_trip_ns_; }  // the latest

 private:
  uint64_t last_heard_ns_ = 0;
  uint64_t last_echo_ns_ = 0;
  uint64_t heard_presence_ns_ = 0;
  uint64_t echo_presence_ns_ = 0;
  uint64_t told_presence_ns_ = 0;
  uint64_t peer_tick_ns_ = 0;
  bool has_ticked_ = false;
  uint64_t peer_tick_at_ns_ = 0;
  // The echo in the peer's latest heartbeat, its clock then, and for how long it had had that while it was there.
  uint64_t waited_for_ns_ = 0, waited_until_ns_ = 0, waited_ns_ = 0;
  uint64_t sent_at_tick_bytes_ = 0;
  uint64_t queued_at_tick_bytes_ = 0;
  std::optional<uint64_t> round_trip_ns_;
  ArrivalEstimate arrivals_;
};

}  // namespace twinblock
