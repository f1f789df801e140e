// The operator of the simulated pair.
#include "control/status_words.h"
#include "report.h"
#include "world.h"

namespace twinblock::sim {

// What the primary's status tells, looked at before each fault and at each step of the operator's.
void World::look() {
  check_primaries();
  if (primary_ < 0 || !node(primary_).running()) return;
  const auto self = static_cast<size_t>(primary_);
  const size_t peer = 1 - self;
  const VolumeState state = node(primary_).engine().volume_state();
  if (state == VolumeState::kDiskless) {
    current_[self] = false;
    current_[peer] = true;
    return;
  }
  if (state != VolumeState::kDuplex && state != VolumeState::kDegraded) {
    current_[self] = true;
    current_[peer] = false;
    left_behind_[peer] = left_behind_[peer] || knows_primary_[peer];
    return;
  }
  const StatusView view = node(primary_).engine().status();
  if (view.verify.differing_bytes > 0 && !corrupted_ && !verify_may_find_)
    Report::violation("a verification found differences, but nothing went wrong" + describe());
  current_[self] = view.disk_error.empty();
  // A primary may not have noticed yet that its peer is gone, and whoever comes with other disks.
  current_[peer] = !swapped_[peer] || both_duplex();
  if (!current_[self] || !both_duplex()) return;
  intact_ = {true, true};
  swapped_ = {};
  left_behind_ = {};
  // A peer that is just recording that it is whole may end before it knows anything of this primary.
  if (node(primary_).engine().inside().phase() == Phase::kDuplex) knows_primary_[peer] = true;
}

void World::operator_turn() {
  scheduler_.after(random_.between(20, 300) * kMillisecond_ns, nullptr,
                   [this] { operator_turn(); });
  if (split_host_ >= 0 || operator_rests_) return;
  let_join();
  join_too_old();
  if (procedure_ != Procedure::kNone) {
    procedure_turn();
    return;
  }
  see_resumed();
  if (primary_ >= 0 || promoting_) return;
  const int first = static_cast<int>(random_.below(2));
  for (const int host : {first, 1 - first}) {
    if (!current_[static_cast<size_t>(host)] || !node(host).running() || node(host).paused() ||
        (bad_disk(host) && !no_room_))
      continue;
    // Someone who is in no hurry gives the other node the time to come back.
    if (!node(1 - host).running() && random_.chance(0.8)) continue;
    promote(host);
    return;
  }
}

// What lies on the data disk of a node with a new metadata disk may be overwritten.
void World::let_join() {
  for (const auto& each : nodes_) {
    if (joins_[static_cast<size_t>(each->host())] && each->running() && !each->paused() &&
        each->engine().status().data == DataState::kBlank)
      each->engine().orders().init(false, true, [](const Result<std::string>&) {});
  }
}

// Disks that were away for so long that their history is forgotten are refused. They join anew.
void World::join_too_old() {
  for (const int host : {0, 1}) {
    SimNode& each = node(host);
    if (!swapped_[static_cast<size_t>(host)] || !each.running() || each.paused() ||
        host == primary_ ||
        status_words(each.engine().status()).status.find("nothing in common") == std::string::npos)
      continue;
    if (Report::verbose()) Report::trace("operator", each.name() + " is to join anew");
    each.kill();
    process_gone(host);
    each.replace_metadata();
    left_behind_[static_cast<size_t>(host)] = false;
    joins_[static_cast<size_t>(host)] = true;
    restart_later(host, kSecond_ns);
  }
}

void World::promote(int host) {
  promoting_ = true;
  busy_host_ = host;
  may_resume_[static_cast<size_t>(host)] = true;
  left_behind_[static_cast<size_t>(host)] = false;
  const bool peer_is_dead = !node(1 - host).running();
  if (Report::verbose())
    Report::trace("operator",
                  "promote " + node(host).name() + (peer_is_dead ? " --peer-is-dead" : ""));
  node(host).engine().orders().promote(
      peer_is_dead,
      [this, host, peer_is_dead, attempt = ++attempt_](const Result<std::string>& result) {
        if (attempt != attempt_) return;
        promoting_ = false;
        busy_host_ = -1;
        if (result) {
          if (!peer_is_dead) check_promoted_without_word(host);
          promoted(host);
        } else if (Report::verbose()) {
          Report::trace("operator", "refused: " + result.error().what);
        }
      });
}

// Who was primary when its process ended goes on by itself, and nobody else does.
void World::see_resumed() {
  for (const auto& each : nodes_) {
    if (primary_ >= 0 || promoting_ || !each->running() || each->paused() ||
        !each->engine().is_primary() || each->engine().status().mine.resumes)
      continue;
    if (!options_.resume || !may_resume_[static_cast<size_t>(each->host())])
      Report::violation(each->name() + " became primary by itself" + describe());
    if (Report::verbose()) Report::trace("operator", each->name() + " has gone on as primary");
    // A process's end takes nothing from its host's memory.
    if (each->host() == last_primary_) survivor_ = last_primary_;
    promoted(each->host());
  }
}

void World::promoted(int host) {
  const uint64_t now = scheduler_.now_ns();
  // The survivor of a crash counts, also when the other one returns before the promotion.
  const bool lossless =
      (intact_[0] && intact_[1]) || (host == survivor_ && intact_[static_cast<size_t>(host)]);
  survivor_ = -1;
  last_primary_ = host;
  // A word takes a node on under the term of its own promotion, and the other one's may have been later: that one goes on if
  // nothing was acknowledged here since.
  const int other = 1 - host;
  const bool was_later = may_resume_[static_cast<size_t>(other)] && record_of(other).term > record_of(host).term;
  may_resume_ = {host == 0 || was_later, host == 1 || was_later};
  if (Report::verbose())
    Report::trace("operator", node(host).name() + " is primary; what was not flushed " +
                                  (lossless ? "is there" : "may be lost"));
  if (lossless)
    history().failed_over(now);
  else
    history().unflushed_lost(now);
  primary_ = host;
  current_ = {host == 0, host == 1};
  intact_[static_cast<size_t>(host)] = true;
  knows_primary_ = {};
  // It may have been brought up to date meanwhile, by a secondary; who is primary now it need not know.
  if (record_of(0).generations.current == record_of(1).generations.current) left_behind_ = {};
  workload().open(node(host));
  if (clients_rest_) workload().stop();
  look();
}

void World::begin_procedure(Procedure procedure) {
  if (primary_ < 0 || procedure_ != Procedure::kNone || node(primary_).paused()) return;
  procedure_ = procedure;
  workload().stop();
}

void World::procedure_turn() {
  if (primary_ < 0 || !workload().idle() || !workload().is_open()) return;
  const int host = primary_;
  look();
  workload().close();
  const uint64_t attempt = ++attempt_;
  if (procedure_ == Procedure::kDemote) {
    const uint64_t began_ns = scheduler_.now_ns();
    OperatorOrders& orders = node(host).engine().orders();
    orders.demote([this, host, attempt, began_ns](const Result<std::string>& result) {
      if (attempt != attempt_) return;
      // The flush may have begun while no other replica stood in: it is tried again.
      if (!result && dead_disk_host_ == host && !dead_is_metadata_) {
        procedure_ = Procedure::kNone;
        workload().open(node(host));
        return;
      }
      if (!result) Report::violation("demotion fails: " + result.error().what + describe());
      // An orderly end promises what a flush does. (It may have flushed here before the disk died.)
      if (!answers_alone_with_a_dead_disk(host)) history().flush_acknowledged(began_ns);
      demoted(host);
    });
    return;
  }
  // Clients that are cut off wait for the next process; else the stop is for good.
  const bool cut_off = options_.resume && random_.chance(0.5);
  node(host).engine().shut_down(cut_off, [this, host, attempt, cut_off] {
    if (attempt != attempt_) return;
    demoted(host);
    may_resume_[static_cast<size_t>(host)] = cut_off;
    scheduler_.after(kMillisecond_ns, node(host).process(), [this, host] {
      // Outside of the engine's own call; the goodbye has left.
      scheduler_.after(0, nullptr, [this, host] {
        if (node(host).running()) kill(host);
      });
    });
  });
}

void World::demoted(int host) {
  procedure_ = Procedure::kNone;
  may_resume_ = {};
  primary_ = busy_host_ = -1;
  const StatusView view = node(host).engine().status();
  const bool peer_stood_in = current_[static_cast<size_t>(1 - host)];
  current_ = {host == 0, host == 1};
  // As in look(): it may not have noticed yet that its peer is gone.
  if (view.state == VolumeState::kConnected && !swapped_[static_cast<size_t>(1 - host)])
    current_ = {true, true};
  // (What fails when the demotion had flushed covers nothing: one that was behind is so still.)
  if (!view.disk_error.empty() && peer_stood_in) current_ = {host == 1, host == 0};
  if (Report::verbose())
    Report::trace("operator", node(host).name() + " is demoted, " + state_name(view.state));
}

// Orders beside roles. None may do harm at any time.
void World::give_order() {
  const int host =
      primary_ >= 0 && random_.chance(0.8) ? primary_ : static_cast<int>(random_.below(2));
  if (!node(host).running() || node(host).paused()) return;
  Engine& engine = node(host).engine();
  const auto ignore = [](const Result<std::string>&) {};
  if (options_.compressed_share > 0 && random_.chance(0.3)) {
    engine.orders().set_compression(static_cast<Compression>(random_.below(3)),
                           static_cast<int>(random_.between(1, 3)), ignore);
    return;
  }
  switch (random_.below(6)) {
    case 0:
      engine.orders().set_resync_pace(ResyncPace::kPause, 0, ignore);
      break;
    case 1:
      engine.orders().set_resync_pace(ResyncPace::kResume, 0, ignore);
      break;
    case 2:
      engine.orders().set_resync_pace(ResyncPace::kRate, random_.spread(16 * kKiB, 64 * kMiB),
                                      ignore);
      break;
    case 3:
      engine.orders().go_on_alone(false, ignore);
      break;
    default:
      engine.orders().verify(random_.chance(0.2)   ? VerifyOrder::kStop
                             : random_.chance(0.2) ? VerifyOrder::kRepair
                                                   : VerifyOrder::kCompare,
                             ignore);
      break;
  }
}

// A resync that was paused, or is slow by order, goes on.
void World::end_orders() {
  const auto ignore = [](const Result<std::string>&) {};
  for (const auto& each : nodes_) {
    if (!each->running()) continue;
    each->engine().orders().set_resync_pace(ResyncPace::kAuto, 0, ignore);
    each->engine().orders().set_resync_pace(ResyncPace::kResume, 0, ignore);
  }
}

}  // namespace twinblock::sim
