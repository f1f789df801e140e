#include "volume/engine.h"

#include <algorithm>
#include <utility>

#include "base/checks.h"
#include "base/limits.h"
#include "session/hello.h"
#include "words/backing_words.h"

namespace twinblock {

Engine::Engine(Parts parts)
    : core_({parts.config, parts.node, parts.clock, parts.log, parts.data, parts.metadata,
             parts.workers, session_, parts.random, {parts.zero_piece_bytes, parts.zero_bytes_in_flight_max},
             parts.loaded, parts.found, parts.numbers,
             [this](int error) { disks_.record_failed(error); }}),
      instance_(metadata::format_uuid(parts.instance)),
      peer_({core_, gate_, writes_, flushes_, reads_, replica_, verifier_, consent_, roles_, disks_, facts_, growth_,
             way_back_, snapshots_, sync_, split_brain_, states_, [this] { note_state(); }}),
      session_({parts.config, parts.node, parts.instance, parts.clock, core_.lateness(),
                parts.network, parts.log, core_.events(), [this] { return core_.random(); }},
               peer_),
      disks_(core_, *this, parts.metadata),
      gate_(core_),
      writes_(core_, gate_, disks_),
      flushes_(core_, gate_, disks_),
      reads_(core_, disks_),
      replica_(core_, disks_, parts.receive_bytes_max,
               [this] {
                 roles_.replica_drained();
                 session_.poke();
               }),
      verifier_(core_, flushes_, writes_, disks_),
      consent_(core_, parts.asked, *this),
      roles_(core_, replica_, peer_.asked(), consent_,
             {writes_, reads_, flushes_, verifier_, parts.metadata, disks_},
             *this),
      facts_(core_, disks_, roles_, instance_number(parts.instance), parts.boot),
      first_record_(core_, disks_, gate_, roles_, *this),
      growth_(core_, parts.metadata, disks_, roles_, [this] { grown(); }),
      way_back_(core_, {parts.copies, disks_, replica_, roles_, [this] { note_state(); }}),
      snapshots_(core_, writes_, verifier_, disks_, roles_, parts.copies),
      sync_(core_,
            {gate_, writes_, flushes_, disks_, verifier_, replica_, peer_.asked(), consent_, roles_, first_record_,
             facts_, way_back_, parts.words, parts.own_set_bytes_max},
            *this),
      clients_(core_, roles_, writes_, reads_, flushes_, std::move(parts.cut_off_clients)),
      upkeep_(core_, {writes_, flushes_, replica_, disks_, roles_}, [this] { note_state(); }),
      split_brain_(core_, gate_, disks_, [this] { return facts_.now(); }),
      orders_({core_, first_record_, growth_, way_back_, snapshots_, roles_, consent_, split_brain_, peer_.link_orders(),
               peer_.compression(), writes_, flushes_, sync_.source(), verifier_, *this, sync_, disks_}),
      states_(core_, parts.words),
      status_({core_, roles_, consent_, growth_, way_back_, disks_, sync_, verifier_, peer_.link_orders(),
               peer_.peer_settings(), states_, facts_, clients_}) {
  if (!core_.state().blank()) {
    // By a process before, which may have ended before it flushed them: whoever flushes now promises them.
    if (core_.state().backing().found() == DataFound::kSome) core_.written().wrote();
    core_.intents().load(parts.loaded.intent_words,
                         metadata::intent_tag(core_.record().volume_uuid),
                         parts.loaded.intent_sequence);
    facts_.loaded(parts.cache_is_gone);
    if (core_.record().flush_failed && parts.cache_is_gone) {
      core_.state().company().forget_boot();
      // With the flag goes what tells the processes after this one that their host's memory holds less than its boot says.
      core_.state().company().note_boot(0);
      // Nor does any of them go on as primary: not all that clients know of is here.
      core_.state().role().promoted_on(0);
    }
    const bool other_backing = core_.state().backing().other();
    core_.differences().load(parts.loaded, core_.intents(), !core_.state().backing().lost() && !other_backing);
    if (other_backing) core_.differences().all_may_differ();
    disks_.load(parts.cache_is_gone);
  }
}

Status Engine::start() {
  if (!core_.state().blank()) {
    const metadata::NodeRecord& record = core_.record();
    const std::string path = core_.config.node(core_.node).metadata;
    // What a file says may be anything.
    const auto shown = [](const std::string& name) {
      return wire::printable(wire::text_bytes(name));
    };
    if (record.volume != core_.config.volume || record.node != core_.node)
      return Error{path + " belongs to node '" + shown(record.node) + "' of volume '" +
                       shown(record.volume) + "', not to node '" + core_.node + "' of '" +
                       core_.config.volume + "'",
                   "correct `metadata = ` in " + core_.config.path, 0};
  }
  core_.log.log(Severity::kInfo,
                "started: " + std::string(core_.state().blank() ? "not initialised yet"
                                          : core_.record().primary
                                              ? "was primary when it stopped without demotion"
                                              : "secondary"));
  core_.events().tell("started", {{"node", core_.node},
                                {"initialised", core_.state().blank() ? "no" : "yes"},
                                {"crashed", core_.state().crashed() ? "yes" : "no"}});
  const std::string& backing = core_.config.node(core_.node).backing;
  if (core_.state().backing().lost())
    core_.log.log(Severity::kWarning, lost_words(core_.state().backing().found(), backing) + "; it is copied anew from " +
                                          core_.peer + " if that is current. Is the right disk attached?");
  if (core_.state().backing().other()) {
    const std::string what = other_words(backing) + ", so that all of it is compared with " + core_.peer + "'s, and nothing is " +
                             "copied from it, nor is it promoted, without a word. Is it the right one, or a copy that holds all that " +
                             "was written last? If not, stop this node and attach that";
    core_.log.log(Severity::kWarning, what);
    core_.events().tell("other-backing", {{"node", core_.node}, {"reason", what}});
  }
  if (core_.state().blank() && core_.state().backing().found() == DataFound::kUnknown)
    core_.log.log(Severity::kWarning, unseen_words(backing) + ": this node does not join by itself; to do: " +
                                          "`twinblock init " + core_.config.volume +
                                          " --join` here, to let it be overwritten");
  const Differences& differences = core_.differences();
  if (!differences.none_known())
    core_.log.log(Severity::kInfo,
                  core_.peer + " may miss " + format_size(differences.dirty().set_bytes()) +
                      (differences.coarse().empty()
                           ? ""
                           : "; they are compared before anything is copied"));
  upkeep_.start();
  roles_.start(facts_.promoted_on_this_boot(), [this] { return facts_.now(); });
  return session_.start();
}

void Engine::peer_became(PeerRole role) {
  // A peer without a disk has nothing to do here but to be primary.
  if (core_.phase().holds_sole_copy() && role != PeerRole::kPrimary)
    session_.drop(core_.peer + " is no longer primary, and its disk failed",
                  limits::kPeerDiskRetry_ns);
}

void Engine::note_state() {
  phase_entered();
  states_.note(status_.state(), session_.up(), [this] { return status_.view(); });
  consent_.look();
}

void Engine::peer_stands_in() {
  sync_.peer_stands_in();
  growth_.disk_left();
  snapshots_.disk_left();
}

// Nothing that waits for this disk is answered, however long. Where a witness says who goes on, the peer need not wait as well:
// if it holds all that was acknowledged it can be promoted when it has lost this node, which promises nothing until the two
// have met again or the witness consents, and does not ask that before its disk gets on.
void Engine::disk_stalls() {
  if (!peer_.stands_aside()) return;
  session_.drop("this node's disk stands still, and " + core_.peer + " may go on with the witness' consent", 0);
  core_.stance().stand_aside();
}

void Engine::disk_gets_on() {
  core_.stance().ready_again();
  session_.poke();
  note_state();
}

bool Engine::may_want_to_go_on() const {
  return (serves() || roles_.resumption().wants_alone()) && disks_.local_ok() && !core_.record().inconsistent &&
         !core_.state().role().may_pass_for_secondary();
}

void Engine::right_changed() {
  roles_.update_local_reads();
  writes_.release_held();
  flushes_.release_held();
  reads_.release_held();
  sync_.right_changed();
  orders_.right_changed();
  note_state();
}

// What is under way on the disk ends first: the peer is to write there next. Looked at again until then.
void Engine::yield() {
  if (roles_.role() != Role::kPrimary || !clients_.all_held()) return;
  clients_.cut_off();
  roles_.yield();
  while (clients_.any_held()) clients_.let_go();
}

void Engine::grown() {
  core_.worker_view().set_volume_bytes(core_.volume_bytes());
  note_state();
}

void Engine::phase_entered() {
  consent_.set_lease();
  roles_.phase_entered();
  reads_.release_held();
  states_.note_alone(roles_.is_primary() && !core_.phase().attached());
}

void Engine::shut_down(bool clients_cut_off, std::function<void()> done) {
  core_.check_on_loop();
  roles_.stop();
  core_.events().hold();
  core_.events().tell("stopping", {{"node", core_.node}});
  // What an operator has ordered already ends as it was ordered: the next process must not go on as primary against that.
  roles_.when_demoted([this, clients_cut_off, done = std::move(done)]() mutable {
    give_role_up(clients_cut_off, std::move(done));
  });
}

void Engine::give_role_up(bool clients_cut_off, std::function<void()> done) {
  auto say_goodbye = [this, done = std::move(done)](const Result<std::string>& demoted) {
    if (!demoted.ok()) core_.log.log(Severity::kWarning, demoted.error().what);
    // Who waits for this node's disk need not wait any longer; this process does.
    session_.stop("twinblockd on " + core_.node + " stops");
    disks_.flush_record().end([this, done] {
      core_.events().tell("stopped", {{"node", core_.node}});
      core_.events().release();
      done();
    });
  };
  // Who was just to go on as primary has served nobody: the next process is to go on. So it is where clients are still
  // to come back, the last process' or some that were hung up on: an attached device waits for its node.
  if (roles_.role() == Role::kPrimary && !roles_.resumption().under_way())
    roles_.demote(!clients_cut_off && !clients_.any_awaited(), std::move(say_goodbye));
  else
    say_goodbye(std::string{});
}

}  // namespace twinblock
