// What `status` says: the state in one word, in a sentence, and what to do about it.
#include <cerrno>

#include "volume/engine.h"

namespace twinblock {

const char* state_name(VolumeState state) {
  switch (state) {
    case VolumeState::kBlank:
      return "blank";
    case VolumeState::kWaiting:
      return "waiting";
    case VolumeState::kConnecting:
      return "connecting";
    case VolumeState::kConnected:
      return "connected";
    case VolumeState::kDuplex:
      return "duplex";
    case VolumeState::kDegraded:
      return "degraded";
    case VolumeState::kDiskless:
      return "diskless";
    case VolumeState::kResync:
      return "resync";
    case VolumeState::kSimplex:
      return "simplex";
    case VolumeState::kFrozen:
      return "frozen";
    case VolumeState::kRefused:
      return "refused";
    case VolumeState::kFailed:
      return "failed";
  }
  return "unknown";
}

const char* data_state_name(DataState state) {
  switch (state) {
    case DataState::kBlank:
      return "blank";
    case DataState::kCurrent:
      return "current";
    case DataState::kInconsistent:
      return "inconsistent";
    case DataState::kFailed:
      return "failed";
  }
  return "unknown";
}

void explain_links(StatusView& view) {
  if (!view.peer.connected) return;
  std::string missing;
  for (const StatusView::Link& link : view.links) {
    if (link.state == "up" || link.state == "disabled") continue;
    if (link.state == "connecting" && link.last_error.empty()) continue;
    missing += (missing.empty() ? "" : "; ") + link.name +
               (link.last_error.empty() ? "" : " (" + link.last_error + ")");
  }
  if (missing.empty()) return;
  view.status += " It goes on without link " + missing + ".";
  if (view.action.empty()) view.action = "Mend the link; it is used again by itself.";
}

std::string bring_back(const std::string& peer, bool answers) {
  if (answers)
    return "The address of " + peer +
           " answers, but no session comes about: see `twinblock status` and the log of "
           "twinblockd there";
  return "Start twinblockd on " + peer + " or mend the link";
}

DataState Engine::data_state() const {
  if (core_.blank) return DataState::kBlank;
  if (!disks_.local_ok()) return DataState::kFailed;
  return core_.record.inconsistent ? DataState::kInconsistent : DataState::kCurrent;
}

VolumeState Engine::state_of_duplex() const {
  return disks_.read_errors().places() > 0 ? VolumeState::kDegraded : VolumeState::kDuplex;
}

VolumeState Engine::volume_state() const {
  if (session_.up()) {
    if (core_.phase.being_resynced() || (sync_.source().active() && sync_.source().progress().total_bytes() > 0))
      return VolumeState::kResync;
    if (core_.phase.holds_sole_copy() || core_.phase.diskless())
      return VolumeState::kDiskless;
    if (core_.phase.peer_whole()) return state_of_duplex();
    const bool secondary = roles_.role() == Role::kSecondary;
    if (secondary && roles_.peer() == PeerRole::kPrimary) return state_of_duplex();
    if (secondary && core_.phase.both_whole()) return VolumeState::kConnected;
    return core_.blank ? VolumeState::kBlank : VolumeState::kConnecting;
  }
  if (roles_.role() == Role::kPrimary) {
    if (!disks_.local_ok()) return VolumeState::kFailed;
    if (!session_.refusal().empty()) return VolumeState::kRefused;
    return core_.frozen() ? VolumeState::kFrozen : VolumeState::kSimplex;
  }
  // Two blank nodes do not refuse each other: they wait for `init`.
  const bool both_blank = session_.last_verdict() == Verdict::kWaitForInit;
  if (!session_.refusal().empty() && !both_blank) return VolumeState::kRefused;
  return core_.blank ? VolumeState::kBlank : VolumeState::kWaiting;
}

void Engine::explain_state(StatusView& view) const {
  const std::string& volume = core_.config.volume;
  const std::string& peer = core_.peer;
  const std::string bring = bring_back(peer, session_.peer_answers());
  switch (view.state) {
    case VolumeState::kBlank:
      view.status = "This node has not been initialised.";
      view.action = core_.joinable ? "It joins by itself when it reaches " + peer +
                                         ", if that is initialised; "
                                         "else run `twinblock init " +
                                         volume +
                                         "` on the node whose data is to be "
                                         "kept."
                                   : "Run `twinblock init " + volume +
                                         "` on the node whose data is to be kept.";
      break;
    case VolumeState::kWaiting:
      view.status = "Secondary, without a session with " + peer + ".";
      view.action = bring + "; it connects by itself.";
      break;
    case VolumeState::kConnecting:
      view.status = "The session with " + peer + " is being set up.";
      break;
    case VolumeState::kConnected:
      view.status = "Both replicas are the same; neither node is primary.";
      view.action =
          "Run `twinblock promote " + volume + "` on the node that is to serve the volume.";
      break;
    case VolumeState::kDuplex:
      view.status = "Both replicas are current; every write is on both before it is acknowledged.";
      break;
    case VolumeState::kDegraded:
      explain_degraded(view);
      break;
    case VolumeState::kDiskless:
      explain_diskless(view);
      break;
    case VolumeState::kResync:
      view.status = core_.phase.being_resynced() ? "This replica is being brought up to date by " + peer + "."
                                    : peer + " is being brought up to date.";
      view.action =
          sync_.source().active() && sync_.source().pacer().paused()
              ? "It was paused by an operator; run `twinblock resync " + volume + " resume`."
          : is_primary() || roles_.peer() == PeerRole::kPrimary
              ? "Nothing to do; watch it with `twinblock wait " + volume +
                    " --for duplex --progress`."
          : core_.phase.being_resynced()
              ? "Nothing to do; to promote this node afterwards, `twinblock wait " + volume +
                    " --for promotable --progress`."
              : "Nothing to do; this node may be promoted meanwhile.";
      break;
    case VolumeState::kSimplex:
      view.status = "This node goes on alone; what " + peer + " misses is recorded.";
      if (!loss_reason_.empty() && loss_reason_ != disks_.peer_error())
        view.status += " Last session: " + loss_reason_ + ".";
      view.action = bring + "; it is brought up to date by itself.";
      break;
    case VolumeState::kFrozen:
      view.status = "Writes wait for " + peer + " (on_peer_loss = \"freeze\").";
      view.action =
          bring + "; or let this node go on alone: `twinblock continue " + volume + "`.";
      break;
    case VolumeState::kRefused:
      view.status = session_.refusal() + ".";
      if (roles_.role() == Role::kPrimary && core_.frozen())
        view.status += " Writes wait (on_peer_loss = \"freeze\"); `twinblock continue " + volume +
                       "` lets this node go on alone.";
      if (session_.last_verdict() && !is_usable(*session_.last_verdict()))
        view.action = advise(*session_.last_verdict(), volume, peer) + ".";
      break;
    case VolumeState::kFailed:
      view.status = "This node's disk failed, and " + peer + " does not stand in.";
      view.action = bring + "; then demote this node. Keep its disk until " + peer +
                    " is promoted: it may hold what " + peer + " lacks.";
      break;
  }
  for (const std::string& line : orders_in_words()) view.status += " " + line;
  if (!disks_.peer_error().empty()) {
    view.status = disks_.peer_error() + ". " + view.status;
    view.action = "On " + peer + ", free space or replace the disk that holds " +
                  disks_.peer_error_file() +
                  "; if the disk was replaced, restart "
                  "twinblockd there. It is tried again every " +
                  format_duration(limits::kPeerDiskRetry_ns) + ".";
  }
  if (!view.disk_error.empty() && view.state == VolumeState::kSimplex) {
    view.status =
        view.disk_error + "; clients get errors, as no other replica stands in. " + view.status;
    view.action = "Bring " + peer +
                  " back, or free space. Keep this disk: it may hold what " + peer + " lacks.";
  }
  if (!view.disk_error.empty() && roles_.role() == Role::kSecondary) {
    view.status = view.disk_error + ". " + view.status;
    view.action = disks_.local_ok() && core_.record.flush_failed
                      ? "Start twinblockd on " + peer +
                            ", which copies anew what this disk may have lost; without it, restart "
                            "this host."
                  : disks_.local_ok()
                      ? "Free space for " + core_.config.node(core_.node).backing +
                            "; the copy is then resumed by itself."
                      : "Replace the disk that holds " + core_.config.node(core_.node).backing +
                            ", then restart twinblockd here.";
  }
}

void Engine::explain_degraded(StatusView& view) const {
  const size_t places = disks_.read_errors().places();
  view.status = "Every write is on both replicas, but this node's disk can't be read in " +
                std::to_string(places) + (places == 1 ? " place" : " places") + " (" +
                disks_.read_error() + "); " + core_.peer +
                "'s replica answers in its stead. After " +
                std::to_string(limits::kBadPlacesMax) + " places the disk counts as failed.";
  view.action = "Look at the disk that holds " + core_.config.node(core_.node).backing +
                " (dmesg, smartctl) and replace it" +
                (roles_.role() == Role::kPrimary
                     ? ", after `twinblock demote " + core_.config.volume +
                           "` here and `twinblock promote " + core_.config.volume + "` on " +
                           core_.peer
                     : "") +
                "; if it is well, restart twinblockd here.";
}

void Engine::explain_diskless(StatusView& view) const {
  const std::string& volume = core_.config.volume;
  const std::string& peer = core_.peer;
  if (core_.phase.holds_sole_copy()) {
    view.status = peer + "'s disk failed: " + peer +
                  " works on this node's replica, which is the only good copy.";
    view.action = "Keep this node up. On " + peer + " detach and run `twinblock demote " + volume +
                  "`, then `twinblock promote " + volume + "` here; then replace " + peer +
                  "'s disk.";
    return;
  }
  view.status = "This node's disk failed: reads and writes go to " + peer +
                "'s replica, which is the only good copy.";
  view.action = "Detach, run `twinblock demote " + volume + "` here and `twinblock promote " +
                volume + "` on " + peer +
                "; then free space or replace the disk (in this case move its metadata file "
                "away, too), and restart twinblockd here.";
}

void Engine::fill_peer(StatusView& view) const {
  view.peer.name = core_.peer;
  view.peer.connected = session_.up();
  view.peer.error = disks_.peer_error();
  if (session_.peer_facts())
    view.peer.heard_ns = core_.clock.now_ns() - session_.peer_facts_at_ns();
  switch (roles_.peer()) {
    case PeerRole::kUnknown:
      view.peer.role = "unknown";
      break;
    case PeerRole::kSecondary:
      view.peer.role = "secondary";
      break;
    case PeerRole::kPrimary:
      view.peer.role = "primary";
      break;
  }
  DataState data = DataState::kCurrent;
  const auto& facts = session_.peer_facts();
  if (!facts) {
    view.peer.data = "unknown";
  } else {
    if (core_.phase.holds_sole_copy())
      data = DataState::kFailed;
    else if (session_.up() && (core_.phase.both_whole() || core_.phase.peer_whole() || core_.phase.being_resynced()))
      data = DataState::kCurrent;
    else if (session_.up() && sync_.source().active())
      data = DataState::kInconsistent;
    else if (facts->disk_failed)
      data = DataState::kFailed;
    else if (facts->blank)
      data = DataState::kBlank;
    else if (facts->inconsistent)
      data = DataState::kInconsistent;
    view.peer.data = data_state_name(data);
    if (!session_.up()) view.peer.data += " when last heard";
  }
}

void Engine::fill_resync(StatusView& view) const {
  view.last_resync = sync_.log().last();
  const Progress& progress = sync_.source().active() ? sync_.source().progress() : sync_.target().progress();
  view.resync.active = view.state == VolumeState::kResync;
  if (!view.resync.active) return;
  view.resync.source = sync_.source().active();
  view.resync.done_bytes = progress.done_bytes();
  view.resync.total_bytes = progress.total_bytes();
  view.resync.percent = progress.percent();
  view.resync.rate_bytes_per_s = progress.rate_bytes_per_s();
  view.resync.average_bytes_per_s = progress.average_bytes_per_s(core_.clock.now_ns());
  view.resync.remaining_s = progress.remaining_s();
  view.resync.reason = sync_.log().reason();
  if (!sync_.source().active()) return;
  const Pacer& pacer = sync_.source().pacer();
  view.resync.sent = sync_.source().sent();
  view.resync.pace = pacer.paused()                  ? "paused"
                     : pacer.rate_bytes_per_s() == 0 ? "auto"
                                                     : format_size(pacer.rate_bytes_per_s()) + "/s";
}

void Engine::fill_verify(StatusView& view) const {
  view.verify.begun = verifier_.begun();
  if (!view.verify.begun) return;
  const Verifier::Report& report = verifier_.report();
  view.verify.active = verifier_.active();
  view.verify.repair = report.repair;
  view.verify.ended = report.ended;
  view.verify.compared_bytes = report.compared_bytes;
  view.verify.total_bytes = core_.config.size_bytes;
  view.verify.differing_bytes = report.differing_bytes;
  view.verify.repaired_bytes = report.repaired_bytes;
  view.verify.rate_bytes_per_s = verifier_.progress().rate_bytes_per_s();
  view.verify.remaining_s = verifier_.progress().remaining_s();
  for (const ByteRange& range : report.differences)
    view.verify.differences.emplace_back(range.begin_bytes, range.length());
}

LatencyView Engine::latency(Window window) const {
  return {window, session_.sample_every(), core_.latency.view(window, core_.clock.now_ns()),
          session_.link_latency(window)};
}

StatusView Engine::status() const {
  StatusView view;
  view.volume = core_.config.volume;
  view.node = core_.node;
  view.role = is_primary() ? "primary" : "secondary";
  view.state = volume_state();
  view.data = data_state();
  view.promotable = roles_.role() == Role::kSecondary && !roles_.why_not_promote(false);
  view.size_bytes = core_.config.size_bytes;
  view.dirty_bytes = core_.dirty.set_bytes();
  view.generation_current = metadata::format_generation(core_.record.generations.current);
  view.generation_base = metadata::format_generation(core_.record.generations.base);
  view.disk_error = disk_error();
  fill_peer(view);
  view.links = session_.links();
  fill_compression(view);
  fill_resync(view);
  fill_verify(view);
  view.intent_bytes = intents_.set_bytes();
  view.intent_commits = intents_.commits_total();
  view.intent_waits = intents_.waits_total();
  view.record_writes = store_.writes_total();
  view.simplex_now = simplex_since_ns_ != 0;
  view.simplex_ns = simplex_ns_ + (view.simplex_now ? core_.clock.now_ns() - simplex_since_ns_ : 0);
  view.simplex_times = simplex_times_;
  explain_state(view);
  explain_links(view);
  view.status += link_orders_.refused_in_words() + peer_settings_.difference_in_words();
  view.clients = clients_.count();
  const Counters& counters = core_.counters;
  view.writes = counters.writes;
  view.write_bytes = counters.write_bytes;
  view.read_errors = disks_.read_errors().total();
  view.reads = core_.worker_view.reads();
  view.read_bytes = core_.worker_view.read_bytes();
  view.zeroes = counters.zeroes;
  view.flushes = counters.flushes;
  view.resync_bytes = counters.resync_bytes;
  view.peer_losses = counters.peer_losses;
  const Histogram latency = core_.latency.total();
  view.write_p50_ns = latency.quantile_ns(0.5);
  view.write_p99_ns = latency.quantile_ns(0.99);
  view.write_max_ns = latency.max_ns();
  view.uptime_ns = core_.clock.now_ns() - started_ns_;
  return view;
}

}  // namespace twinblock
