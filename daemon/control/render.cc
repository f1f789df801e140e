#include "base/limits.h"
#include "base/units.h"
#include "control/compression_words.h"
#include "control/memory_words.h"
#include "control/requests.h"
#include "control/resync_words.h"
#include "control/status_words.h"
#include "control/witness_words.h"

namespace twinblock {
namespace {

using nlohmann::json;

double microseconds(uint64_t ns) { return static_cast<double>(ns) / 1e3; }

template <typename T>
json or_null(const std::optional<T>& value) {
  return value ? json(*value) : json();
}

std::string peer_data(const StatusView& view) {
  if (!view.peer.data) return "unknown";
  return data_state_name(*view.peer.data) +
         std::string(view.peer.connected ? "" : " when last heard");
}

// Of the source only.
std::string pace(const StatusView::Resync& resync) {
  if (!resync.active || !resync.source) return "";
  if (resync.paused) return "paused";
  return resync.pace_bytes_per_s == 0 ? "auto" : format_size(resync.pace_bytes_per_s) + "/s";
}

json render_peer(const StatusView& view) {
  return {{"name", view.peer.name},
          {"connected", view.peer.connected},
          {"role", role_name(view.peer.role)},
          {"data", peer_data(view)},
          {"term", view.peer.term},
          {"disk_stalled_s", in_seconds(view.peer.stalled_ns)},
          {"silent_ms", view.peer.silent_ns ? json(*view.peer.silent_ns / kMillisecond_ns) : json()},
          {"error", view.peer.error}};
}

json render_sent(const StatusView::ResyncSent& sent) {
  return {{"data_bytes", sent.data_bytes},
          {"zero_bytes", sent.zero_bytes},
          {"compared_bytes", sent.compared_bytes}};
}

json render_resync(const StatusView& view) {
  const StatusView::Resync& resync = view.resync;
  const bool told = resync.active && resync.cause;
  return {{"active", resync.active},
          {"direction", !resync.active  ? "none"
                        : resync.source ? "source"
                                        : "target"},
          {"bytes_done", resync.done_bytes},
          {"bytes_total", resync.total_bytes},
          {"percent", resync.percent},
          {"rate_bytes_per_s", resync.rate_bytes_per_s},
          {"average_bytes_per_s", resync.average_bytes_per_s},
          {"eta_s", or_null(resync.remaining_s)},
          {"pace", pace(resync)},
          {"reason", told ? resync_words(*resync.cause, view.node, view.peer.name) : ""},
          {"unreadable_bytes", resync.unreadable_bytes},
          {"sent", render_sent(resync.sent)}};
}

json render_verify(const StatusView& view) {
  const StatusView::Verify& verify = view.verify;
  if (!verify.begun) return {};
  json differences = json::array();
  for (const auto& [offset, length] : verify.differences)
    differences.push_back({{"offset", offset}, {"length", length}});
  return {{"active", verify.active},
          {"repair", verify.repair},
          {"ended", verify.ended},
          {"bytes_done", verify.compared_bytes},
          {"bytes_total", verify.total_bytes},
          {"differing_bytes", verify.differing_bytes},
          {"repaired_bytes", verify.repaired_bytes},
          {"rate_bytes_per_s", verify.rate_bytes_per_s},
          {"eta_s", or_null(verify.remaining_s)},
          {"differences", differences}};
}

json render_memory(const MemoryStanding& standing) {
  const MemoryWords words = memory_words(standing);
  return {{"io_flusher", standing.io_flusher_error == 0},
          {"locked", standing.lock_error == 0},
          {"oom_score_adj", standing.oom_score_adj},
          {"refused", words.refused},
          {"action", words.action}};
}

json render_counters(const StatusView& view) {
  return {{"writes", view.writes},
          {"write_bytes", view.write_bytes},
          {"reads", view.reads},
          {"read_bytes", view.read_bytes},
          {"zeroes", view.zeroes},
          {"flushes", view.flushes},
          {"resync_bytes", view.resync_bytes},
          {"peer_losses", view.peer_losses}};
}

json render_way_back(const StatusView::WayBack& way) {
  return {{"kept", way.kept},
          {"since", way.kept ? format_time(way.since_s) : ""},
          {"to_get_bytes", way.to_get_bytes},
          {"taking", way.taking},
          {"rolling_back", way.rolling_back},
          {"failure", way.failure}};
}

}  // namespace

json render_cache(const StatusView& view) {
  if (!view.cache) return {};
  const ContentCache::Figures& cache = *view.cache;
  return {{"size_bytes", cache.size_bytes},
          {"memory_bytes", cache.memory_bytes},
          {"cached_bytes", cache.blocks * limits::kBlockBytes},
          {"hits", cache.hits},
          {"misses", cache.misses},
          {"equal_hits", cache.equal_hits},
          {"shared_bytes", cache.shared_blocks * limits::kBlockBytes},
          {"places", cache.places},
          {"places_max", cache.places_max}};
}

json render_links(const StatusView& view) {
  json links = json::array();
  for (const StatusView::Link& link : view.links)
    links.push_back(
        {{"name", link.name},
         {"state", link_state_name(link.state)},
         {"local", link.local},
         {"peer", link.peer},
         {"round_trip_us", link.round_trip_ns ? json(microseconds(*link.round_trip_ns)) : json()},
         {"nominal_bits_per_s", link.nominal_bits_per_s},
         {"measured_bytes_per_s", link.measured_bytes_per_s},
         {"in_bytes_per_s", link.in_bytes_per_s},
         {"out_bytes_per_s", link.out_bytes_per_s},
         {"in_bytes", link.in_bytes},
         {"out_bytes", link.out_bytes},
         {"cipher_s", in_seconds(link.cipher_ns)},
         {"in_flight_bytes", link.in_flight_bytes},
         {"failovers", link.failovers},
         {"silence_limit_ms", link.silence_limit_ns / kMillisecond_ns},
         {"silence_limit_raised", link.silence_limit_raised},
         {"encryption", link.protection},
         {"last_error", link.last_error},
         {"retry_in_ms", link.retry_in_ns / kMillisecond_ns}});
  return links;
}

json render_compression(const StatusView& view) {
  const StatusView::Compression& compression = view.compression;
  const bool any = compression.sent_bytes > 0;
  return {{"mode", compression_name(compression.mode)},
          {"level", compression.level},
          {"writes_compressed", compression.writes_compressed},
          {"writes_raw", compression.writes_raw},
          {"raw_bytes", compression.raw_bytes},
          {"sent_bytes", compression.sent_bytes},
          {"ratio", any ? json(static_cast<double>(compression.raw_bytes) /
                               static_cast<double>(compression.sent_bytes))
                        : json()},
          {"incompressible_bytes", compression.incompressible_bytes},
          {"compress_s", in_seconds(compression.compress_ns)},
          {"decompress_s", in_seconds(compression.decompress_ns)},
          {"decision", compression_words(compression.mode, compression.decision)}};
}

json render_status(const StatusView& view, const NodeFacts& facts) {
  const StatusWords words = status_words(view);
  json last_resync;
  if (view.last_resync)
    last_resync = {{"bytes", view.last_resync->bytes},
                   {"duration_s", in_seconds(view.last_resync->duration_ns)},
                   {"sent", render_sent(view.last_resync->sent)}};
  return {
      {"volume", view.volume},
      {"volume_uuid", metadata::format_uuid(view.mine.volume_uuid)},
      {"node", view.node},
      // Who goes on as primary, but does not serve yet, is none for those who attach.
      {"role", role_name(view.mine.resumes ? Role::kSecondary : view.role)},
      {"term", view.mine.term},
      {"resumes", view.mine.resumes},
      {"state", state_name(view.state)},
      {"data", data_state_name(view.data)},
      {"promotable", view.promotable},
      {"frozen", view.frozen},
      {"witness", render_witness(view.witness)},
      {"size_bytes", view.size_bytes},
      {"file_size_bytes", view.file_size_bytes},
      {"growing_to_bytes", view.growing_to_bytes},
      {"way_back", render_way_back(view.way_back)},
      {"status", words.status},
      {"action", words.action},
      {"peer", render_peer(view)},
      {"generation",
       {{"current", metadata::format_generation(view.mine.generations.current)},
        {"base", metadata::format_generation(view.mine.generations.base)}}},
      {"dirty_bytes", view.dirty_bytes},
      {"links", render_links(view)},
      {"encryption", {{"mode", facts.key.empty() ? "off" : "tls"}, {"key", facts.key}}},
      {"compression", render_compression(view)},
      {"cache", render_cache(view)},
      {"resync", render_resync(view)},
      {"last_resync", last_resync},
      {"verify", render_verify(view)},
      {"repair_cut_off", view.repair_cut_off},
      {"intents",
       {{"bytes", view.intent_bytes},
        {"commits", view.intent_commits},
        {"waits", view.intent_waits}}},
      {"disk",
       {{"engine", facts.disk_engine},
        {"io", facts.disk_io},
        {"error", view.disk_error},
        {"stalled_s", in_seconds(view.stalled_ns)},
        {"read_errors", view.read_errors}}},
      {"memory", render_memory(facts.memory)},
      {"clients", view.clients},
      {"counters", render_counters(view)},
      {"latency",
       {{"write_p50_us", microseconds(view.write_p50_ns)},
        {"write_p99_us", microseconds(view.write_p99_ns)},
        {"write_max_us", microseconds(view.write_max_ns)}}},
      {"nbd", facts.nbd_uri},
      {"control", facts.control_path},
      {"backing", facts.backing},
      {"metadata", facts.metadata},
      {"config", facts.config},
      {"pid", facts.pid},
      {"uptime_s", in_seconds(view.uptime_ns)},
  };
}

}  // namespace twinblock
