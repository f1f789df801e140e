#include "telemetry/stages.h"

#include <algorithm>

namespace twinblock {
namespace {

constexpr std::array<const char*, kStages> kStageNames{
    "prepare", "compression", "queue", "intent",     "send",      "crypto",     "link-queue",
    "wire",    "stack",       "peer-queue", "peer-disk", "local-disk", "completion"};
constexpr std::array<const char*, kSizeClasses> kClassNames{"4K",  "8K",  "16K",
                                                            "32K", "64K", "larger"};

// Cuts `left` off what is to be shared out: at most all of it.
uint64_t take(uint64_t& left, uint64_t part) {
  const uint64_t taken = std::min(left, part);
  left -= taken;
  return taken;
}

// Moments in their order, whatever the clocks said: each at least the one before.
class Ladder {
 public:
  explicit Ladder(uint64_t begin_ns) : at_ns_(begin_ns) {}
  // The time since the last step.
  uint64_t step(uint64_t to_ns) {
    const uint64_t before = at_ns_;
    at_ns_ = std::max(at_ns_, to_ns);
    return at_ns_ - before;
  }

 private:
  uint64_t at_ns_;
};

}  // namespace

const char* stage_name(Stage stage) { return kStageNames[static_cast<size_t>(stage)]; }

size_t size_class_of(uint64_t length_bytes) {
  size_t index = 0;
  while (index + 1 < kSizeClasses && length_bytes > size_class_bytes_max(index)) ++index;
  return index;
}

uint64_t size_class_bytes_max(size_t size_class) {
  return size_class + 1 < kSizeClasses ? (4 * kKiB) << size_class : ~uint64_t{0};
}

const char* size_class_name(size_t size_class) { return kClassNames[size_class]; }

StageTimes split(const WriteTimes& times) {
  StageTimes stages{};
  const auto at = [&stages](Stage stage) -> uint64_t& {
    return stages[static_cast<size_t>(stage)];
  };
  // No moment lies behind the last one.
  const auto bounded = [&times](uint64_t ns) { return std::min(ns, times.done_ns); };
  Ladder ladder(times.received_ns);
  uint64_t preparing = ladder.step(bounded(times.prepared_ns));
  at(Stage::kCompression) = take(preparing, times.compression_ns);
  at(Stage::kPrepare) = preparing;
  at(Stage::kQueue) = ladder.step(bounded(times.admitted_ns));
  at(Stage::kIntent) = ladder.step(bounded(times.started_ns));
  const PeerTrip& trip = times.trip;
  if (times.peer && trip.answered_ns >= times.local_ns) {
    uint64_t sending_ns = ladder.step(bounded(trip.taken_ns));
    at(Stage::kCrypto) = take(sending_ns, trip.seal_ns);
    uint64_t trip_ns = ladder.step(bounded(trip.arrived_ns));
    uint64_t peer_ns = take(trip_ns, trip.peer_ns);
    at(Stage::kPeerDisk) = take(peer_ns, trip.peer_disk_ns);
    at(Stage::kCrypto) += take(peer_ns, trip.seal_ns);
    at(Stage::kPeerQueue) = peer_ns;
    at(Stage::kStack) = take(trip_ns, trip.stack_ns);
    // What is beyond its own time on the line and on the way it has waited for others, but no longer than
    // these take. The socket is full because the link is.
    const uint64_t alone_ns = trip.line_ns + trip.way_ns;
    const uint64_t beyond_ns = sending_ns + trip_ns - std::min(sending_ns + trip_ns, alone_ns);
    uint64_t behind_ns = std::min(beyond_ns, trip.ahead_ns);
    at(Stage::kLinkQueue) = take(sending_ns, behind_ns);
    at(Stage::kLinkQueue) += take(trip_ns, behind_ns - at(Stage::kLinkQueue));
    at(Stage::kSend) = sending_ns;
    at(Stage::kWire) = trip_ns;
    at(Stage::kQueue) += ladder.step(bounded(trip.answered_ns));
  } else if (times.local_ns != 0) {
    at(Stage::kLocalDisk) = ladder.step(bounded(times.local_ns));
  }
  at(Stage::kCompletion) = ladder.step(times.done_ns);
  return stages;
}

}  // namespace twinblock
