// `plan`: what other links would bring to the clients that write now, and one recommendation. Pure: from the
// answers of the verbs `latency` and `status`.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "twinblock/plan_changes.h"
#include "twinblock/plan_zones.h"

namespace twinblock {

struct PlannedLink {
  std::string title;         // "10 Gbit/s"
  double bits_per_s = 0;     // of all links together
  double longer_ns = 0;      // how much longer its round trip is than the present one
};
// "10Gbit", "10Gbit,rtt=80us": `round_trip_ns` is the present link's.
Result<PlannedLink> parse_planned_link(const std::string& text, uint64_t round_trip_ns);

// The shortest round trip of the links that are up, by `status`; 0: not known.
uint64_t round_trip_of(const nlohmann::json& status);

// What is planned with, but for what the nodes say.
struct PlanWishes {
  std::vector<PlannedLink> links;  // in place of the usual ones
  double bits_per_s = 0;           // what the present links are called together; 0: as the nodes say
  double ratio = 0;                // to how much less the data compresses; 0: not said
  SealCost seal;
};
// The object that `plan --json` prints. Fails, with what to do, where nothing was written or
// the rate is not known.
Result<nlohmann::json> plan_of(const nlohmann::json& latency, const nlohmann::json& status, const PlanWishes& wishes);

// The same, of one volume of several: where there is no plan, {"volume", "error", "action"}, and where clients wrote
// all the same, "now" with "writes_per_s" and "bytes_per_s".
nlohmann::json plan_or_why_not(const nlohmann::json& latency, const nlohmann::json& status, const PlanWishes& wishes);

// A plan as text for people, at most 30 lines; or why there is none, and what to do.
std::string plan_text(const nlohmann::json& plan);

// All volumes of a host, which mostly share its link: what their clients write together now, and what of the
// link that takes. {"volumes", "writes_per_s", "bytes_per_s", "left_out"}: the last are names of those where nothing
// was written, or that did not answer.
nlohmann::json together(const nlohmann::json& plans);
std::string together_text(const nlohmann::json& together);

// What a recorded load may be over one gigabit link between these hosts, whatever link they have, of the latency verb's
// answer: how much, until that link is busy for 70% and 90% of the time; and how large a write, until it spends a
// quarter and half of its time on its line. Nothing where the present link's rate is not known, or nothing was written.
std::optional<Limits> measured_limits(const nlohmann::json& latency);

}  // namespace twinblock
