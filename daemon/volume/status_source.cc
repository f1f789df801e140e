#include "volume/status_source.h"

#include <algorithm>

#include "words/witness_words.h"

namespace twinblock {
namespace {

constexpr size_t kUnreadableTold = 8;  // places

}  // namespace

StatusSource::StatusSource(const Parts& parts)
    : parts_(parts), started_ns_(parts.core.clock.now_ns()) {}

VolumeState StatusSource::state() const {
  const Core& core = parts_.core;
  const DiskHealth& disks = parts_.disks;
  const ResyncSource& source = parts_.sync.source();
  Standing node;
  node.role = parts_.roles.role();
  node.peer = parts_.roles.peer();
  node.blank = core.state().blank();
  node.disk_ok = disks.local_ok();
  node.unreadable = disks.read_errors().places() > 0;
  node.frozen = core.stance().frozen();
  node.connected = session().up();
  node.resyncing =
      core.phase().being_resynced() || (source.active() && source.progress().total_bytes() > 0);
  node.sole_copy = core.phase().holds_sole_copy() || core.phase().diskless();
  node.peer_whole = core.phase().peer_whole();
  node.in_sync = core.phase().both_whole();
  node.refused = !session().handshake().refusal().empty();
  node.both_blank = session().handshake().last_verdict() == Verdict::kWaitForInit;
  return state_of(node);
}

bool StatusSource::copying() const {
  return parts_.core.phase().being_resynced() || parts_.sync.source().active() ||
         parts_.verifier.active();
}

DataState StatusSource::data_state() const {
  if (parts_.core.state().blank()) return DataState::kBlank;
  if (!parts_.disks.local_ok()) return DataState::kFailed;
  return parts_.core.record().inconsistent ? DataState::kInconsistent : DataState::kCurrent;
}

std::optional<DataState> StatusSource::peer_data() const {
  const auto& facts = session().handshake().peer_facts();
  if (!facts) return std::nullopt;
  const bool up = session().up();
  const PeerPhase& phase = parts_.core.phase();
  if (phase.holds_sole_copy()) return DataState::kFailed;
  if (up && (phase.both_whole() || phase.peer_whole() || phase.being_resynced()))
    return DataState::kCurrent;
  if (up && parts_.sync.source().active()) return DataState::kInconsistent;
  if (facts->disk_failed) return DataState::kFailed;
  if (facts->blank) return DataState::kBlank;
  return facts->inconsistent ? DataState::kInconsistent : DataState::kCurrent;
}

void StatusSource::fill_replica(StatusView& view) const {
  const Core& core = parts_.core;
  view.data = data_state();
  view.size_bytes = core.worker_view().volume_bytes();  // as clients are told
  view.file_size_bytes = core.config.size_bytes;
  view.growing_to_bytes = parts_.growth.under_way_bytes();
  const metadata::WayBack& kept = core.record().way_back;
  view.way_back = {kept.taken_s, kept.to_get_bytes, kept.rolled_back_to_s(), static_cast<bool>(kept),
                   parts_.way_back.taking(), parts_.way_back.rolling_back(), parts_.way_back.failure()};
  view.dirty_bytes = core.differences().dirty().set_bytes();
  view.coarse_bytes = core.differences().coarse().set_bytes();
  view.given_up = core.record().given_up;
  view.joinable = core.join_order().stands();
  view.found = core.state().backing().found();
  view.unvouched = core.state().backing().unvouched();
  view.intent_bytes = core.intents().set_bytes();
  view.all_dirty = core.record().all_dirty;
  view.intent_commits = core.intents().commits_total();
  view.intent_waits = core.intents().waits_total();
  view.record_writes = core.state().store().writes_total();
  const DiskHealth& disks = parts_.disks;
  view.disk_error = disks.in_words();
  view.disk_lacks_room = disks.lacks_room();
  view.disk_ok = disks.local_ok();
  view.stalled_ns = disks.stalls().stalled_ns();
  if (view.stalled_ns > 0) view.stalled_file = disks.stalls().file();
  view.metadata_failed = disks.metadata_error() != 0;
  view.unreadable_places = disks.read_errors().places();
  view.peer_reads_fail = disks.peer().has_bad_places();
  view.read_error = disks.read_error();
  view.read_errors = disks.read_errors().total();
}

void StatusSource::fill_peer(StatusView& view) const {
  view.peer.name = parts_.core.peer;
  view.peer.role = parts_.roles.peer();
  view.peer.data = peer_data();
  view.peer.error = parts_.disks.peer().error();
  view.peer.error_file = parts_.disks.peer().error_file();
  view.peer.lacks_room = parts_.disks.peer().is_full();
  view.peer.connected = session().up();
  view.peer.answers = session().links().peer_answers();
  view.peer.whole_on_this_node = parts_.core.phase().holds_sole_copy();
  view.peer.stalled_ns = session().heartbeats().peer_stalled_ns();
  view.peer.term = parts_.core.record().heard_term;
  if (const uint64_t heard_ns = session().heartbeats().last_heard_ns(); heard_ns != 0)
    view.peer.silent_ns = parts_.core.lateness().passed_ns(heard_ns, parts_.core.clock.now_ns());
  view.peer.facts = session().handshake().peer_facts();
  if (view.peer.facts)
    view.peer.heard_ns = parts_.core.clock.now_ns() - session().handshake().peer_facts_at_ns();
}

void StatusSource::fill_session(StatusView& view) const {
  view.links = session().links().views(!session().up() && !session().handshake().refusal().empty());
  view.verdict = session().handshake().last_verdict();
  view.refusal = session().handshake().refusal();
  view.session_error = session().last_error();
  view.resumes_with_peer = parts_.roles.resumption().waits_for_peer();
  view.frozen = parts_.roles.role() == Role::kPrimary && parts_.core.stance().frozen();
  view.reads_wait = view.frozen && parts_.core.stance().reads_wait();
  view.witness = parts_.consent.view();
  view.witness.copy_waits = parts_.sync.waits_for_witness();
  if (is_about_replicas(view.witness))
    view.witness.action =
        advise_on_replicas({names_another(view.witness), view.witness.holder}, parts_.core.node, parts_.core.peer,
                           {session().up(), view.witness.copy_waits, session().links().peer_answers()});
  view.refused_link_orders = parts_.link_orders.refused();
  view.settings_differ = parts_.settings.difference();
}

void StatusSource::fill_compression(StatusView::Compression& view) const {
  const CompressionPolicy& policy = parts_.core.compression();
  const CompressionPolicy::Setting setting = policy.setting();
  const CompressionPolicy::Figures figures = policy.figures();
  view.mode = setting.mode;
  view.level = setting.level;
  view.writes_compressed = figures.writes_compressed;
  view.writes_raw = figures.writes_raw;
  view.raw_bytes = figures.raw_bytes;
  view.sent_bytes = figures.sent_bytes;
  view.incompressible_bytes = figures.incompressible_bytes;
  view.compress_ns = figures.compress_cpu_ns;
  view.decompress_ns = figures.decompress_cpu_ns;
  view.decision = policy.decision();
}

void StatusSource::fill_resync(StatusView& view) const {
  const ResyncSource& source = parts_.sync.source();
  StatusView::Resync& resync = view.resync;
  resync.active = view.state == VolumeState::kResync;
  resync.source = source.active();
  resync.target = parts_.core.phase().being_resynced();
  resync.cause = parts_.sync.log().cause();
  view.last_resync = parts_.sync.log().last();
  resync.paused = source.active() && source.pacer().paused();
  resync.pace_bytes_per_s = source.pacer().rate_bytes_per_s();
  if (!resync.active) return;
  const Progress& progress = source.active() ? source.progress() : parts_.sync.target().progress();
  resync.done_bytes = progress.done_bytes();
  resync.total_bytes = progress.total_bytes();
  resync.percent = progress.percent();
  resync.rate_bytes_per_s = progress.rate_bytes_per_s();
  resync.average_bytes_per_s = progress.average_bytes_per_s(parts_.core.clock.now_ns());
  resync.remaining_s = progress.remaining_s();
  if (!source.active()) return;
  resync.sent = source.sent();
  resync.waits_for_disk = source.waits_for_disk();
  const BlockMap& unreadable = parts_.core.differences().unreadable();
  resync.unreadable_bytes = unreadable.set_bytes();
  resync.target_may_have_unreadable = parts_.core.differences().peer_may_have_unreadable();
  uint64_t from = 0;
  while (resync.unreadable.size() < kUnreadableTold) {
    const auto run = unreadable.next_run(from, BlockMap::kChunkBytes);
    if (!run) break;
    resync.unreadable.emplace_back(run->begin_bytes, run->length());
    from = run->end_bytes;
  }
}

void StatusSource::fill_verify(StatusView::Verify& view) const {
  const Verifier& verifier = parts_.verifier;
  view.begun = verifier.begun();
  if (!view.begun) return;
  const Verifier::Report& report = verifier.report();
  view.active = verifier.active();
  view.repair = report.repair;
  view.ended = report.ended;
  view.compared_bytes = report.compared_bytes;
  view.total_bytes = parts_.core.volume_bytes();
  view.differing_bytes = report.differing_bytes;
  view.repaired_bytes = report.repaired_bytes;
  view.rate_bytes_per_s = verifier.progress().rate_bytes_per_s();
  view.remaining_s = verifier.progress().remaining_s();
  for (const ByteRange& range : report.differences)
    view.differences.emplace_back(range.begin_bytes, range.length());
}

void StatusSource::fill_counters(StatusView& view) const {
  const Core& core = parts_.core;
  view.writes = core.counters().now().writes;
  view.write_bytes = core.counters().now().write_bytes;
  view.reads = core.worker_view().reads();
  view.read_bytes = core.worker_view().read_bytes();
  if (const ContentCache* cache = core.worker_view().cache()) view.cache = cache->figures();
  view.zeroes = core.counters().now().zeroes;
  view.flushes = core.counters().now().flushes;
  view.resync_bytes = core.counters().now().resync_bytes;
  view.peer_losses = core.counters().now().peer_losses;
  const Histogram latency = core.latency().total();
  view.write_p50_ns = latency.quantile_ns(0.5);
  view.write_p99_ns = latency.quantile_ns(0.99);
  view.write_max_ns = latency.max_ns();
  view.uptime_ns = core.clock.now_ns() - started_ns_;
}

StatusView StatusSource::view() const {
  const Core& core = parts_.core;
  const Roles& roles = parts_.roles;
  StatusView view;
  view.volume = core.config.volume;
  view.node = core.node;
  view.backing = core.config.node(core.node).backing;
  view.role = roles.role();
  view.state = state();
  view.promotable = roles.role() == Role::kSecondary && !roles.candidacy().why_not(false);
  view.mine = parts_.facts.now();
  view.clients = parts_.clients.count();
  if (const auto refusal = roles.candidacy().why_not(true)) view.promotion.refusal = refusal->what;
  view.promotion.peer_is_primary = core.record().peer_primary || roles.candidacy().refused_peer_is_primary();
  view.promotion.forgot = parts_.facts.peer_may_hold_more();
  fill_replica(view);
  fill_peer(view);
  fill_session(view);
  fill_compression(view.compression);
  parts_.states.fill(view);
  fill_resync(view);
  fill_verify(view.verify);
  view.repair_cut_off = core.record().repairing && !view.verify.active;
  fill_counters(view);
  return view;
}

LatencyView StatusSource::latency(Window window) const {
  const Core& core = parts_.core;
  return {window, session().sampler().every(), core.latency().view(window, core.clock.now_ns()),
          session().links().latency(window)};
}

WriteLoad StatusSource::write_load(Window window) const {
  return parts_.core.latency().load(window, parts_.core.clock.now_ns());
}

}  // namespace twinblock
