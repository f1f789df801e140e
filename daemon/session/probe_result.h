// What a probe of a link has measured so far, as it was measured: what it means is for who shows it. Loop
// thread only.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "io/connection.h"

namespace twinblock {

enum class ProbeStage {
  kConnecting,
  kTalking,    // round trips, then writes that are answered one by one
  kWaiting,    // for its turn: clients write, and an earlier stream was a short while ago
  kStreaming,
  kDone,
  kFailed,     // `error` says why
};

// One write after the other, each answered before the next: no queue anywhere.
struct ProbeTalk {
  uint32_t bytes = 0;  // of each
  uint64_t count = 0;
  uint64_t passed_ns = 0;
};

struct ProbeStream {
  uint64_t asked_ns = 0;     // how long it was to send
  uint64_t beside_bytes = 0;  // that the volume itself sent over the link meanwhile
  uint64_t late_ns = 0;       // for how long nothing lay ready for the socket: this node was too slow
  StreamState half;           // when half of that time was over
  StreamState end;
  // At the receiver.
  uint64_t received_bytes = 0;
  uint64_t passed_ns = 0;                // from the first byte to the last
  uint64_t receive_buffer_bytes = 0;     // of its socket, at the end
  std::vector<uint32_t> interval_bytes;  // what came in each limits::kProbeInterval_ns
};

struct ProbeResult {
  uint64_t number = 0;  // of the probe, of this process
  std::string link;
  ProbeStage stage = ProbeStage::kConnecting;
  std::string error;
  std::string protection;  // of its connection; empty: not encrypted
  LinkHost here, there;
  bool busy = false;  // clients write
  uint64_t wait_ns = 0;  // while it waits: for how long still
  std::vector<uint64_t> round_trips_ns;
  std::array<ProbeTalk, 2> talks{{{4096, 0, 0}, {65536, 0, 0}}};
  ProbeStream stream;
};

}  // namespace twinblock
