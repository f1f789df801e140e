// The verb `plan`: of a mirror that runs, of all that run here, or of recordings.
#include <functional>
#include <map>

#include "twinblock/actions.h"
#include "twinblock/control_client.h"
#include "twinblock/json_fields.h"
#include "twinblock/locate.h"
#include "twinblock/plan.h"
#include "twinblock/plan_text.h"
#include "twinblock/profile_read.h"
#include "twinblock/seal_cost.h"
#include "twinblock/text_wrap.h"

namespace twinblock {
namespace {

using nlohmann::json;

Result<json> ask_latency_of(const Options& options, const std::string& socket) {
  return control_request(socket, "latency", json{{"window", options.plan.window}}, kAskTimeout_ns);
}

// Of one volume alone, or of one of several, for which no plan is no failure.
Result<json> plan_for(const Options& options, const std::string& socket, bool alone) {
  const Result<json> status = ask_status(socket);
  if (!status) return status.error();
  const Result<json> latency = ask_latency_of(options, socket);
  if (!latency) return latency.error();
  PlanWishes wishes{{}, options.plan.now_bits_per_s, options.plan.ratio, {}};
  // What encryption costs is known where it is on.
  if (!is_encrypted(status.value())) wishes.seal = measure_seal_cost();
  for (const std::string& link : options.plan.links)
    wishes.links.push_back(parse_planned_link(link, round_trip_of(status.value())).value());
  if (!alone) return plan_or_why_not(latency.value(), status.value(), wishes);
  return plan_of(latency.value(), status.value(), wishes);
}

Result<Output> plan_of_all(const Options& options, const std::vector<std::string>& sockets) {
  Output output = ask_all(sockets, [&](const std::string& socket) { return plan_for(options, socket, false); });
  for (const json& each : output.data["volumes"])
    output.text += text_at(each, "volume") + ":\n" + plan_text(each) + "\n";
  output.data["together"] = together(output.data["volumes"]);
  output.text += together_text(output.data["together"]);
  return output;
}

// What the mirror that runs here has shown of its hosts and its link; nothing where none runs.
std::optional<Limits> limits_here(const Options& options) {
  const Result<std::string> socket = locate_control_socket(options.node);
  if (!socket) return std::nullopt;
  const Result<json> latency = ask_latency_of(options, socket.value());
  return latency ? measured_limits(latency.value()) : std::nullopt;
}

Result<Output> plan_of_recordings(const Options& options) {
  std::vector<ProfileFile> files;
  std::vector<Profile> profiles;
  std::map<std::string, std::string> seen;  // a text's digest, and the file that had it first
  for (const std::string& path : options.plan.from) {
    const Result<std::string> text = read_profile_file(path);
    if (!text) return text.error();
    Result<Profile> profile = parse_profile(text.value(), options.plan.devices);
    if (!profile) return refused(path + ": " + profile.error().what, profile.error().action);
    const std::string digest = std::to_string(text.value().size()) + ":" +
                               std::to_string(std::hash<std::string>()(text.value()));
    if (const auto [first, is_new] = seen.emplace(digest, path); !is_new)
      profile.value().notes.insert(profile.value().notes.begin(),
                                   "This is the same recording as " + first->second + ", and counted once more.");
    profiles.push_back(profile.value());
    files.push_back({path, std::move(profile.value())});
  }
  const Load load = add_up(profiles, options.plan.times);
  const std::optional<Limits> measured = limits_here(options);
  return Output{recorded_plan_json(files, load, options.plan.times, measured),
                recorded_plan_text(files, load, options.plan.times, measured)};
}

}  // namespace

Result<Output> run_plan(const Options& options, const std::string& /*socket*/) {
  if (!options.plan.from.empty()) return plan_of_recordings(options);
  if (const auto all = all_control_sockets(options.node); all.size() > 1) return plan_of_all(options, all);
  const Result<std::string> socket = find_node(options);
  if (!socket) return socket.error();
  const Result<json> plan = plan_for(options, socket.value(), true);
  if (!plan) return plan.error();
  return Output{plan.value(), plan_text(plan.value())};
}

}  // namespace twinblock
