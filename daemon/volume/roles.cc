#include "volume/roles.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "volume/settled_role.h"
#include "words/backing_words.h"

namespace twinblock {
namespace {
constexpr const char* kGoesOn = "goes on as primary, as which its last process had ended";
}  // namespace

Roles::Roles(Core& core, const Replica& replica, AskedRecord& asked, Consent& consent,
             const Demotion::Parts& parts, RolesOwner& owner)
    : core_(core),
      replica_(replica),
      asked_(asked),
      consent_(consent),
      disks_(parts.disks),
      owner_(owner),
      demotion_(core, parts),
      loss_wait_(core, {[this] { return peer_is_primary_in_session() && !why_not_serve(); },
                        [this](Reply reply) { promote(promote_word_, std::move(reply)); }}),
      resumption_(core, consent, [this] { resume(); }),
      promote_timer_(core.clock.make_timer([this] { look_for_answer(); })) {}

// What is wrong with this node, whatever the peer does.
std::optional<Error> Roles::why_not_serve() const {
  const std::string& volume = core_.config.volume;
  if (core_.state().blank()) {
    const auto& peer = session().handshake().peer_facts();
    return Error{"this node is not initialised",
                 peer && !peer->blank
                     ? core_.peer + " is: this node joins it, by itself where its backing is empty, "
                                    "else after `twinblock init " +
                           volume + " --join`, which overwrites this node's data"
                     : "run `twinblock init " + volume + "` first",
                 0, Retry::kWhenMended};
  }
  if (role_ != Role::kSecondary)
    return Error{"this node is changing its role just now", "try again", EBUSY, Retry::kLater};
  if (stopping_) return Error{"this node is stopping", "", ESHUTDOWN, Retry::kLater};
  if (const char* what = core_.stance().changing())
    return Error{std::string("the volume is just ") + what,
                 "try again when that has ended: twinblock status " + volume, EBUSY, Retry::kLater};
  if (auto error = disk_failed()) return error;
  // It could not be put on record: refused before anything has changed.
  if (const int error = core_.state().store().error(); error != 0)
    return disks_.why_metadata_failed(error);
  if (session().up() && core_.phase().being_resynced())
    return Error{"this replica is being brought up to date by " + core_.peer,
                 "wait for it: twinblock wait " + volume + " --for promotable --progress", EBUSY,
                 Retry::kLater};
  // It may be that this replica is whole; until that is on record the peer is not noted as taken along.
  if (session().up() && asked_.under_way())
    return Error{"this node is just recording what " + core_.peer + " told it", "try again", EBUSY,
                 Retry::kLater};
  if (core_.record().flush_failed)
    return Error{"a flush failed here earlier: what this node reads may not be on its disk",
                 "start twinblockd on " + core_.peer +
                     ", which brings this node up to date; without it, restart this host, after "
                     "which the disk tells what it holds",
                 EIO, Retry::kWhenMended};
  if (core_.record().inconsistent)
    return Error{"this replica is half-copied: serving it would serve a mixture of old and new data",
                 "start twinblockd on " + core_.peer + ", which finishes the copy" +
                     (core_.record().way_back ? "; or go back to what was here before: twinblock rollback " + volume : ""),
                 0, Retry::kWhenMended};
  return std::nullopt;
}

std::optional<Error> Roles::disk_failed() const {
  if (disks_.local_ok()) return std::nullopt;
  return Error{system_error(disks_.data_error(), "this node's disk failed").what,
               "replace the disk, then restart twinblockd", disks_.data_error(), Retry::kWhenMended};
}

bool Roles::peer_is_primary_in_session() const {
  return session().up() && (peer_ == PeerRole::kPrimary || core_.record().peer_primary);
}

std::optional<Error> Roles::why_not_promote(bool peer_is_dead) const {
  if (auto error = why_not_serve()) return error;
  if (peer_is_primary_in_session())
    return Error{core_.peer + " is primary",
                 "run `twinblock demote " + core_.config.volume + "` there first", EBUSY, Retry::kNotNow};
  return session().up() || peer_is_dead ? std::nullopt : why_word_is_needed();
}

// Without a session, what only the operator can know. Where there is a witness, it knows whether the
// peer goes on.
std::optional<Error> Roles::why_word_is_needed() const {
  if (core_.state().backing_lost())
    return why_lost_is_not_promoted(core_.state().found(), core_.config.node(core_.node).backing, core_.peer);
  if (owner_.forgot_what_the_peer_may_hold())
    return Error{"this node's host was started anew since it was " +
                     std::string(core_.state().crashed() ? "primary" : "in duplex with " + core_.peer) +
                     ": what was acknowledged and not flushed may be at " + core_.peer + " only",
                 "start twinblockd on " + core_.peer +
                     " or mend the link; only where that replica is lost, use --peer-is-dead",
                 EBUSY, Retry::kLater};
  if (!consent_.asks() && (core_.record().peer_primary || refused_peer_is_primary()))
    return Error{core_.peer + " was primary when it was last heard, and may still be writing",
                 "make sure that it is powered off or cut off, then use --peer-is-dead", EBUSY,
                 Retry::kNotNow};
  return std::nullopt;
}

// A peer that was refused last has said so without a session.
bool Roles::refused_peer_is_primary() const {
  const Handshake& handshake = session().handshake();
  const auto verdict = handshake.last_verdict();
  const bool refused = (verdict && !is_usable(*verdict)) || handshake.peer_has_another_size();
  return refused && handshake.peer_facts() && handshake.peer_facts()->primary;
}

void Roles::session_up(const SyncFacts& mine, const SyncFacts& peer, bool behind) {
  ++session_number_;
  // Nothing of it is on record, nor was the peer told of it.
  if (std::exchange(waits_for_consent_, false)) {
    role_ = Role::kSecondary;
    if (const Reply reply = std::exchange(promote_reply_, nullptr))
      reply(Error{core_.peer + " is back", "try again: it is asked then", EBUSY, Retry::kLater});
  }
  demotion_.session_changed();
  if (resumption_.pending() && resumption_.confirmed_by(mine, peer)) {
    core_.state().role().resume_primary(false);
    settle_role(role_, Role::kPrimary, core_.record());
    core_.state().persist([this](int error) {
      if (error == 0) resumption_.recorded();
      phase_entered();
    });
  }
  peer_ = peer.primary ? PeerRole::kPrimary : PeerRole::kSecondary;
  // A node that joins has its first record with the first generation; a promotion of it is a later
  // one than the peer's.
  core_.state().role().hear_term(peer.term);
  if (core_.state().blank()) return;
  keeps_primary_ = behind && core_.record().peer_primary && !peer.primary;
  core_.state().role().set_peer_primary(peer.primary || keeps_primary_);
  if (before_promotion_) before_promotion_->peer_primary = false;
}

void Roles::caught_up() {
  if (std::exchange(keeps_primary_, false)) core_.state().role().set_peer_primary(false);
}

// It has the same, or what it has counts no more: what clients may read here stays.
void Roles::phase_entered() {
  if (role_ == Role::kPrimary && resumption_.may_serve()) now_primary(kGoesOn);
}

// Under the term of its promotion: as if its process had stood still.
void Roles::resume() {
  role_ = Role::kPromoting;
  remember_before_promotion();
  core_.state().role().resume_primary(!session().up());
  record_primary(kGoesOn, Resumption::kWentOn);
}

void Roles::session_lost() {
  if (resumption_.session_lost()) role_ = Role::kSecondary;
  ++session_number_;
  demotion_.session_changed();
  peer_ = PeerRole::kUnknown;
}

void Roles::promote(Word word, Reply reply) {
  core_.check_on_loop();
  if (serves()) {
    reply(std::string("this node is primary already"));
    return;
  }
  if (loss_wait_.waiting()) {
    reply(Error{"a promotion waits here already for the session with " + core_.peer + " to end",
                "wait for its answer", EBUSY, Retry::kLater});
    return;
  }
  if (waits_to_serve()) {
    resumption_.wait(std::move(reply));
    return;
  }
  if (word.without_witness && !consent_.configured()) {
    reply(Error{"there is no witness in " + core_.config.path, "leave --without-witness out", EINVAL});
    return;
  }
  if (word.peer_is_dead && peer_is_primary_in_session() && !why_not_serve()) {
    wait_for_loss(word, std::move(reply));
    return;
  }
  if (auto error = why_not_promote(word.peer_is_dead)) {
    reply(*std::move(error));
    return;
  }
  begin_promotion(word, std::move(reply));
}

void Roles::begin_promotion(Word word, Reply reply) {
  promote_word_ = word;
  promote_reply_ = std::move(reply);
  const bool asks_witness = consent_.asks() && !session().up();
  if (resumption_.pending() && !asks_witness) {
    resumption_.end();
    resume();
    return;
  }
  role_ = Role::kPromoting;
  if (session().up()) {
    session().send_ordered(wire::PromoteAskFrame{++promote_question_, core_.state().role().next_term()});
  } else if (!replica_.draining()) {
    go_ahead();
    return;
  }
  // Without a session, writes that the lost one had brought end first: they would land on top of
  // the new clients' (invariant 4). With the word that the peer is dead, the loss of the session may
  // come as late as its answer would.
  promote_asked_ns_ = core_.clock.now_ns();
  promote_wait_ns_ = core_.config.peer_timeout_ns * (word.peer_is_dead || consent_.asks() ? 2 : 1);
  promote_timer_->arm(promote_wait_ns_);
}

// Nothing of the lost session's lands any more. Where there is a witness, it has to consent (or the
// operator in its place) before anything is on record.
void Roles::go_ahead() {
  promote_timer_->disarm();
  if (!consent_.asks()) {
    become_primary();
    return;
  }
  waits_for_consent_ = true;
  consent_.forget_promotion();  // of a resumption, which this one takes the place of
  const auto then = [this](std::optional<Error> error) { consented(std::move(error)); };
  if (promote_word_.without_witness)
    consent_.take_word(then);
  else
    consent_.ask_for_promotion(then);
}

void Roles::consented(std::optional<Error> error) {
  if (!std::exchange(waits_for_consent_, false)) return;
  TB_CHECK(role_ == Role::kPromoting && !session().up(), "who waits for the witness is alone");
  if (error) {
    promotion_ended(*std::move(error));
  } else if (resumption_.pending()) {
    resumption_.end();
    resume();
  } else {
    become_primary();
  }
}

void Roles::wait_for_loss(Word word, Reply reply) {
  promote_word_ = word;
  if (role_ == Role::kPromoting) {  // it had asked the peer, which did not answer any more
    promote_timer_->disarm();
    take_promotion_back();
  }
  loss_wait_.begin(std::move(reply));
}

// Time in which this node stood still does not count, and the answer may lie in the socket.
void Roles::look_for_answer() {
  const uint64_t waited_ns = core_.lateness().passed_ns(promote_asked_ns_, core_.clock.now_ns());
  if (waited_ns < promote_wait_ns_) {
    promote_timer_->arm(promote_wait_ns_ - waited_ns);
    return;
  }
  promotion_ended(
      Error{replica_.draining()
                ? "the local disk has not finished what " + core_.peer + " had sent to it"
                : core_.peer + " did not answer the request to become primary",
            "try again", ETIMEDOUT, Retry::kLater});
}

void Roles::answer_is_lost(const std::string& reason) {
  const bool waits = promote_timer_->armed() && role_ == Role::kPromoting;
  if (waits && consent_.asks()) {  // who is asked instead
    promote_timer_->disarm();
    take_promotion_back();
    promote(promote_word_, std::exchange(promote_reply_, nullptr));
    return;
  }
  if (waits && promote_word_.peer_is_dead)
    wait_for_loss(promote_word_, std::exchange(promote_reply_, nullptr));
  if (promote_timer_->armed())
    promotion_ended(Error{"the session was lost: " + reason, "try again", 0, Retry::kLater});
}

void Roles::replica_drained() {
  if (role_ == Role::kPromoting && !waits_for_consent_) go_ahead();
}

// At most one node of a session becomes primary: the one that was asked has recorded the other's
// right before it says yes.
bool Roles::heard_question(const wire::PromoteAskFrame& ask) {
  const bool contested = role_ == Role::kPromoting && core_.node < core_.peer;
  const char* changing = core_.stance().changing();
  if (is_primary() || contested || core_.state().blank() || changing) {
    const std::string why = changing ? std::string("just ") + changing : "primary or about to become it";
    session().send_ordered(wire::PromoteAnswerFrame{ask.question, EBUSY}, wire::text_bytes(core_.node + " is " + why));
    return true;
  }
  if (role_ == Role::kPromoting)
    promotion_ended(Error{core_.peer + " is being promoted at the same time", "", EBUSY, Retry::kNotNow});
  if (asked_.under_way()) return false;
  asked_.begin();
  keeps_primary_ = false;
  core_.state().role().set_peer_primary(true);
  core_.state().role().hear_term(ask.term);
  core_.state().persist([this, number = session_number_, question = ask.question](int error) {
    if (number != session_number_ || !session().up()) return;
    session().send_ordered(
        wire::PromoteAnswerFrame{question, static_cast<uint32_t>(error)},
        wire::text_bytes(error == 0 ? "yes" : core_.node + "'s metadata failed"));
    asked_.end();
  });
  return true;
}

void Roles::heard_answer(const wire::PromoteAnswerFrame& answer, std::span<const std::byte> why) {
  // An answer to a question that is not waited for any more: the peer was told so (send_role()), and
  // has taken back what it recorded for it.
  if (!promote_timer_->armed() || answer.question != promote_question_) return;
  promote_timer_->disarm();
  if (answer.error == 0)
    become_primary();
  else
    promotion_ended(Error{core_.peer + " refuses: " + wire::printable(why), "",
                          static_cast<int>(answer.error), Retry::kLater});
}

void Roles::become_primary() {
  promote_timer_->disarm();
  // It may have failed at what a lost session had brought, or while the peer was asked.
  if (auto error = disk_failed()) {
    promotion_ended(*std::move(error));
    return;
  }
  remember_before_promotion();
  owner_.note_company();
  core_.state().role().become_primary(!session().up());
  record_primary("promoted to primary", "this node is primary");
}

void Roles::remember_before_promotion() {
  before_promotion_ = {core_.record().primary, core_.record().peer_primary, core_.record().promoted_boot};
  core_.stance().promotion_begins();
}

void Roles::record_primary(const char* how, const char* reply) {
  core_.state().persist([this, how, reply](int error) {
    if (role_ != Role::kPromoting) return;
    if (error != 0) {
      promotion_ended(disks_.why_metadata_failed(error));
      return;
    }
    settle_role(role_, Role::kPrimary, core_.record());
    if (session().up()) {
      send_role();
      owner_.became_primary();
    }
    now_primary(how);
    promotion_ended(std::string(reply));
  });
}

void Roles::now_primary(const char* how) {
  update_local_reads();
  core_.log.log(Severity::kInfo, how);
  core_.events().tell("role", {{"node", core_.node}, {"role", "primary"}});
  owner_.note_state();
}

void Roles::promotion_ended(Result<std::string> result) {
  promote_timer_->disarm();
  if (role_ == Role::kPromoting) take_promotion_back();
  before_promotion_.reset();
  if (!result.ok() && session().up()) send_role();  // the peer takes its yes back
  if (Reply reply = std::exchange(promote_reply_, nullptr)) reply(std::move(result));
}

// What become_primary() may have put on record already: a node that never served anybody may not be
// taken for a primary that crashed, nor forget that its peer was one.
void Roles::take_promotion_back() {
  role_ = Role::kSecondary;
  if (!before_promotion_) return;
  core_.state().role().set_primary(before_promotion_->primary);
  settle_role(role_, Role::kSecondary, core_.record(), before_promotion_->primary);
  core_.state().role().promoted_on(before_promotion_->promoted_boot);
  core_.state().role().set_peer_primary(core_.record().peer_primary || before_promotion_->peer_primary);
  core_.state().persist([](int) {});
}

// A promotion or demotion that is just being recorded stays on record; should the former be taken back, the
// crash does not come back with it.
void Roles::crash_is_made_good() {
  core_.state().role().set_primary((is_primary() && core_.record().primary) || before_promotion_);
  if (before_promotion_) before_promotion_->primary = false;
}

void Roles::send_role() {
  session().send_ordered(wire::RoleFrame{role_ != Role::kSecondary, core_.record().term});
}

bool Roles::heard_role(const wire::RoleFrame& told) {
  const bool primary = told.primary;
  if (primary && role_ != Role::kSecondary) return false;
  asked_.forget_promotion();
  peer_ = primary ? PeerRole::kPrimary : PeerRole::kSecondary;
  core_.log.log(Severity::kInfo, core_.peer + (primary ? " is primary now" : " is secondary now"));
  core_.events().tell("role", {{"node", core_.peer}, {"role", primary ? "primary" : "secondary"}});
  if (before_promotion_) before_promotion_->peer_primary = false;
  // Not marked as half-copied yet, it is what it was, and knows of no end of a primary before.
  const bool behind = core_.phase().being_resynced() && !core_.record().inconsistent;
  keeps_primary_ = !primary && behind && core_.record().peer_primary;
  const bool known = primary || keeps_primary_;
  if (!core_.state().blank() && core_.record().peer_primary != known) {
    core_.state().role().set_peer_primary(known);
    core_.state().role().hear_term(told.term);
    core_.state().persist([](int) {});
  }
  owner_.peer_became(peer_);
  return true;
}

void Roles::demote(bool for_good, Reply reply) {
  core_.check_on_loop();
  // It has served nobody: the next session knows it as what its last process left.
  if (waits_to_serve()) session().drop("this node is to be demoted, and had not gone on as primary yet", 0);
  const bool was_to_go_on = resumption_.pending();
  if (was_to_go_on) resumption_.give_up("it is to be demoted");
  if (role_ == Role::kSecondary) {
    const auto recorded = [this, reply = std::move(reply)](int error) {
      reply(error == 0 ? Result<std::string>("this node is secondary already") : disks_.why_metadata_failed(error));
    };
    // Before it is said: a later process would go on.
    if (was_to_go_on) core_.state().persist(recorded);
    else recorded(0);
    return;
  }
  if (was_to_go_on) core_.state().persist([](int) {});
  if (role_ != Role::kPrimary) {
    reply(Error{"this node is changing its role just now", "try again", EBUSY});
    return;
  }
  if (const uint64_t clients = owner_.clients_connected(); clients > 0) {
    reply(Error{"the export is in use by " + std::to_string(clients) +
                    (clients == 1 ? " client" : " clients"),
                (core_.stance().waits_for_witness()
                     ? "their writes wait for the witness' consent, or for " + core_.peer + "; then detach"
                 : core_.stance().frozen() ? "their writes wait for " + core_.peer +
                                        ": start twinblockd there, or run `twinblock continue " +
                                        core_.config.volume + "`; then detach"
                                  : "detach first") +
                    ": twinblock detach " + core_.config.volume,
                EBUSY});
    return;
  }
  TB_CHECK(!resumption_.under_way(), "who is demoted does not go on as primary by itself");
  role_ = Role::kDemoting;
  update_local_reads();
  demotion_.begin(for_good, [this, reply = std::move(reply)](Result<std::string> result) {
    demoted(std::move(result), reply);
  });
}

void Roles::yield() {
  TB_CHECK(role_ == Role::kPrimary && core_.stance().waits_for_witness(), "who is overtaken had stood still");
  core_.log.log(Severity::kWarning,
                core_.peer + " went on without this node, by the witness' consent: this node becomes "
                             "secondary, and its clients, whose data is old, are cut off");
  const Differences& differences = core_.differences();
  core_.state().role().become_secondary(!differences.none_known() || !differences.epochs().empty(), true);
  core_.state().persist([](int) {});
  demoted(std::string("this node is secondary"), [](const Result<std::string>&) {});
}

void Roles::demoted(Result<std::string> result, const Reply& reply) {
  core_.state().role().set_primary(!result.ok());
  settle_role(role_, result.ok() ? Role::kSecondary : Role::kPrimary, core_.record());
  update_local_reads();
  if (result.ok()) {
    core_.log.log(Severity::kInfo, "demoted to secondary");
    core_.events().tell("role", {{"node", core_.node}, {"role", "secondary"}});
    owner_.became_secondary();
    if (session().up()) send_role();
    session().poke();  // a peer that was refused may order by what this node holds from now on
  }
  owner_.note_state();
  reply(std::move(result));
}

void Roles::update_local_reads() {
  core_.worker_view().set_local_reads(role_ == Role::kPrimary && !resumption_.under_way() &&
                                      disks_.local_ok() && !core_.stance().waits_for_witness());
}

}  // namespace twinblock
