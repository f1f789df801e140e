#include "telemetry/latency.h"

#include <algorithm>

namespace twinblock {
namespace {

constexpr std::array<const char*, kTripParts> kPartNames{
    "wire", "send-stack", "send-qdisc", "peer-receive", "peer-send", "receive", "tcp-ack"};

}  // namespace

const char* trip_part_name(TripPart part) { return kPartNames[static_cast<size_t>(part)]; }

Distribution distribution_of(const Histogram& histogram) {
  Distribution result{histogram.count(),
                      histogram.sum_ns(),
                      histogram.quantile_ns(0.5),
                      histogram.quantile_ns(0.9),
                      histogram.quantile_ns(0.99),
                      histogram.max_ns(),
                      {}};
  histogram.counts_up_to(kMetricBounds_ns, result.up_to);
  return result;
}

void WriteLatency::record(const WriteTimes& times, uint64_t offset_bytes, uint64_t length_bytes,
                          size_t depth, const WriteTravel& travel) {
  const size_t row = size_class_of(length_bytes) * kRow;
  const StageTimes stages = split(times);
  // Most writes spend no time in most stages; view() adds those that are missing.
  for (size_t i = 0; i < kStages; ++i)
    if (stages[i] != 0) windows_.record(row + i, stages[i], times.done_ns);
  const uint64_t received_ns = std::min(times.done_ns, times.received_ns);
  const uint64_t total_ns = times.done_ns - received_ns;
  windows_.record(row + kTotal, total_ns, times.done_ns);
  windows_.record(row + kBytes, length_bytes, times.done_ns);
  // They end in order of time.
  windows_.record(kBusy, times.done_ns - std::max(received_ns, latest_done_ns_), times.done_ns);
  if (latest_done_ns_ != 0 && received_ns > latest_done_ns_)
    windows_.record(kPause, received_ns - latest_done_ns_, times.done_ns);
  windows_.record(kDepth, depth, times.done_ns);
  if (travel.zeroes) windows_.record(kZeroes, length_bytes, times.done_ns);
  if (travel.saved_bytes != 0) windows_.record(kSaved, travel.saved_bytes, times.done_ns);
  if (!travel.to_peer) {
    windows_.record(kSimplex, total_ns, times.done_ns);
    windows_.record(kSimplexBytes, length_bytes, times.done_ns);
  }
  latest_done_ns_ = times.done_ns;
  dirtied_.record(offset_bytes, length_bytes, times.done_ns);
}

WriteLoad WriteLatency::load(Window window, uint64_t now_ns) const {
  WriteLoad load;
  load.busy_ns = windows_.view(kBusy, window, now_ns).sum_ns();
  load.window_ns = windows_.length_ns(window, now_ns);
  load.pause_p50_ns = windows_.view(kPause, window, now_ns).quantile_ns(0.5);
  load.depth_p99 = windows_.view(kDepth, window, now_ns).quantile_ns(0.99);
  load.zero_part = part_of_bytes(kZeroes, window, now_ns);
  load.wire_part = std::max(0.0, 1 - load.zero_part - part_of_bytes(kSaved, window, now_ns));
  const Histogram simplex = windows_.view(kSimplex, window, now_ns);
  load.simplex_writes = simplex.count();
  load.simplex_ns = simplex.sum_ns();
  load.simplex_bytes = windows_.view(kSimplexBytes, window, now_ns).sum_ns();
  for (size_t i = 0; i < kOutageMinutes.size(); ++i)
    load.dirtied_bytes[i] = dirtied_.bytes(kOutageMinutes[i], now_ns);
  return load;
}

double WriteLatency::part_of_bytes(size_t row, Window window, uint64_t now_ns) const {
  const auto part = static_cast<double>(windows_.view(row, window, now_ns).sum_ns());
  double bytes = 0;
  for (size_t size_class = 0; size_class < kSizeClasses; ++size_class)
    bytes += static_cast<double>(windows_.view(size_class * kRow + kBytes, window, now_ns).sum_ns());
  return bytes > 0 ? std::min(1.0, part / bytes) : 0;
}

std::vector<LatencyView::Class> WriteLatency::view(Window window, uint64_t now_ns) const {
  std::vector<LatencyView::Class> classes;
  for (size_t size_class = 0; size_class < kSizeClasses; ++size_class) {
    const size_t row = size_class * kRow;
    LatencyView::Class each;
    each.size_class = size_class;
    each.total = distribution_of(windows_.view(row + kTotal, window, now_ns));
    if (each.total.count == 0) continue;
    each.bytes = windows_.view(row + kBytes, window, now_ns).sum_ns();
    for (size_t i = 0; i < kStages; ++i) {
      Histogram stage = windows_.view(row + i, window, now_ns);
      stage.record_zeros(each.total.count - stage.count());
      each.stages[i] = distribution_of(stage);
    }
    classes.push_back(each);
  }
  return classes;
}

Histogram WriteLatency::total() const {
  Histogram all;
  for (size_t size_class = 0; size_class < kSizeClasses; ++size_class)
    windows_.add_since_start(all, size_class * kRow + kTotal);
  return all;
}

void TripLatency::record(const TripTimes& times, uint64_t now_ns) {
  for (size_t i = 0; i < times.size(); ++i) windows_.record(i, times[i], now_ns);
}

std::array<Distribution, kTripParts> TripLatency::view(Window window, uint64_t now_ns) const {
  std::array<Distribution, kTripParts> parts;
  for (size_t i = 0; i < kTripParts; ++i)
    parts[i] = distribution_of(windows_.view(i, window, now_ns));
  return parts;
}

}  // namespace twinblock
