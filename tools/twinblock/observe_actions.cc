// The verbs that show figures: where the time of writes goes.
#include <unistd.h>

#include "base/units.h"
#include "twinblock/actions.h"
#include "twinblock/control_client.h"
#include "twinblock/json_fields.h"
#include "twinblock/latency_text.h"
#include "twinblock/stats_text.h"
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

Result<json> ask_latency(const Options& options, const std::string& socket, uint64_t timeout_ns) {
  return control_request(socket, "latency", json{{"window", options.latency.window}}, timeout_ns);
}

std::string picture(const Options& options, const Screen& screen, const json& latency) {
  if (options.print_json) return json_text(latency) + "\n";
  if (!screen.terminal()) return latency_frame(latency, false, 0) + "\n";
  return latency_frame(latency, wants_colour(), screen.rows());
}

// Until the user ends it. A node that does not answer for a while, or is restarted, is asked again.
Result<Output> watch_latency(const Options& options, const std::string& socket) {
  StopSignals stop;
  Screen screen(stdout);
  Output output;
  output.printed = true;
  bool heard = false;
  do {
    const Result<json> latency = ask_latency(options, socket, kWatchTimeout_ns);
    if (!latency && (!heard || latency.error().code != kExitUnreachable)) return latency.error();
    heard = true;
    if (!latency && options.print_json) continue;
    const std::string shown = latency ? picture(options, screen, latency.value())
                                      : latency.error().what + "; trying again\n";
    if (!screen.draw(shown)) break;
  } while (stop.pause(options.latency.interval_ns));
  return output;
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
    if (!wished.watch && !wished.window_given) return sampled;
  }
  if (wished.watch) return watch_latency(options, socket);
  const Result<json> latency = ask_latency(options, socket, kAskTimeout_ns);
  if (!latency) return latency.error();
  return Output{latency.value(), sampled.text + latency_text(latency.value(), wants_colour())};
}

}  // namespace twinblock
