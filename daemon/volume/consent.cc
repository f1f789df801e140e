#include "volume/consent.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/checks.h"
#include "base/limits.h"
#include "mirror/witness_claim.h"
#include "words/witness_words.h"

namespace twinblock {
namespace {

// As DRBD's fence-peer handlers say it.
enum FenceStatus : int {
  kPeerInconsistent = 3,
  kPeerOutdated = 4,
  kPeerUnreachable = 5,
  kPeerRefused = 6,
  kPeerShot = 7,
};

bool consents(int status) {
  return status == kPeerInconsistent || status == kPeerOutdated || status == kPeerUnreachable ||
         status == kPeerShot;
}

// From the reading of an entry to its replacement.
constexpr uint64_t kConfirmedWithin_ns = 1 * kSecond_ns;
// A primary that lives asks first, as only the link may be cut: then the service stays where it is.
constexpr uint64_t kPrimaryFirst_ns = 500 * kMillisecond_ns;

std::string host_of(const std::string& address) {
  const size_t colon = address.rfind(':');
  std::string host = address.substr(0, colon);
  if (host.size() > 1 && host.front() == '[' && host.back() == ']')
    host = host.substr(1, host.size() - 2);
  return host;
}

std::string volume_uuid(const metadata::NodeRecord& record) { return metadata::format_uuid(record.volume_uuid); }

// What a node would go on with: its generation, where that is its own already.
uint64_t claim_of(const metadata::NodeRecord& record) {
  return record.shares_generation() ? record.claim : record.generations.current;
}

}  // namespace

Consent::Consent(Core& core, const Asked& asked, Owner& owner)
    : core_(core),
      asked_(asked),
      owner_(owner),
      timer_(core.clock.make_timer([this] { look(); })) {
  peer_reads_until_ns_ = core.clock.now_ns() + std::max(core.config.peer_timeout_ns, limits::kLeaseMax_ns);
  if (!configured()) return;
  view_.standing = WitnessStanding::kUnasked;
  view_.kind = core.config.witness.kind;
  if (asked_.witness != nullptr) {
    view_.name = asked_.witness->name();
  } else {
    TB_CHECK(asked_.fence != nullptr, "who is to be asked can be");
    view_.name = asked_.fence->name();
  }
  if (!asks()) stand_aside();
}

// A command would shoot the peer: one that is connected takes part soon, and is waited for. A register is
// asked beside it, too, which hurts nobody.
bool Consent::wants_right() const {
  if (asked_.witness == nullptr && core_.session.up()) return false;
  return promotion_ != nullptr || ((owner_.takes_in_another() || waits()) && !owner_.may_promise_nothing());
}

// Who waits for the peer (on_peer_loss = freeze) would keep the other one from going on, for nothing.
bool Consent::waits() const {
  return owner_.may_want_to_go_on() && core_.stance().waits_for_witness() && !core_.stance().waits_for_peer();
}

Consent::Task Consent::task() const {
  if (core_.state().blank()) return Task::kNone;
  if (wants_right()) {
    const uint64_t peer_reads_until_ns = std::max(
        peer_reads_until_ns_, core_.session.heartbeats().last_heard_ns() + core_.config.peer_timeout_ns);
    const bool too_soon = promotion_ != nullptr && asked_.witness != nullptr &&
        core_.clock.now_ns() < peer_reads_until_ns + (core_.record().peer_primary ? kPrimaryFirst_ns : 0);
    return too_soon ? Task::kNone : Task::kRight;
  }
  if (asked_.witness == nullptr) return Task::kNone;
  if (core_.phase().both_whole()) {
    const bool due = core_.clock.now_ns() - settled_at_ns_ >= limits::kWitnessLook_ns;
    return settled_ != core_.record().generations.current || core_.record().claim != 0 || due
               ? Task::kSettle
               : Task::kNone;
  }
  if (sole_copy_ != 0 && core_.phase().diskless()) return Task::kSoleCopy;
  return core_.stance().alone_right().word_is_to_be_told(core_.record()) ? Task::kForce : Task::kNone;
}

void Consent::look() {
  if (!asks()) {
    let_go();
    return;
  }
  set_lease();
  const bool now_waits = waits();
  if (std::exchange(view_.waits, now_waits) != now_waits) owner_.right_changed();
  if (view_.standing == WitnessStanding::kRefused && needs_no_answer()) set_standing(WitnessStanding::kUnasked, {});
  // Also those that came while it had run out between two looks.
  if (!core_.stance().reads_wait()) owner_.may_read();
  look_whether_overtaken();
  confirm();
  const uint64_t now = core_.clock.now_ns();
  const Task next = task();
  if (running_ == Task::kNone && next != Task::kNone && now >= pause_until_ns_) begin(next);
  // Looked at again for as long as there is something to do, or to be overtaken by.
  const bool leased = lease_until_ns() != WorkerView::kNoLease;
  const bool soon = view_.waits || leased || promotion_ != nullptr || owner_.takes_in_another() || to_confirm_ ||
                    next != Task::kNone;
  timer_->arm(soon ? limits::kWitnessTurn_ns : limits::kWitnessLook_ns);
}

// By the peer's word that it heard this node, as long as it takes part.
uint64_t Consent::lease_until_ns() const {
  if (asked_.witness == nullptr || !owner_.may_want_to_go_on() || !core_.phase().attached() ||
      core_.phase().diskless())
    return WorkerView::kNoLease;
  return core_.stance().peer_waits_until_ns();
}

void Consent::set_lease() {
  if (asks()) core_.worker_view().set_lease(lease_until_ns());
}

// It is not asked: nothing waits for it, nor for its lease, whatever did.
void Consent::let_go() {
  if (!configured()) return;
  if (std::exchange(view_.waits, false))
    owner_.right_changed();
  else if (!core_.stance().reads_wait())
    owner_.may_read();
}

// It is not asked, and what it would say counts for nothing.
void Consent::stand_aside() {
  core_.worker_view().set_lease(WorkerView::kNoLease);
  set_standing(WitnessStanding::kOff,
               Error{"the files of the two nodes did not have the same kind of witness when they met last: it "
                     "is not asked, and an operator decides who goes on",
                     "put the same [witness] into both hosts' files, and restart both nodes"});
}

void Consent::session_up(const SyncFacts& mine, const SyncFacts& peer) {
  peer_reads_until_ns_ = 0;  // by what this process tells, from now on
  const bool same = (mine.asks_register && peer.asks_register) || (mine.asks_command && peer.asks_command);
  core_.state().both_ask(same);
  if (configured()) {
    if (!same) stand_aside();
    else if (view_.standing == WitnessStanding::kOff || asked_.witness == nullptr)
      set_standing(WitnessStanding::kUnasked, {});  // what a fence command said was about the time before
  }
  // The peer is back, and may get the right as well the next time.
  core_.stance().alone_right().withdraw();
  // What was begun by a word the witness is told of still.
  if (core_.record().shares_generation()) core_.stance().alone_right().word_is_settled();
  forget_promotion();
  sole_copy_ = 0;
  sole_copy_then_ = nullptr;
  pause_until_ns_ = pause_ns_ = 0;
  settled_at_ns_ = 0;
  settled_ = 0;
}

// The peer went on alone: the handshake says so, without a session. This node has promised nothing since. Also one
// that has no replica to go on with itself: its clients would wait for ever.
void Consent::look_whether_overtaken() {
  if (!owner_.serves() || !core_.stance().waits_for_witness() || core_.session.up()) return;
  const auto verdict = core_.session.handshake().last_verdict();
  const auto& peer = core_.session.handshake().peer_facts();
  if (!verdict || !peer) return;
  const bool behind = *verdict == Verdict::kOutdated;
  // … where it is primary, but has written nothing yet.
  const bool beside = *verdict == Verdict::kBothPrimary && peer->consented;
  if (behind || beside) owner_.yield();
}

void Consent::ask_for_promotion(Then then) {
  TB_CHECK(promotion_ == nullptr, "one promotion at a time waits for the witness");
  promotion_ = std::move(then);
  pause_until_ns_ = pause_ns_ = 0;
  if (core_.stance().may_promise_alone()) return std::exchange(promotion_, nullptr)(std::nullopt);
  look();
}

void Consent::take_word(Then then) {
  const auto recorded = [this, then = std::move(then), given = core_.stance().alone_right().withdrawals(),
                         session = core_.phase().session()](int error) {
    word_is_recorded_ = false;
    if (error != 0) {
      Error failed = system_error(error, "the claim could not be recorded");
      failed.retry = Retry::kWhenMended;
      return then(std::move(failed));
    }
    // The word was about a peer that was away. But it may have been given twice, and the first one count already.
    if (core_.stance().alone_right().withdrawals() != given) {
      if (core_.stance().may_promise_alone() && core_.phase().session() == session) return then(std::nullopt);
      return then(Error{core_.peer + " is back meanwhile", "see twinblock status " + core_.config.volume, EBUSY});
    }
    core_.stance().alone_right().withdraw();  // what is under way is void
    core_.stance().alone_right().grant_by_word();
    core_.log.log(Severity::kWarning, "goes on alone by the operator's word, without the witness' consent");
    then(std::nullopt);
    owner_.right_changed();
    look();
  };
  if (asked_.witness == nullptr || !core_.record().shares_generation()) return recorded(0);
  core_.state().history().claim_generation();
  word_is_recorded_ = true;
  core_.state().persist(recorded);
}

void Consent::name_sole_copy(uint64_t generation, std::function<void()> then) {
  if (!asks() || asked_.witness == nullptr) {  // a command knows nodes, and no generations
    if (then) then();
    return;
  }
  sole_copy_ = generation;
  sole_copy_then_ = std::move(then);
  pause_until_ns_ = pause_ns_ = 0;
  look();
}

void Consent::begin(Task task) {
  running_ = task;
  asked_about_ = core_.stance().alone_right().withdrawals();
  races_ = 0;
  if (view_.standing == WitnessStanding::kUnasked) view_.standing = WitnessStanding::kAsking;
  // One that the disk did not take stays in memory, and is unknown to a later process.
  const bool claim_on_record = core_.record().claim != 0 && core_.record().claim == recorded_claim_;
  if (task == Task::kRight && asked_.witness == nullptr)
    fence();
  else if (task == Task::kRight && core_.record().shares_generation() && !claim_on_record)
    record_claim();
  else
    read();
}

// Before it is asked for: else a crash would leave an entry that nobody knows.
void Consent::record_claim() {
  core_.state().history().claim_generation();
  core_.state().persist([this, claim = core_.record().claim](int error) {
    if (error != 0) return failed(system_error(error, "the claim could not be recorded"));
    recorded_claim_ = claim;
    read();
  });
}

void Consent::read() {
  asked_.witness->read(core_.config.volume, volume_uuid(core_.record()), [this](Result<WitnessReading> said) {
    if (!said)
      failed(said.error());
    else
      judge(said.value());
  });
}

void Consent::judge(const WitnessReading& reading) {
  view_.holder = reading.entry ? reading.entry->holder : "";
  view_.generation = reading.entry ? reading.entry->generation : 0;
  if (running_ == Task::kSettle) {
    judge_settling(reading);
    return;
  }
  if (running_ == Task::kSoleCopy) {
    judge_sole_copy(reading);
    return;
  }
  const WitnessEntry entry{volume_uuid(core_.record()), claim_of(core_.record()), core_.node};
  if (!is_of_now() || entry.generation == 0) {
    end(0);
    return;
  }
  // Also where it names this claim already: what the peer may still have under way is of that revision.
  if (running_ == Task::kForce || judge_claim(reading, core_.record()) == ClaimVerdict::kReplace) {
    replace(reading.revision, entry);
    return;
  }
  if (needs_no_answer()) return end(0);
  const std::string advice = advise_on_replicas({reading.entry.has_value(), view_.holder}, core_.node, core_.peer,
                                                {core_.session.up(), owner_.takes_in_another(),
                                                 core_.session.links().peer_answers()});
  if (reading.entry)
    refused(WitnessStanding::kRefused,
            Error{overtaken_words(view_.holder, view_.generation, core_.node), advice, EBUSY, Retry::kNotNow});
  else
    refused(WitnessStanding::kLost,
            Error{"the witness knows nothing of this volume: it was not told yet, or has lost it", advice, EAGAIN,
                  Retry::kLater});
}

// Both are whole, as far as this node knows: the peer may have lost the session before it, and have gone on.
// If it answers what was sent after the entry was read, it had not, by then; and what it puts there later
// has another revision.
void Consent::judge_settling(const WitnessReading& reading) {
  if (!core_.phase().both_whole() || !is_of_now()) {
    end(0);
  } else if (reading.entry == WitnessEntry{volume_uuid(core_.record()), core_.record().generations.current, ""} &&
             core_.record().claim == 0 && !reading.unmarked) {
    replaced(*reading.entry);
  } else {
    to_confirm_ = {reading.revision, core_.clock.now_ns()};
  }
}

// Where nothing stands nobody gets consent, until both have met as equals.
void Consent::judge_sole_copy(const WitnessReading& reading) {
  const WitnessEntry entry{volume_uuid(core_.record()), sole_copy_, core_.peer};
  if (!core_.phase().diskless() || !is_of_now() || sole_copy_ == 0)
    end(0);
  else if (!reading.entry || *reading.entry == entry)
    sole_copy_named();
  else if (judge_claim(reading, core_.record()) == ClaimVerdict::kReplace)
    replace(reading.revision, entry);
  else
    failed(Error{"the witness names a generation that this node does not know, though it works on the peer's replica",
                 "see twinblock status " + core_.config.volume, EAGAIN});
}

void Consent::sole_copy_named() {
  sole_copy_ = 0;
  set_standing(WitnessStanding::kAgreed, {});
  answer(std::nullopt);
  end(0);
}

void Consent::confirm() {
  if (!to_confirm_) return;
  const bool void_by_now = !core_.phase().both_whole() || !is_of_now();
  // A node that stood still meanwhile has read what may be gone: a witness that lost everything begins to
  // count anew.
  if (core_.clock.now_ns() - to_confirm_->read_ns > kConfirmedWithin_ns && !void_by_now) {
    to_confirm_.reset();
    read();
    return;
  }
  if (!void_by_now && !core_.session.answered_since(to_confirm_->read_ns)) return;
  const Confirmation confirmed = *std::exchange(to_confirm_, std::nullopt);
  if (void_by_now)
    end(0);
  else
    replace(confirmed.revision, {volume_uuid(core_.record()), core_.record().generations.current, ""});
}

void Consent::replace(int64_t revision, const WitnessEntry& entry) {
  asked_.witness->replace(core_.config.volume, revision, entry, [this, entry](Result<bool> done) {
    if (!done) {
      failed(done.error());
    } else if (done.value()) {
      replaced(entry);
    } else if (++races_ < limits::kWitnessRacesMax) {
      read();
    } else {
      failed(Error{"the witness' entry is replaced by others all the time", "see who writes to it", EAGAIN});
    }
  });
}

// What stands there is this node's word.
void Consent::replaced(const WitnessEntry& entry) {
  view_.holder = entry.holder;
  view_.generation = entry.generation;
  const bool of_now = is_of_now();
  if (running_ == Task::kSettle) {
    if (!of_now) return end(0);  // it may have been replaced since: it is looked at again
    settled_ = entry.generation;
    settled_at_ns_ = core_.clock.now_ns();
    if (entry.generation == core_.record().generations.current) note(&ReplicaHistory::settled_at_witness);
    core_.stance().alone_right().word_is_settled();
    set_standing(WitnessStanding::kAgreed, {});
    end(0);
    return;
  }
  if (running_ == Task::kSoleCopy)
    return of_now && entry.generation == sole_copy_ ? sole_copy_named() : end(0);
  if (!of_now || entry.generation != claim_of(core_.record())) {
    end(0);
    return;
  }
  granted();
}

// Durable some time: until then a later process asks once more.
void Consent::note(void (ReplicaHistory::*what)()) {
  const metadata::NodeRecord before = core_.record();
  (core_.state().history().*what)();
  if (before != core_.record()) core_.state().persist([](int) {});
}

void Consent::granted() {
  core_.stance().alone_right().word_is_settled();
  if (core_.record().shares_generation() || asked_.witness == nullptr)
    core_.stance().alone_right().grant();
  else
    note(&ReplicaHistory::named_at_witness);
  set_standing(WitnessStanding::kAgreed, {});
  core_.log.log(Severity::kInfo, view_.name + " agrees that this node goes on without " + core_.peer);
  answer(std::nullopt);
  owner_.right_changed();
  end(0);
}

void Consent::fence() {
  const auto address = core_.config.links.front().address.find(core_.peer);
  asked_.fence->fence({core_.config.volume, core_.node, core_.peer,
                       address == core_.config.links.front().address.end() ? "" : host_of(address->second),
                       promotion_ != nullptr},
                      [this](const Result<int>& status) { fenced(status); });
}

void Consent::fenced(const Result<int>& status) {
  if (!is_of_now()) {
    end(0);
    return;
  }
  if (!status) {
    failed(status.error());
  } else if (consents(status.value())) {
    granted();
  } else if (status.value() == kPeerRefused) {
    refused(WitnessStanding::kRefused,
            Error{view_.name + " says (exit status 6) that " + core_.peer +
                      " refuses, as it is primary or can't be fenced",
                  "look at " + core_.peer + "; the command is run again", EAGAIN, Retry::kNotNow});
  } else {
    failed(Error{view_.name + " ended with exit status " + std::to_string(status.value()) +
                     ", which says nothing (3, 4, 5 and 7 do)",
                 "look at its output in the log; it is run again", EAGAIN});
  }
}

void Consent::refused(WitnessStanding standing, Error why) {
  set_standing(standing, why);
  pause_ns_ = limits::kWitnessRefusedPause_ns;
  answer(std::move(why));
  end(pause_ns_);
}

// That it could not be asked counts for who asked, and for nobody who asks by now. (It may be why the right is not wanted any
// more: a claim that the disk did not take.)
void Consent::failed(Error why) {
  if (asked_about_ != core_.stance().alone_right().withdrawals()) return end(0);
  why.retry = Retry::kLater;
  set_standing(WitnessStanding::kUnreachable, why);
  pause_ns_ = std::clamp(pause_ns_ * 2, limits::kWitnessPauseMin_ns, limits::kWitnessPauseMax_ns);
  answer(std::move(why));
  end(pause_ns_);
}

// A new question does not wait for what the last one came to.
void Consent::end(uint64_t pause_ns) {
  running_ = Task::kNone;
  if (pause_ns == 0) pause_ns_ = 0;
  pause_until_ns_ = is_of_now() ? core_.clock.now_ns() + pause_ns : 0;
  look();
}

// A promotion that was ordered while a request was under way for another reason gets that one's answer,
// but for one that is void.
void Consent::answer(std::optional<Error> error) {
  if (running_ == Task::kSettle || running_ == Task::kForce) return;
  if (running_ == Task::kSoleCopy) {
    if (const auto then = std::exchange(sole_copy_then_, nullptr)) then();
    return;
  }
  // What an operator may say in its stead.
  if (error)
    error->action += (error->action.empty() ? "only where " : "; only where ") +
                     (names_another(view_) ? only_where_words(view_.holder, core_.node, core_.peer)
                                           : core_.peer + " is dead for sure") +
                     ": twinblock promote " + core_.config.volume + " --peer-is-dead --without-witness";
  if (Then then = std::exchange(promotion_, nullptr)) then(std::move(error));
}

void Consent::set_standing(WitnessStanding standing, const Error& why) {
  const bool news = standing != WitnessStanding::kUnasked && (standing != view_.standing || why.what != view_.error);
  view_.standing = standing;
  view_.error = why.what;
  view_.action = why.action;
  if (asked_.witness != nullptr) owner_.witness_answered(asked_.witness->mark());
  if (!news) return;
  core_.events().tell("witness", {{"witness", view_.name},
                                  {"state", standing_name(standing)},
                                  {"holder", view_.holder},
                                  {"reason", why.what}});
  if (why.what.empty()) return;
  core_.log.log(Severity::kWarning, why.what + (why.action.empty() ? "" : "; to do: " + why.action));
}

}  // namespace twinblock
