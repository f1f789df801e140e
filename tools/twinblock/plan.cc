#include "twinblock/plan.h"

#include <algorithm>
#include <cmath>

#include "base/units.h"
#include "twinblock/exit_status.h"
#include "twinblock/forecast.h"
#include "twinblock/json_fields.h"
#include "twinblock/link_text.h"
#include "twinblock/simplex_part.h"
#include "twinblock/text_format.h"
#include "twinblock/text_wrap.h"

namespace twinblock {
namespace {

using nlohmann::json;

constexpr double kGbit = 1e9;
// So much more throughput, or less time for a write, is worth another link.
constexpr double kWorthwhile = 0.15;
// A faster link that adds less than this to what a slower one brings is not the one to buy.
constexpr double kStep = 0.25;
// Fewer writes say little of one in a hundred.
constexpr uint64_t kEnoughWrites = 1000;
// What a resync fills of a link that nothing else limits.
constexpr double kResyncPart = 0.95;
// Clients that write for less than this part of the window do something else for a good part of it.
constexpr double kAllTheTime = 0.9;
// A resync that moved more than this part of what its link carries had the link for its limit.
constexpr double kLinkWasLimit = 0.7;

uint64_t whole(double value) { return static_cast<uint64_t>(std::max(0.0, value) + 0.5); }

std::string rate_text(double bits_per_s) { return bit_rate(whole(bits_per_s)); }

std::string time_text(double ns) { return compact_duration(whole(ns)); }

json row_json(const std::string& title, double bits_per_s, const Forecast& of) {
  json classes = json::array();
  for (const Forecast::Class& each : of.classes)
    classes.push_back({{"class", each.name},
                       {"p50_ns", whole(each.p50_ns)},
                       {"p99_ns", whole(each.p99_ns)},
                       {"bytes_per_s", whole(each.bytes_per_s)}});
  return {{"title", title},
          {"rate_bits_per_s", whole(bits_per_s)},
          {"busy_share", of.busy},
          {"writes_per_s", of.writes_per_s},
          {"bytes_per_s", whole(of.bytes_per_s)},
          {"mean_ns", whole(of.mean_ns)},
          {"classes", std::move(classes)}};
}

// How fast the last resync to the peer moved what it sent; 0: there was none, or it was too short to tell.
double last_resync_bytes_per_s(const json& status) {
  const json last = object_at(status, "last_resync");
  const double seconds = number_at(last, "duration_s");
  const auto bytes = static_cast<double>(count_at(last, "bytes"));
  return seconds >= 0.5 && bytes >= 8 * static_cast<double>(kMiB) ? bytes / seconds : 0;
}

// What a resync moves over a link: as much as it carries, unless the last one was held up by something else.
double resync_bytes_per_s(double line, double now_line, double last) {
  const double full = kResyncPart * line;
  if (last <= 0 || last >= kLinkWasLimit * now_line) return full;
  return std::min(full, last);
}

json resyncs(const json& latency, double line, double now_line, double last) {
  json found = json::array();
  for (const json& each : array_at(object_at(latency, "load"), "dirtied")) {
    const auto bytes = static_cast<double>(count_at(each, "bytes"));
    found.push_back({{"outage_minutes", count_at(each, "minutes")},
                     {"bytes", count_at(each, "bytes")},
                     {"duration_s", bytes / resync_bytes_per_s(line, now_line, last)}});
  }
  return found;
}

double better(const Forecast& then, const Forecast& now) {
  return std::max(then.bytes_per_s / std::max(1.0, now.bytes_per_s), now.mean_ns / std::max(1.0, then.mean_ns));
}

// "clients move 23.8 MB/s instead of 119 MB/s" …
std::string change(const Forecast& then, const Forecast& now) {
  return rate_moved(then.bytes_per_s) + " instead of " + rate_moved(now.bytes_per_s) + ", and a write takes " +
         time_text(then.mean_ns) + " instead of " + time_text(now.mean_ns);
}

struct Candidate {
  PlannedLink link;
  Forecast then;
};

// The slowest to which no faster one adds enough.
const Candidate& choice_of(std::vector<Candidate>& candidates, const Forecast& now) {
  std::stable_sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
    return a.link.bits_per_s < b.link.bits_per_s;
  });
  const Candidate* choice = &candidates.front();
  for (const Candidate& each : candidates)
    if (better(each.then, now) > (1 + kStep) * better(choice->then, now)) choice = &each;
  return *choice;
}

std::string percent(double share) {
  return share < 0.01 ? "less than 1%" : printed("%.0f%%", share * 100);
}

// `now`: while they write.
std::string recommend(std::vector<Candidate> candidates, const Forecast& now, double under_way) {
  if (candidates.empty()) return {};
  const Candidate& choice = choice_of(candidates, now);
  const Candidate& best = *std::max_element(
      candidates.begin(), candidates.end(), [&now](const Candidate& a, const Candidate& b) {
        return better(a.then, now) < better(b.then, now);
      });
  if (better(best.then, now) < 1 - kWorthwhile)
    return "None of these is as good as what is there: with " + best.link.title + " clients move " +
           change(best.then, now) + ".";
  if (better(best.then, now) < 1 + kWorthwhile)
    return "A faster link won't help: even with " + candidates.back().link.title + " clients move " +
           rate_moved(candidates.back().then.bytes_per_s) + " (now " + rate_moved(now.bytes_per_s) +
           (under_way < kAllTheTime ? ", both while they write, " + percent(under_way) + " of the time" : "") +
           "). What they wait for is the software and the disks; twinblock latency shows which.";
  std::string text = "A faster link will help";
  if (under_way < kAllTheTime) text += " while clients write, which is " + percent(under_way) + " of the time";
  text += ": with " + choice.link.title + " clients move " + change(choice.then, now) + ".";
  if (&choice != &best)
    text += " More than that adds little: " + best.link.title + " " + rate_moved(best.then.bytes_per_s) + ".";
  return text;
}

std::vector<Candidate> candidates_of(const Workload& workload, const std::vector<PlannedLink>& wished,
                                     double now_bits) {
  std::vector<PlannedLink> links = wished;
  if (links.empty()) {
    for (const double gigabits : {1.0, 10.0, 25.0, 100.0})
      links.push_back({rate_text(gigabits * kGbit), gigabits * kGbit, 0});
    links.push_back({"a second link", 2 * now_bits, 0});
  }
  std::vector<Candidate> made;
  for (const PlannedLink& link : links)
    made.push_back({link, forecast(workload, payload_bytes_per_s(link.bits_per_s), link.longer_ns)});
  return made;
}

uint64_t writes_of(const Workload& workload) {
  double writes = 0;
  for (const Workload::Class& each : workload.classes) writes += each.writes;
  return whole(writes);
}

std::string rests_on(const Workload& workload, const json& latency) {
  const std::string window = text_at(latency, "window");
  return std::to_string(writes_of(workload)) + " writes " +
         (window == "start" || window.empty() ? "since the node started" : "of the last " + window) +
         printed(", %.0f at a time", workload.clients);
}

// How far to believe it, and why no further.
json sureness(const Workload& workload) {
  std::vector<std::string> doubts;
  if (writes_of(workload) < kEnoughWrites)
    doubts.push_back("fewer than " + std::to_string(kEnoughWrites) + " writes were measured");
  if (as_measured(workload).busy >= kFull)
    doubts.push_back(
        (over_window(workload).busy >= kFull
             ? "the link is full now"
             : "the link is full while clients write, " + percent(under_way_share(workload)) + " of the time") +
        ", and nobody has seen how fast the hosts are without it: what is beyond some five "
        "times of today's throughput is a guess");
  json told = json::array();
  for (const std::string& doubt : doubts) told.push_back(doubt);
  return {{"level", doubts.empty() ? "good" : doubts.size() == 1 ? "fair" : "poor"}, {"doubts", told}};
}

std::string plan_row(const json& row) {
  std::string out = printed("%-22s %4.0f%% %10s", text_at(row, "title").c_str(), number_at(row, "busy_share") * 100,
                            rate_moved(number_at(row, "bytes_per_s")).c_str());
  for (const json& each : array_at(row, "classes"))
    out += printed(" %8s/%8s", compact_duration(count_at(each, "p50_ns")).c_str(),
                   compact_duration(count_at(each, "p99_ns")).c_str());
  return out + "\n";
}

Error unknown_rate(const json& latency) {
  std::string unknown = "the present link";
  size_t up = 0;
  for (const json& link : array_at(latency, "links")) {
    if (is_down(link)) continue;
    ++up;
    if (count_at(link, "rate_bits_per_s") == 0 && count_at(link, "carried_bytes_per_s") == 0)
      unknown = "link " + text_at(link, "name");
  }
  if (up == 0)
    return refused("plan: no link is up, and there is nothing to reckon with", "see: twinblock link list " + text_at(latency, "volume"));
  const bool several = up > 1;
  return refused("plan: the rate of " + (several ? unknown : "the present link") + " is not known, as it was never busy",
                 std::string("say what ") + (several ? "the links are called together" : "it is called") +
                     ": twinblock plan " + text_at(latency, "volume") +
                     " --now 1Gbit; or write rate = \"1Gbit\" into its table [link.NAME] of the volume's file");
}

// What one gigabit link carries: no more than one of that rate or a higher one has carried here. A slower one says
// nothing of it.
double gigabit_line(const json& latency) {
  const double most = payload_bytes_per_s(kGbit);
  double seen = 0;
  for (const json& link : array_at(latency, "links")) {
    if (is_down(link)) continue;
    if (number_at(link, "rate_bits_per_s") >= kGbit) seen = std::max(seen, number_at(link, "carried_bytes_per_s"));
  }
  return seen > 0 ? std::min(seen, most) : most;
}

Error nothing_to_plan_with(const json& latency) {
  const SimplexPart simplex = simplex_part_of(latency);
  if (simplex.too_much() && simplex.share < 1)
    return refused("plan: " + simplex.what + ", which says nothing of links", without_simplex(latency, "plan"));
  return refused(
      "plan: no write of a client has waited for the peer in this window, so there is nothing to plan with",
      "run it on the primary, in duplex, while the clients do what they usually do; or over a longer "
      "time: twinblock plan " + text_at(latency, "volume") + " --window start");
}

}  // namespace

Result<PlannedLink> parse_planned_link(const std::string& text, uint64_t round_trip_ns) {
  const size_t comma = text.find(',');
  const auto rate = parse_rate_bits_per_s(text.substr(0, comma));
  const Error wrong = wrong_usage("plan: --link '" + text + "' is no link",
                                  "write it like 10Gbit, or 10Gbit,rtt=80us");
  if (!rate || *rate == 0) return wrong;
  PlannedLink link{rate_text(static_cast<double>(*rate)), static_cast<double>(*rate), 0};
  if (comma == std::string::npos) return link;
  const std::string rest = text.substr(comma + 1);
  if (rest.rfind("rtt=", 0) != 0) return wrong;
  const auto wished_ns = parse_duration_ns(rest.substr(4));
  if (!wished_ns) return wrong;
  link.longer_ns = static_cast<double>(*wished_ns) - static_cast<double>(round_trip_ns);
  link.title += ", " + compact_duration(*wished_ns);
  return link;
}

uint64_t round_trip_of(const json& status) {
  double least_us = 0;
  for (const json& link : array_at(status, "links")) {
    const double us = number_at(link, "round_trip_us");
    if (text_at(link, "state") == "up" && us > 0 && (least_us == 0 || us < least_us)) least_us = us;
  }
  return whole(least_us * 1e3);
}

Result<json> plan_of(const json& latency, const json& status, const PlanWishes& wishes) {
  const std::string volume = text_at(latency, "volume");
  std::optional<Workload> workload = workload_of(latency, wishes.bits_per_s);
  if (!workload) return nothing_to_plan_with(latency);
  if (workload->line_bytes_per_s <= 0) return unknown_rate(latency);
  const Forecast writing = as_measured(*workload);
  const double now_bits = wishes.bits_per_s > 0 ? wishes.bits_per_s
                                         : workload->line_bytes_per_s / payload_bytes_per_s(1.0);
  const double last = last_resync_bytes_per_s(status);
  json rows = json::array();
  const std::vector<Candidate> candidates = candidates_of(*workload, wishes.links, now_bits);
  for (const Candidate& each : candidates) {
    json row = row_json(each.link.title, each.link.bits_per_s, each.then);
    row["resync"] = resyncs(latency, payload_bytes_per_s(each.link.bits_per_s), workload->line_bytes_per_s, last);
    rows.push_back(std::move(row));
  }
  json present = row_json("now", now_bits, over_window(*workload));
  present["wire_bytes_per_s"] = whole(workload->wire_part * over_window(*workload).bytes_per_s);
  present["resync"] = resyncs(latency, workload->line_bytes_per_s, workload->line_bytes_per_s, last);
  json changes = json::array();
  for (const PlannedChange& each : changes_of(*workload, latency, status, wishes.seal, wishes.ratio)) {
    json row = row_json(each.title, now_bits, changed(*workload, each.change));
    row["doubt"] = each.doubt;
    changes.push_back(std::move(row));
  }
  return json{{"volume", volume},
              {"node", text_at(latency, "node")},
              {"window", text_at(latency, "window")},
              {"load", {{"writers", workload->clients},
                        {"pause_ns", whole(workload->pause_ns)},
                        {"line_bytes_per_s", whole(workload->line_bytes_per_s)},
                        {"under_way_share", under_way_share(*workload)}}},
              {"now", std::move(present)},
              {"while_writing", row_json("while they write", now_bits, writing)},
              {"links", std::move(rows)},
              {"changes", std::move(changes)},
              {"recommendation", recommend(candidates, writing, under_way_share(*workload))},
              {"rests_on", rests_on(*workload, latency)},
              {"sure", sureness(*workload)}};
}

json plan_or_why_not(const json& latency, const json& status, const PlanWishes& wishes) {
  const Result<json> plan = plan_of(latency, status, wishes);
  if (plan) return plan.value();
  json told{{"volume", text_at(latency, "volume")}, {"error", plan.error().what}, {"action", plan.error().action}};
  double writes = 0, bytes = 0;
  for (const json& each : array_at(latency, "classes")) {
    writes += number_at(each, "writes");
    bytes += number_at(each, "bytes");
  }
  const double window_s = number_at(object_at(latency, "load"), "window_ns") / 1e9;
  if (writes > 0 && window_s > 0)
    told["now"] = {{"writes_per_s", writes / window_s},
                   {"bytes_per_s", whole(bytes / window_s)},
                   {"wire_bytes_per_s", whole(wire_part_of(latency) * bytes / window_s)}};
  return told;
}

std::string plan_text(const json& plan) {
  if (const std::string error = text_at(plan, "error"); !error.empty()) {
    const std::string action = text_at(plan, "action");
    return paragraph(error + ".") + (action.empty() ? "" : paragraph("to do: " + action));
  }
  std::string out = paragraph(text_at(plan, "recommendation"));
  const json sure = object_at(plan, "sure");
  std::string rests = "It rests on " + text_at(plan, "rests_on") + "; sureness: " + text_at(sure, "level");
  for (const json& doubt : array_at(sure, "doubts"))
    if (doubt.is_string()) rests += "; " + doubt.get<std::string>();
  out += paragraph(rests + ".") + "\n";
  std::vector<json> rows{object_at(plan, "now")};
  for (const json& row : array_at(plan, "links")) rows.push_back(row);
  std::string head = printed("%-22s %5s %10s", "link", "busy", "moved");
  for (const json& each : array_at(rows.front(), "classes"))
    head += printed(" %17s", (text_at(each, "class") + " p50/p99").c_str());
  out += head + "\n";
  out += plan_row(rows.front());
  const double under_way = number_at(object_at(plan, "load"), "under_way_share");
  if (under_way < kAllTheTime) {
    out += "in the " + percent(under_way) + " of the time in which any write is under way:\n";
    out += plan_row(object_at(plan, "while_writing"));
  }
  for (size_t i = 1; i < rows.size(); ++i) out += plan_row(rows[i]);
  const json changes = array_at(plan, "changes");
  if (!changes.empty()) out += "over the present link:\n";
  for (const json& row : changes) out += plan_row(row);
  out += "\nA resync after an outage, by what was written in the last minutes:\n";
  std::string outages = printed("%-22s", "");
  for (const json& each : array_at(rows.front(), "resync"))
    outages += printed(" %22s", (count_text(each, "outage_minutes") + " min, " +
                                 compact_size(count_at(each, "bytes"))).c_str());
  out += outages + "\n";
  for (const json& row : rows) {
    out += printed("%-22s", text_at(row, "title").c_str());
    for (const json& each : array_at(row, "resync"))
      out += printed(" %22s", time_text(number_at(each, "duration_s") * 1e9).c_str());
    out += "\n";
  }
  return out;
}

json together(const json& plans) {
  double writes = 0, bytes = 0, wire = 0;
  uint64_t volumes = 0;
  json left_out = json::array();
  for (const json& plan : plans) {
    const json now = object_at(plan, "now");
    if (!now.is_object() || now.empty()) {
      left_out.push_back(text_at(plan, "volume"));
      continue;
    }
    ++volumes;
    writes += number_at(now, "writes_per_s");
    bytes += number_at(now, "bytes_per_s");
    wire += number_at(now, "wire_bytes_per_s");
  }
  return {{"volumes", volumes},
          {"writes_per_s", writes},
          {"bytes_per_s", whole(bytes)},
          {"wire_bytes_per_s", whole(wire)},
          {"left_out", left_out}};
}

std::string together_text(const json& together) {
  const double bytes = number_at(together, "bytes_per_s"), wire = number_at(together, "wire_bytes_per_s");
  std::string text = "Together, of " + count_text(together, "volumes") + " volumes with writes: " +
                     printed("%.4g writes/s, ", number_at(together, "writes_per_s")) + rate_moved(bytes) +
                     (wire < bytes ? ", which travel as " + rate_moved(wire) : "") + ". Where they share a link, that is";
  const char* before = " ";
  for (const double gigabits : {1.0, 10.0, 25.0}) {
    text += before + printed("%.0f%% of ", 100 * wire / payload_bytes_per_s(gigabits * kGbit)) +
            rate_text(gigabits * kGbit);
    before = ", ";
  }
  std::vector<std::string> left_out;
  for (const json& each : array_at(together, "left_out"))
    if (each.is_string()) left_out.push_back(each.get<std::string>());
  if (!left_out.empty()) text += ". Left out, as nothing was written there or no node answers: " + joined(left_out);
  return paragraph(text + ".");
}

std::optional<Limits> measured_limits(const json& latency) {
  const std::optional<Workload> workload = workload_of(latency, 0);
  if (!workload || workload->line_bytes_per_s <= 0) return std::nullopt;
  double software_ns = 0, writes = 0;
  for (const Workload::Class& each : workload->classes) {
    software_ns += each.writes * (each.mean_ns - each.link_ns);
    writes += each.writes;
  }
  // Of the present link's, a load would get on with one gigabit that only a faster one carries.
  const double line = gigabit_line(latency);
  // As large as what the line carries while the rest of a write takes its time.
  const double half_bytes = line * software_ns / writes / 1e9;
  return Limits{0.7 * line, kFull * line, half_bytes / 3, half_bytes};
}

}  // namespace twinblock
