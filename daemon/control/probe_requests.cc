#include "control/probe_requests.h"

#include <array>
#include <string>

#include "base/limits.h"

namespace twinblock {
namespace {

using nlohmann::json;

const char* stage_name(ProbeStage stage) {
  constexpr std::array<const char*, 6> kNames{"connecting", "talking", "waiting",
                                              "streaming",  "done",    "failed"};
  return kNames.at(static_cast<size_t>(stage));
}

json host_json(const LinkHost& host) {
  return {{"interface", host.interface},
          {"congestion", host.congestion},
          {"rate_bits_per_s", host.rate_bits_per_s},
          {"mtu_bytes", host.mtu_bytes},
          {"half_duplex", host.half_duplex},
          {"receive_buffer_max_bytes", host.receive_buffer_max_bytes},
          {"send_buffer_max_bytes", host.send_buffer_max_bytes},
          {"receive_errors", host.receive_errors},
          {"send_errors", host.send_errors},
          {"dropped", host.dropped},
          {"collisions", host.collisions}};
}

json state_json(const StreamState& state) {
  return {{"round_trip_ns", state.round_trip_ns},
          {"round_trip_min_ns", state.round_trip_min_ns},
          {"segment_bytes", state.segment_bytes},
          {"window_bytes", state.window_bytes},
          {"peer_window_bytes", state.peer_window_bytes},
          {"send_buffer_bytes", state.send_buffer_bytes},
          {"retransmitted", state.retransmitted},
          {"busy_ns", state.busy_ns},
          {"peer_window_ns", state.peer_window_ns},
          {"send_buffer_ns", state.send_buffer_ns}};
}

json stream_json(const ProbeStream& stream) {
  return {{"asked_ns", stream.asked_ns},
          {"received_bytes", stream.received_bytes},
          {"passed_ns", stream.passed_ns},
          {"beside_bytes", stream.beside_bytes},
          {"late_ns", stream.late_ns},
          {"receive_buffer_bytes", stream.receive_buffer_bytes},
          {"half", state_json(stream.half)},
          {"end", state_json(stream.end)},
          {"interval_ns", limits::kProbeInterval_ns},
          {"interval_bytes", stream.interval_bytes}};
}

}  // namespace

json probe_result_json(const ProbeResult& probe) {
  json talks = json::array();
  for (const ProbeTalk& talk : probe.talks)
    talks.push_back({{"bytes", talk.bytes}, {"count", talk.count}, {"passed_ns", talk.passed_ns}});
  return {{"number", probe.number},
          {"link", probe.link},
          {"stage", stage_name(probe.stage)},
          {"error", probe.error},
          {"protection", probe.protection},
          {"busy", probe.busy},
          {"wait_ns", probe.wait_ns},
          {"here", host_json(probe.here)},
          {"there", host_json(probe.there)},
          {"round_trips_ns", probe.round_trips_ns},
          {"talks", std::move(talks)},
          {"stream", stream_json(probe.stream)}};
}

void answer_probe(Engine& engine, const json& args, const Send& send) {
  if (args["action"] == "begin") {
    const auto duty = args.value("duty", uint64_t{0});
    if (duty > 100) {
      send(failure("a duty of " + std::to_string(duty) + " per cent is more than all of the time",
                   "give 1 to 100"));
      return;
    }
    const Result<uint64_t> number = engine.orders().probe(args.value("link", std::string()), duty);
    send(number ? success({{"number", number.value()}}) : failure(number.error()));
    return;
  }
  const ProbeResult* probe = engine.figures().probe();
  // Thousands of figures: who asks again and again says which one it has.
  if (probe != nullptr && probe->number == args.value("known", uint64_t{0}) && probe->stage == ProbeStage::kDone) {
    send(success({{"volume", engine.config().volume}, {"node", engine.node()}, {"known", true}}));
    return;
  }
  send(success({{"volume", engine.config().volume},
                {"node", engine.node()},
                {"probe", probe != nullptr ? probe_result_json(*probe) : json()}}));
}

}  // namespace twinblock
