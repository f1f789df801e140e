// The verbs that show figures: where the time of writes goes.
#include <unistd.h>

#include "base/units.h"
#include "twinblock/actions.h"
#include "twinblock/control_client.h"
#include "twinblock/json_fields.h"
#include "twinblock/latency_text.h"
#include "twinblock/latency_verdict.h"
#include "twinblock/stats_text.h"
#include "twinblock/text_wrap.h"
#include "twinblock/watch.h"

namespace twinblock {
namespace {

using nlohmann::json;

// A picture that comes later than this is not live any more.
constexpr uint64_t kWatchTimeout_ns = 2 * kSecond_ns;

// On a terminal, but for users who want none (no-color.org) and terminals that have none.
bool wants_colour() {
  const char* none = std::getenv("NO_COLOR");
  const char* kind = std::getenv("TERM");
  return isatty(STDOUT_FILENO) != 0 && (none == nullptr || *none == '\0') &&
         (kind == nullptr || std::string(kind) != "dumb");
}

// The node's figures, and in sentences what they mean.
Result<json> ask_latency(const Options& options, const std::string& socket, uint64_t timeout_ns) {
  Result<json> latency =
      control_request(socket, "latency", json{{"window", options.latency.window}}, timeout_ns);
  if (!latency || !latency.value().is_object()) return latency;
  json told = latency.value();
  told["verdict"] = latency_verdict(told);
  if (const std::string doubt = latency_doubt(told); !doubt.empty()) told["doubt"] = doubt;
  return told;
}

std::string shown(const Options& options, const json& latency) {
  return latency_text(latency, {options.latency.sizes, options.latency.links}, wants_colour());
}

}  // namespace

Result<Output> run_stats(const Options&, const std::string& socket) {
  const Result<json> stats = control_request(socket, "stats", json::object(), kAskTimeout_ns);
  if (!stats) return stats.error();
  return Output{stats.value(), stats_text(stats.value())};
}

Result<Output> run_metrics(const Options&, const std::string& socket) {
  const Result<json> metrics = control_request(socket, "metrics", json::object(), kAskTimeout_ns);
  if (!metrics) return metrics.error();
  return Output{metrics.value(), text_at(metrics.value(), "text")};
}

Result<Output> run_latency(const Options& options, const std::string& socket) {
  const LatencyOptions& wished = options.latency;
  Output sampled;
  if (wished.sample_every) {
    const Result<json> set =
        control_request(socket, "sample", json{{"every", *wished.sample_every}}, kAskTimeout_ns);
    if (!set) return set.error();
    sampled = Output{set.value(), text_at(set.value(), "message") + "\n"};
    if (!options.watch.on && !wished.window_given) return sampled;
  }
  if (options.watch.on)
    return watch(
        options, [&] { return ask_latency(options, socket, kWatchTimeout_ns); },
        [&](const json& latency) { return shown(options, latency); });
  const Result<json> latency = ask_latency(options, socket, kAskTimeout_ns);
  if (!latency) return latency.error();
  return Output{latency.value(), sampled.text + shown(options, latency.value())};
}

Result<Output> run_latency_of_all(const Options& options, const std::vector<std::string>& sockets) {
  if (options.watch.on || options.latency.sample_every)
    return wrong_usage("latency: several volumes have nodes here",
                       "name one: twinblock latency VOLUME, with what is to be watched or set");
  Output output = ask_all(
      sockets, [&](const std::string& socket) { return ask_latency(options, socket, kAskTimeout_ns); });
  for (const json& each : output.data["volumes"]) {
    const std::string error = text_at(each, "error");
    output.text += output.text.empty() ? "" : "\n";
    output.text += error.empty() ? shown(options, each)
                                 : wrapped(text_at(each, "volume") + ": " + error, kTextWidth, 0) + "\n";
  }
  return output;
}

}  // namespace twinblock
