#include "control/latency_requests.h"

#include <limits>
#include <string>

#include "base/limits.h"
#include "control/requests.h"

namespace twinblock {
namespace {

using nlohmann::json;

Window window_of(const std::string& word) {
  if (word == "10s") return Window::k10s;
  return word == "60s" ? Window::k60s : Window::kStart;
}

}  // namespace

json distribution_json(const Distribution& of) {
  return {{"count", of.count},   {"sum_ns", of.sum_ns}, {"p50_ns", of.p50_ns},
          {"p90_ns", of.p90_ns}, {"p99_ns", of.p99_ns}, {"max_ns", of.max_ns}};
}

json size_class_json(const LatencyView::Class& each) {
  const uint64_t bytes_max = size_class_bytes_max(each.size_class);
  return {{"class", size_class_name(each.size_class)},
          {"bytes_max", bytes_max == ~uint64_t{0} ? json() : json(bytes_max)},
          {"writes", each.total.count}};
}

json class_latency_json(const LatencyView::Class& each) {
  json stages = json::object();
  for (size_t i = 0; i < kStages; ++i)
    stages[stage_name(static_cast<Stage>(i))] = distribution_json(each.stages[i]);
  json rendered = size_class_json(each);
  rendered["bytes"] = each.bytes;
  rendered["total"] = distribution_json(each.total);
  rendered["stages"] = std::move(stages);
  return rendered;
}

json link_latency_json(const LatencyView::Link& each) {
  json parts = json::object();
  for (size_t i = 0; i < kTripParts; ++i)
    parts[trip_part_name(static_cast<TripPart>(i))] = distribution_json(each.parts[i]);
  return {{"name", each.name},
          {"up", each.up},
          {"rate_bits_per_s", each.rate_bits_per_s},
          {"carried_bytes_per_s", each.carried_bytes_per_s},
          {"way_ns", each.way_ns},
          {"alone_share", each.alone_share},
          {"samples", each.parts[0].count},
          {"parts", std::move(parts)}};
}

json write_load_json(const WriteLoad& load) {
  json dirtied = json::array();
  for (size_t i = 0; i < kOutageMinutes.size(); ++i)
    dirtied.push_back({{"minutes", kOutageMinutes[i]}, {"bytes", load.dirtied_bytes[i]}});
  return {{"busy_ns", load.busy_ns},
          {"window_ns", load.window_ns},
          {"depth_p99", load.depth_p99},
          {"pause_p50_ns", load.pause_p50_ns},
          {"simplex_writes", load.simplex_writes},
          {"simplex_bytes", load.simplex_bytes},
          {"simplex_ns", load.simplex_ns},
          {"dirtied", std::move(dirtied)}};
}

void answer_latency(const Engine& engine, const json& args, const Send& send) {
  const std::string word = args.value("window", std::string("start"));
  const Window window = window_of(word);
  const LatencyView view = engine.figures().latency(window);
  const WriteLoad load = engine.figures().write_load(window);
  json classes = json::array();
  for (const LatencyView::Class& each : view.classes) classes.push_back(class_latency_json(each));
  json links = json::array();
  for (const LatencyView::Link& each : view.links) links.push_back(link_latency_json(each));
  send(success({{"volume", engine.config().volume},
                {"node", engine.node()},
                {"window", word},
                {"sample_every", view.sample_every},
                {"load", write_load_json(load)},
                {"wire_part", load.wire_part},
                {"zero_part", load.zero_part},
                {"classes", std::move(classes)},
                {"links", std::move(links)}}));
}

void answer_sample(Engine& engine, const json& args, const Send& send) {
  const uint64_t every = args.value("every", uint64_t{0});
  if (every > std::numeric_limits<uint32_t>::max()) {
    send(failure("every " + std::to_string(every) + " writes is too seldom",
                 "0 takes no samples at all"));
    return;
  }
  engine.orders().set_sample_every(static_cast<uint32_t>(every));
  send(
      success({{"message",
                every == 0 ? std::string("no write is sampled")
                : every == 1
                    ? std::string("each write is sampled, while none before it is under way")
                    : "one write of " + std::to_string(every) + " is sampled, at most " +
                          std::to_string(kSecond_ns / limits::kSampleInterval_ns) + " a second"}}));
}

}  // namespace twinblock
