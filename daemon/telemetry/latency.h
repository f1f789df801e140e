// The latency of client writes by stage and size, and the parts of round trips on each link, as
// histograms. Loop thread only.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "telemetry/histogram.h"
#include "telemetry/stages.h"
#include "telemetry/unique_blocks.h"
#include "telemetry/windows.h"

namespace twinblock {

// Of a round trip whose moments the kernels of both hosts have told.
enum class TripPart : uint8_t {
  kWire,         // out and back, between the two hosts' network devices
  kSendStack,    // here, from the engine to the queue of the network device
  kSendQdisc,    // … in that queue
  kPeerReceive,  // at the peer, until its loop reads it
  kPeerSend,     // … and from its answer to its network device
  kReceive,      // here, until the loop reads the answer
  kTcpAck,       // from the network device until the peer's kernel has acknowledged the first bytes
};
constexpr size_t kTripParts = 7;
const char* trip_part_name(TripPart part);               // "send-qdisc", …
using TripTimes = std::array<uint64_t, kTripParts - 1>;  // all but kTcpAck, which is told later

// Bounds of the buckets that metrics show, in ns.
constexpr std::array<uint64_t, 18> kMetricBounds_ns{
    10'000,      20'000,      50'000,      100'000,       200'000,       500'000,
    1'000'000,   2'000'000,   5'000'000,   10'000'000,    20'000'000,    50'000'000,
    100'000'000, 200'000'000, 500'000'000, 1'000'000'000, 2'000'000'000, 5'000'000'000};

// For outages of so long it is told what a resync would carry.
constexpr std::array<size_t, 3> kOutageMinutes{1, 10, 60};

// What is shown of a histogram.
struct Distribution {
  uint64_t count = 0;
  uint64_t sum_ns = 0;
  uint64_t p50_ns = 0, p90_ns = 0, p99_ns = 0, max_ns = 0;
  std::array<uint64_t, kMetricBounds_ns.size()> up_to{};  // how many are at most each bound
};
Distribution distribution_of(const Histogram& histogram);

struct LatencyView {
  struct Class {
    size_t size_class = 0;
    uint64_t bytes = 0;  // of the writes together
    Distribution total;
    std::array<Distribution, kStages> stages;
  };
  struct Link {
    std::string name;
    bool up = false;
    uint64_t rate_bits_per_s = 0;      // nominal; 0: not known
    uint64_t carried_bytes_per_s = 0;  // when it had enough to do, else the nominal; 0: neither is known
    uint64_t way_ns = 0;  // there and back, without the hosts, where nothing waits; 0: short, or not known
    std::array<Distribution, kTripParts> parts;
    double alone_share = 0;  // SampledAlone
  };
  Window window = Window::kStart;
  uint32_t sample_every = 0;   // writes a sample; 0: none is taken
  std::vector<Class> classes;  // those with any write, smallest first
  std::vector<Link> links;
};

// How the clients write, all of them together.
struct WriteLoad {
  uint64_t busy_ns = 0;       // while any write was under way, of …
  uint64_t window_ns = 0;     // the time in which all this was, from the first write on
  uint64_t depth_p99 = 0;     // of how many were under way together
  uint64_t pause_p50_ns = 0;  // between the end of one and the next, where none was under way
  double wire_part = 1;       // what travels of a client's byte: less where it is compressed, none of a zero
  double zero_part = 0;       // what of it are writes of zeroes, of which only the length travels
  // How many went to no peer, with their bytes and all that they took: no link has any part in that.
  uint64_t simplex_writes = 0, simplex_bytes = 0, simplex_ns = 0;
  // Different blocks that were written in the last 1, 10 and 60 minutes, whatever the window is.
  std::array<uint64_t, kOutageMinutes.size()> dirtied_bytes{};
};

// What of a write went over the links.
struct WriteTravel {
  bool to_peer = true;       // false: in simplex, or as the peer was lost meanwhile
  bool zeroes = false;       // nothing but: they go as their length
  uint64_t saved_bytes = 0;  // by compression
};

// Of the client's writes.
class WriteLatency {
 public:
  WriteLatency() : windows_(kRows) {}
  // `depth`: how many are under way, itself among them.
  void record(const WriteTimes& times, uint64_t offset_bytes, uint64_t length_bytes, size_t depth,
              const WriteTravel& travel = {});
  [[nodiscard]] std::vector<LatencyView::Class> view(Window window, uint64_t now_ns) const;
  [[nodiscard]] WriteLoad load(Window window, uint64_t now_ns) const;
  // Of all sizes, since the start.
  [[nodiscard]] Histogram total() const;

 private:
  static constexpr size_t kTotal = kStages, kBytes = kStages + 1;
  static constexpr size_t kRow = kStages + 2;  // the stages, their total, and the lengths in bytes
  static constexpr size_t kBusy = kSizeClasses * kRow, kPause = kBusy + 1,
                          kDepth = kPause + 1, kSaved = kDepth + 1, kZeroes = kSaved + 1,
                          kSimplex = kZeroes + 1, kSimplexBytes = kSimplex + 1, kRows = kSimplexBytes + 1;
  // Of all bytes that were written: what of them is counted in `row`.
  [[nodiscard]] double part_of_bytes(size_t row, Window window, uint64_t now_ns) const;
  Windows windows_;
  uint64_t latest_done_ns_ = 0;
  UniqueBlocks dirtied_;
};

// Which part of the sampled writes had a link for themselves: where they have not, a faster link
// also shortens the wait for each other.
class SampledAlone {
 public:
  void record(bool alone) {
    ++samples_;
    alone_ += alone ? 1 : 0;
    lately_ += ((alone ? 1 : 0) - lately_) / kLately;
  }
  // Since the start or lately, whichever is less: who reads it of any window may rely on so much.
  [[nodiscard]] double share() const {
    if (samples_ == 0) return 0;
    return std::min(lately_, static_cast<double>(alone_) / static_cast<double>(samples_));
  }

 private:
  static constexpr double kLately = 16;  // samples, about
  uint64_t samples_ = 0, alone_ = 0;
  double lately_ = 1;
};

// Of sampled round trips of one link.
class TripLatency {
 public:
  TripLatency() : windows_(kTripParts) {}
  void record(const TripTimes& times, uint64_t now_ns);
  void record(TripPart part, uint64_t value_ns, uint64_t now_ns) {
    windows_.record(static_cast<size_t>(part), value_ns, now_ns);
  }
  [[nodiscard]] std::array<Distribution, kTripParts> view(Window window, uint64_t now_ns) const;

 private:
  Windows windows_;
};

}  // namespace twinblock
