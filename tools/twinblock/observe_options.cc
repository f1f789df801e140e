// The options of the verbs that show figures.
#include "base/units.h"
#include "twinblock/options.h"
#include "twinblock/wait.h"

namespace twinblock {
namespace {

constexpr uint64_t kIntervalDefault_ns = 2 * kSecond_ns;
constexpr uint64_t kIntervalMin_ns = 100 * kMillisecond_ns;
constexpr uint64_t kIntervalMax_ns = 3600 * kSecond_ns;

// The interval of --watch may be left out, so that what follows it may be the volume.
Status read_interval(Options& options) {
  LatencyOptions& latency = options.latency;
  latency.interval_ns = kIntervalDefault_ns;
  if (latency.interval.empty()) return ok_status();
  const std::optional<uint64_t> interval_ns = parse_wait_timeout(latency.interval);
  if (!interval_ns && options.node.volume.empty()) {
    options.node.volume = latency.interval;
    return ok_status();
  }
  if (!interval_ns || *interval_ns < kIntervalMin_ns || *interval_ns > kIntervalMax_ns)
    return wrong_usage("--watch: '" + latency.interval + "' is not an interval from 100ms to 1h",
                       "write it like 2s, or leave it out");
  latency.interval_ns = *interval_ns;
  return ok_status();
}

}  // namespace

Status prepare_latency(Options& options) {
  LatencyOptions& latency = options.latency;
  latency.window_given = !latency.window.empty();
  if (!latency.window_given) latency.window = latency.watch ? "10s" : "start";
  return latency.watch ? read_interval(options) : ok_status();
}

}  // namespace twinblock
