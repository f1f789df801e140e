// The options of the verbs that show figures.
#include "base/units.h"
#include "config/link_rules.h"
#include "twinblock/options.h"
#include "twinblock/plan.h"
#include "twinblock/wait.h"

namespace twinblock {
namespace {

constexpr uint64_t kIntervalDefault_ns = 2 * kSecond_ns;
constexpr uint64_t kIntervalMin_ns = 100 * kMillisecond_ns;
constexpr uint64_t kIntervalMax_ns = 3600 * kSecond_ns;

// The interval of --watch may be left out, so that what follows it may be the volume.
Status read_interval(Options& options) {
  WatchOptions& watch = options.watch;
  watch.interval_ns = kIntervalDefault_ns;
  if (!watch.on || watch.interval.empty()) return ok_status();
  const std::optional<uint64_t> interval_ns = parse_wait_timeout(watch.interval);
  if (!interval_ns && options.node.volume.empty()) {
    options.node.volume = watch.interval;
    return ok_status();
  }
  if (!interval_ns || *interval_ns < kIntervalMin_ns || *interval_ns > kIntervalMax_ns)
    return wrong_usage("--watch: '" + watch.interval + "' is not an interval from 100ms to 1h",
                       "write it like 2s, or leave it out");
  watch.interval_ns = *interval_ns;
  return ok_status();
}

}  // namespace

Status prepare_status(Options& options) { return read_interval(options); }

Status prepare_probe(Options& options) {
  const ProbeOptions& probe = options.probe;
  if (probe.duty > 100)
    return wrong_usage("probe: --duty " + std::to_string(probe.duty) + " is more than all of the time", "give 1 to 100");
  for (const std::string& link : probe.links)
    if (const Status good = check_name("link", link); !good)
      return wrong_usage("probe: --link: " + good.error().what, good.error().action);
  const std::string& plot = probe.plot;
  if (!plot.empty() && (plot.size() < 5 || plot.compare(plot.size() - 4, 4, ".svg") != 0))
    return wrong_usage("probe: --plot " + plot + ": a picture is written as SVG",
                       "name it FILE.svg; rsvg-convert, of librsvg2-bin, makes a PNG of that");
  return ok_status();
}

Status prepare_plan(Options& options) {
  constexpr double kTimesMax = 1e6;
  PlanOptions& plan = options.plan;
  const bool lives =
      !plan.links.empty() || !plan.window.empty() || !plan.now.empty() || plan.ratio != 0;
  if (!plan.from.empty() && lives)
    return wrong_usage("plan: --link, --window, --now and --compression are about a mirror that runs, --from is about recordings",
                       "leave one or the other out");
  if (plan.from.empty() && (!plan.devices.empty() || plan.times != 1))
    return wrong_usage("plan: --device and --times are about recordings", "name these, too: --from FILE");
  if (!(plan.times > 0 && plan.times <= kTimesMax))
    return wrong_usage("--times: it is not a number above 0, and of at most 1000000", "write it like 5");
  if (plan.window.empty()) plan.window = "60s";
  for (const std::string& link : plan.links)
    if (const auto parsed = parse_planned_link(link, 0); !parsed) return parsed.error();
  if (plan.now.empty()) return ok_status();
  const auto rate = parse_rate_bits_per_s(plan.now);
  if (!rate || *rate == 0)
    return wrong_usage("plan: --now '" + plan.now + "' is no rate", "write it like 1Gbit");
  plan.now_bits_per_s = static_cast<double>(*rate);
  return ok_status();
}

Status prepare_latency(Options& options) {
  LatencyOptions& latency = options.latency;
  latency.window_given = !latency.window.empty();
  if (!latency.window_given) latency.window = options.watch.on ? "10s" : "start";
  return read_interval(options);
}

}  // namespace twinblock
