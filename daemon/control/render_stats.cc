// The counters of a node as JSON.
#include "base/units.h"
#include "control/latency_requests.h"
#include "control/requests.h"

namespace twinblock {
namespace {

using nlohmann::json;

json write_sizes(const LatencyView& latency) {
  json sizes = json::array();
  for (const LatencyView::Class& each : latency.classes) sizes.push_back(size_class_json(each));
  return sizes;
}

json links(const StatusView& view) {
  json links = json::array();
  for (const StatusView::Link& link : view.links)
    links.push_back({{"name", link.name},
                     {"out_bytes", link.out_bytes},
                     {"in_bytes", link.in_bytes},
                     {"cipher_s", in_seconds(link.cipher_ns)},
                     {"failovers", link.failovers}});
  return links;
}

}  // namespace

json render_stats(const StatusView& view, const LatencyView& latency) {
  const StatusView::Compression& compression = view.compression;
  return {
      {"volume", view.volume},
      {"node", view.node},
      {"uptime_s", in_seconds(view.uptime_ns)},
      {"clients", view.clients},
      {"writes", view.writes},
      {"write_bytes", view.write_bytes},
      {"write_sizes", write_sizes(latency)},
      {"reads", view.reads},
      {"read_bytes", view.read_bytes},
      {"flushes", view.flushes},
      {"zeroes", view.zeroes},
      {"simplex",
       {{"s", in_seconds(view.simplex_ns)}, {"times", view.simplex_times}, {"now", view.simplex_now}}},
      {"peer_losses", view.peer_losses},
      {"resync_bytes", view.resync_bytes},
      {"compression",
       {{"writes_compressed", compression.writes_compressed},
        {"writes_raw", compression.writes_raw},
        {"raw_bytes", compression.raw_bytes},
        {"sent_bytes", compression.sent_bytes},
        {"incompressible_bytes", compression.incompressible_bytes},
        {"compress_s", in_seconds(compression.compress_ns)},
        {"decompress_s", in_seconds(compression.decompress_ns)}}},
      {"cache", render_cache(view)},
      {"links", links(view)},
      {"metadata",
       {{"intent_commits", view.intent_commits},
        {"intent_waits", view.intent_waits},
        {"record_writes", view.record_writes}}}};
}

}  // namespace twinblock
