#include "control/metrics.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "base/limits.h"
#include "base/units.h"
#include "telemetry/metrics_text.h"
#include "control/status_words.h"

namespace twinblock {
namespace {

// One sample of each value that there is: 1 for the one that holds, 0 for the others.
template <typename Values>
void choice(MetricsText& text, const char* label, const Values& values, const std::string& now) {
  for (const auto& value : values) text.sample(uint64_t{value == now ? 1u : 0u}, {{label, value}});
}

std::vector<std::string> state_names() {
  std::vector<std::string> names;
  for (int i = 0; i <= static_cast<int>(VolumeState::kFailed); ++i)
    names.emplace_back(state_name(static_cast<VolumeState>(i)));
  return names;
}

std::vector<std::string> data_names() {
  std::vector<std::string> names;
  for (int i = 0; i <= static_cast<int>(DataState::kFailed); ++i)
    names.emplace_back(data_state_name(static_cast<DataState>(i)));
  return names;
}

uint64_t one_if(bool condition) { return condition ? 1 : 0; }

void add_state(MetricsText& text, const StatusView& view) {
  text.family("twinblock_role", "gauge", "1 for the role that this node has.");
  choice(text, "role", std::array<std::string, 2>{"primary", "secondary"}, role_name(view.role));
  text.family("twinblock_state", "gauge", "1 for the state that the volume is in.");
  choice(text, "state", state_names(), state_name(view.state));
  text.family("twinblock_data", "gauge", "1 for what this node's replica is.");
  choice(text, "data", data_names(), data_state_name(view.data));
  text.gauge("twinblock_peer_connected", "Whether the session with the peer is up.",
             one_if(view.peer.connected), {{"peer", view.peer.name}});
  text.gauge("twinblock_disk_failed", "Whether a disk of this node has failed.",
             one_if(!view.disk_error.empty()));
  text.gauge("twinblock_disk_stalled_seconds",
             "For how long a disk of this node has not answered a request, where it stands still; else 0.",
             in_seconds(view.stalled_ns));
  text.counter("twinblock_disk_read_errors_total", "Reads that this node's disk failed.",
               view.read_errors);
  text.gauge("twinblock_size_bytes", "Size of the volume.", view.size_bytes);
  text.gauge("twinblock_dirty_bytes", "What the peer may miss.", view.dirty_bytes);
  text.gauge("twinblock_intent_bytes",
             "Regions written lately, which a crash of this node would have compared.",
             view.intent_bytes);
  text.gauge("twinblock_clients", "Clients that have the export open.", view.clients);
  text.gauge("twinblock_uptime_seconds", "Since this node's process began.",
             in_seconds(view.uptime_ns));
}

void add_requests(MetricsText& text, const StatusView& view) {
  text.counter("twinblock_writes_total", "Writes of clients.", view.writes);
  text.counter("twinblock_write_bytes_total", "Bytes that clients wrote.", view.write_bytes);
  text.counter("twinblock_reads_total", "Reads of clients.", view.reads);
  text.counter("twinblock_read_bytes_total", "Bytes that clients read.", view.read_bytes);
  text.counter("twinblock_flushes_total", "Flushes of clients.", view.flushes);
  text.counter("twinblock_zeroes_total", "Zero and trim requests of clients.", view.zeroes);
  if (!view.cache) return;
  const ContentCache::Figures& cache = *view.cache;
  text.counter("twinblock_cache_hits_total", "Blocks that the cache of reads had.", cache.hits);
  text.counter("twinblock_cache_misses_total", "Blocks that it had not.", cache.misses);
  text.counter("twinblock_cache_equal_hits_total",
               "Of the hits, those that only an equal block has made one.", cache.equal_hits);
  text.counter("twinblock_cache_shared_bytes_total", "Bytes that were read, and kept already.",
               cache.shared_blocks * limits::kBlockBytes);
  text.gauge("twinblock_cache_memory_bytes", "Memory that it has taken, with its index.",
             cache.memory_bytes);
  text.gauge("twinblock_cache_size_bytes", "Memory that it may take.", cache.size_bytes);
  text.gauge("twinblock_cache_places", "Blocks of the volume whose content is known.", cache.places);
}

void add_mirror(MetricsText& text, const StatusView& view, uint64_t events_total) {
  text.counter("twinblock_simplex_seconds_total",
               "Time as a primary without a peer that receives what is written.",
               in_seconds(view.simplex_ns));
  text.counter("twinblock_simplex_periods_total", "How often that began.", view.simplex_times);
  text.counter("twinblock_peer_losses_total", "How often a primary lost its peer.",
               view.peer_losses);
  text.gauge("twinblock_resync_active", "Whether a resync is under way.",
             one_if(view.resync.active));
  text.gauge("twinblock_resync_remaining_bytes", "What it has left to bring up to date.",
             view.resync.active ? view.resync.total_bytes -
                                      std::min(view.resync.total_bytes, view.resync.done_bytes)
                                : uint64_t{0});
  text.gauge("twinblock_resync_unreadable_bytes",
             "What it has left for later, as this node's disk can't be read there.", view.resync.unreadable_bytes);
  text.counter("twinblock_resync_bytes_total", "What resyncs have sent to the peer.",
               view.resync_bytes);
  text.counter("twinblock_metadata_intent_commits_total",
               "Flushes of the metadata disk for intents.", view.intent_commits);
  text.counter("twinblock_metadata_intent_waits_total", "Writes that waited for such a flush.",
               view.intent_waits);
  text.counter("twinblock_metadata_record_writes_total",
               "Writes of the node's record to the metadata disk.", view.record_writes);
  text.counter("twinblock_events_total", "Events that `twinblock events` has told.", events_total);
}

void add_compression(MetricsText& text, const StatusView& view) {
  const StatusView::Compression& compression = view.compression;
  text.family("twinblock_compression_mode", "gauge", "1 for the mode that is set.");
  choice(text, "mode", std::array<std::string, 3>{"off", "on", "auto"},
         compression_name(compression.mode));
  text.family("twinblock_compression_writes_total", "counter",
              "Pieces of writes that were sent, compressed or as they were.");
  text.sample(compression.writes_compressed, {{"sent", "compressed"}});
  text.sample(compression.writes_raw, {{"sent", "raw"}});
  text.counter("twinblock_compression_in_bytes_total", "What was compressed, before that.",
               compression.raw_bytes);
  text.counter("twinblock_compression_out_bytes_total", "What was compressed, after that.",
               compression.sent_bytes);
  text.counter("twinblock_compression_incompressible_bytes_total",
               "What was looked at and sent as it was.", compression.incompressible_bytes);
  text.counter("twinblock_compress_cpu_seconds_total", "CPU time of compressing.",
               in_seconds(compression.compress_ns));
  text.counter("twinblock_decompress_cpu_seconds_total", "CPU time of decompressing.",
               in_seconds(compression.decompress_ns));
}

void add_links(MetricsText& text, const StatusView& view) {
  const auto each = [&](const char* name, const char* type, const char* help, auto value) {
    text.family(name, type, help);
    for (const StatusView::Link& link : view.links)
      text.sample(value(link), {{"peer", view.peer.name}, {"link", link.name}});
  };
  using Link = StatusView::Link;
  each("twinblock_link_up", "gauge", "Whether the link carries the session.",
       [](const Link& link) { return one_if(link.state == LinkState::kUp); });
  each("twinblock_link_sent_bytes_total", "counter", "Bytes sent over the link.",
       [](const Link& link) { return link.out_bytes; });
  each("twinblock_link_received_bytes_total", "counter", "Bytes received over the link.",
       [](const Link& link) { return link.in_bytes; });
  each("twinblock_link_cipher_seconds_total", "counter", "Time that this node spent on encryption.",
       [](const Link& link) { return in_seconds(link.cipher_ns); });
  each("twinblock_link_in_flight_bytes", "gauge", "Sent and not answered yet.",
       [](const Link& link) { return link.in_flight_bytes; });
  each("twinblock_link_failovers_total", "counter", "How often the link was lost.",
       [](const Link& link) { return link.failovers; });
  each("twinblock_link_round_trip_seconds", "gauge", "Round trip of the last heartbeat.",
       [](const Link& link) { return in_seconds(link.round_trip_ns.value_or(0)); });
  each("twinblock_link_nominal_bytes_per_second", "gauge", "Its configured rate; 0: not given.",
       [](const Link& link) { return link.nominal_bits_per_s / 8; });
}

void add_latency(MetricsText& text, const StatusView& view, const LatencyView& latency) {
  text.family("twinblock_write_duration_seconds", "histogram",
              "How long clients' writes took, by their size.");
  for (const LatencyView::Class& each : latency.classes)
    text.histogram(each.total, {{"size", size_class_name(each.size_class)}});
  text.family("twinblock_write_stage_duration_seconds", "histogram",
              "How long each stage of clients' writes took; the stages add up to the write.");
  for (const LatencyView::Class& each : latency.classes)
    for (size_t i = 0; i < kStages; ++i)
      text.histogram(each.stages[i], {{"stage", stage_name(static_cast<Stage>(i))},
                                      {"size", size_class_name(each.size_class)}});
  text.family("twinblock_link_trip_part_seconds", "histogram",
              "Parts of sampled round trips, by the kernels' timestamps.");
  for (const LatencyView::Link& link : latency.links)
    for (size_t i = 0; i < kTripParts; ++i)
      text.histogram(link.parts[i], {{"peer", view.peer.name},
                                     {"link", link.name},
                                     {"part", trip_part_name(static_cast<TripPart>(i))}});
}

}  // namespace

std::string render_metrics(const StatusView& view, const LatencyView& latency,
                           uint64_t events_total) {
  MetricsText text(MetricsText::Labels{{"volume", view.volume}, {"node", view.node}});
  add_state(text, view);
  add_requests(text, view);
  add_mirror(text, view, events_total);
  add_compression(text, view);
  add_links(text, view);
  add_latency(text, view, latency);
  return text.take();
}

std::string render_metrics(const Engine& engine) {
  return render_metrics(engine.status(), engine.figures().latency(Window::kStart),
                        engine.events().log().last());
}

}  // namespace twinblock
