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

void WriteLatency::record(const WriteTimes& times, uint64_t length_bytes) {
  const size_t row = size_class_of(length_bytes) * kRow;
  const StageTimes stages = split(times);
  // Most writes spend no time in most stages; view() adds those that are missing.
  for (size_t i = 0; i < kStages; ++i)
    if (stages[i] != 0) windows_.record(row + i, stages[i], times.done_ns);
  windows_.record(row + kStages, times.done_ns - std::min(times.done_ns, times.received_ns),
                  times.done_ns);
}

std::vector<LatencyView::Class> WriteLatency::view(Window window, uint64_t now_ns) const {
  std::vector<LatencyView::Class> classes;
  for (size_t size_class = 0; size_class < kSizeClasses; ++size_class) {
    const size_t row = size_class * kRow;
    LatencyView::Class each;
    each.size_class = size_class;
    each.total = distribution_of(windows_.view(row + kStages, window, now_ns));
    if (each.total.count == 0) continue;
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
    all.merge(windows_.since_start(size_class * kRow + kStages));
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
