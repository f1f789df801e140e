#include "volume/roles.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/checks.h"
#include "volume/settled_role.h"
#include "words/peer_words.h"

namespace twinblock {
namespace {

constexpr const char* kGoesOn = "goes on as primary, as which its last process had ended";

std::string how_to_end_clients(const Core& core) {
  const std::string& volume = core.config.volume;
  const std::string detach = "detach: twinblock detach " + volume;
  const auto verdict = core.session.handshake().last_verdict();
  if (core.stance().waits_for_witness())
    return "their requests wait for the witness' consent, or for " + core.peer + "; then " + detach;
  if (!core.stance().frozen()) return "detach first: twinblock detach " + volume;
  if (verdict == Verdict::kOutdated) return vain_words(volume);
  if (verdict == Verdict::kBothPrimary) return "their requests wait until " + core.peer + " is demoted; then " + detach;
  return "their requests wait for " + core.peer + ": start twinblockd there, or run `twinblock continue " + volume +
         "`; then " + detach;
}

}  // namespace

Roles::Roles(Core& core, const Replica& replica, AskedRecord& asked, Consent& consent,
             const Demotion::Parts& parts, RolesOwner& owner)
    : core_(core),
      asked_(asked),
      consent_(consent),
      disks_(parts.disks),
      owner_(owner),
      demotion_(core, parts),
      candidacy_(core, *this, {asked, consent, parts.disks, owner}),
      promotion_(core, replica, consent,
                 {[this] { promotion_may_go(); }, [this](Error why) { promotion_ended(std::move(why)); }}),
      loss_wait_(core, {[this] { return candidacy_.only_beside_a_primary(); },
                        [this](Reply reply) { promote(promotion_.word(), std::move(reply)); }}),
      resumption_(core, consent,
                  {[this] { resume(); }, [this] { go_on_beside_newcomer(); }, [this] { phase_entered(); }}) {}

void Roles::session_up(const SyncFacts& mine, const SyncFacts& peer, bool behind) {
  // Nothing of it is on record, nor was the peer told of it.
  if (promotion_.forget_consent()) {
    take_promotion_back();
    if (const Reply reply = promotion_.end())
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
  // A primary counts as the later one, also where this node was promoted beside it, and wrote nothing.
  if (peer.primary && mine.term >= peer.term && relation_of(mine, peer) == Relation::kSame)
    core_.state().role().give_up_term();
  if (core_.state().blank()) return;
  keeps_primary_ = behind && core_.record().peer_primary && !peer.primary;
  if (core_.record().peer_primary && peer.blank)
    core_.log.log(Severity::kWarning, core_.peer + " was primary when it was last heard, and begins with an empty replica now: "
                                      "what it acknowledged alone before, if anything, is in neither replica");
  core_.state().role().set_peer_primary(peer.primary || keeps_primary_);
  promotion_.forget_primary_peer();
}

void Roles::caught_up() {
  if (std::exchange(keeps_primary_, false)) core_.state().role().set_peer_primary(false);
}

// Without the peer it may be that nothing may be read here. With it, where it has the same, or what it has counts no more,
// what clients may read stays.
void Roles::phase_entered() {
  update_local_reads();
  if (role_ != Role::kPrimary || !resumption_.may_serve()) return;
  went_on_ = true;
  now_primary(kGoesOn);
}

void Roles::session_lost() {
  if (resumption_.session_lost()) {
    // Not settled: what it waits for is to be again what its record says of it.
    TB_CHECK(core_.record().primary, "who waits to go on as primary again is that on record");
    role_ = Role::kSecondary;
  }
  demotion_.session_changed();
  peer_ = PeerRole::kUnknown;
}

void Roles::promote(Word word, Reply reply) {
  if (serves()) {
    reply(std::string("this node is primary already"));
    return;
  }
  if (loss_wait_.waiting()) {
    reply(Error{"a promotion waits here already for the session with " + core_.peer + " to end",
                "wait for its answer", EBUSY, Retry::kLater});
    return;
  }
  if (resumption_.confirmed()) {
    resumption_.wait(std::move(reply));
    return;
  }
  if (word.without_witness && !consent_.configured()) {
    reply(Error{"there is no witness in " + core_.config.path, "leave --without-witness out", EINVAL});
    return;
  }
  if (word.peer_is_dead && candidacy_.only_beside_a_primary()) {
    wait_for_loss(word, std::move(reply));
    return;
  }
  // Whoever does without the witness waits for nobody who asks it.
  if (word.without_witness && role_ == Role::kPromoting && !promotion_.word().without_witness &&
      promotion_.forget_consent()) {
    consent_.forget_promotion();
    promotion_ended(Error{"an order that does without the witness took its place", "", EBUSY, Retry::kLater});
  }
  if (auto error = candidacy_.why_not(word.peer_is_dead)) {
    reply(*std::move(error));
    return;
  }
  promotion_.order(word, std::move(reply));
  role_ = Role::kPromoting;
  if (resumption_.pending() && !core_.session.up() && !consent_.asks())
    resume();
  else
    promotion_.ask();
}

void Roles::wait_for_loss(Word word, Reply reply) {
  promotion_.order(word, nullptr);
  if (role_ == Role::kPromoting) {  // it had asked the peer, which did not answer any more
    promotion_.wait_no_longer();
    take_promotion_back();
  }
  loss_wait_.begin(std::move(reply), std::move(word.gone));
}

void Roles::answer_is_lost(const std::string& reason) {
  const bool waits = promotion_.waits() && role_ == Role::kPromoting;
  if (waits && consent_.asks()) {  // who is asked instead
    promotion_.wait_no_longer();
    take_promotion_back();
    promote(promotion_.word(), promotion_.take_reply());
    return;
  }
  if (waits && promotion_.word().peer_is_dead) wait_for_loss(promotion_.word(), promotion_.take_reply());
  if (promotion_.waits())
    promotion_ended(Error{"the session was lost: " + reason, "try again", 0, Retry::kLater});
}

void Roles::replica_drained() {
  // One that waits for something else does not go on by that.
  if (role_ == Role::kPromoting && promotion_.waits()) promotion_.replica_drained();
}

// At most one node of a session becomes primary: the one that was asked has recorded the other's
// right before it says yes.
bool Roles::heard_question(const wire::PromoteAskFrame& ask) {
  const bool contested = role_ == Role::kPromoting && core_.node < core_.peer;
  const char* changing = core_.stance().changing();
  if (is_primary() || contested || core_.state().blank() || changing) {
    const std::string why = changing ? std::string("just ") + changing : "primary or about to become it";
    core_.session.send_ordered(wire::PromoteAnswerFrame{ask.question, EBUSY}, wire::text_bytes(core_.node + " is " + why));
    return true;
  }
  if (role_ == Role::kPromoting)
    promotion_ended(Error{core_.peer + " is being promoted at the same time", "", EBUSY, Retry::kNotNow});
  if (asked_.under_way()) return false;
  asked_.begin();
  if (resumption_.pending()) resumption_.give_up(core_.peer + " is being promoted");
  keeps_primary_ = false;
  core_.state().role().set_peer_primary(true);
  core_.state().role().hear_term(ask.term);
  core_.state().persist([this, told_in = core_.phase().session(), question = ask.question](int error) {
    if (!core_.phase().still(told_in)) return;
    core_.session.send_ordered(
        wire::PromoteAnswerFrame{question, static_cast<uint32_t>(error)},
        wire::text_bytes(error == 0 ? "yes" : core_.node + "'s metadata failed"));
    asked_.end();
  });
  return true;
}

void Roles::promotion_may_go() {
  TB_CHECK(role_ == Role::kPromoting, "who has waited to be primary is being promoted");
  // It may have failed at what a lost session had brought, or while the peer was asked.
  if (auto error = candidacy_.disk_failed()) {
    promotion_ended(*std::move(error));
    return;
  }
  if (resumption_.pending())
    resume();
  else
    become_primary();
}

// Under the term of its promotion: as if its process had stood still.
void Roles::resume() {
  resumption_.end();
  went_on_ = true;
  role_ = Role::kPromoting;
  promotion_.remember_record();
  core_.state().role().resume_primary(!core_.session.up());
  record_primary(kGoesOn, Resumption::kWentOn);
}

void Roles::go_on_beside_newcomer() {
  promote({}, [this](const Result<std::string>& said) {
    if (!said.ok()) core_.log.log(Severity::kInfo, "does not go on as primary yet: " + said.error().what);
  });
}

void Roles::become_primary() {
  promotion_.remember_record();
  went_on_ = false;
  owner_.note_company();
  core_.session.promoted();
  core_.state().role().become_primary(!core_.session.up());
  core_.state().backing().vouch(core_.phase().both_whole());
  record_primary("promoted to primary", "this node is primary");
}

void Roles::record_primary(const char* how, const char* reply) {
  core_.state().persist([this, how, reply, number = promotion_.number()](int error) {
    // It was given up meanwhile; the next one may be under way.
    if (role_ != Role::kPromoting || number != promotion_.number()) return;
    if (error != 0) {
      promotion_ended(disks_.why_metadata_failed(error));
      return;
    }
    settle_role(role_, Role::kPrimary, core_.record());
    if (core_.session.up()) {
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
  if (role_ == Role::kPromoting) take_promotion_back();
  const Reply reply = promotion_.end();
  if (!result.ok() && core_.session.up()) send_role();  // the peer takes its yes back
  if (reply) reply(std::move(result));
}

// What become_primary() may have put on record already: a node that never served anybody may not be
// taken for a primary that crashed, nor forget that its peer was one. Not settled: where its last process ended as
// primary, the record says so until that is made good.
void Roles::take_promotion_back() {
  role_ = Role::kSecondary;
  if (promotion_.may_be_on_record()) promotion_.restore_record();
}

// A promotion or demotion that is just being recorded stays on record; should the former be taken back, the
// crash does not come back with it.
void Roles::crash_is_made_good() {
  core_.state().role().set_primary((is_primary() && core_.record().primary) || promotion_.may_be_on_record());
  promotion_.forget_crash();
}

void Roles::send_role() {
  core_.session.send_ordered(wire::RoleFrame{role_ != Role::kSecondary, core_.record().term});
}

bool Roles::heard_role(const wire::RoleFrame& told) {
  const bool primary = told.primary;
  if (primary && role_ != Role::kSecondary) return false;
  asked_.forget_promotion();
  peer_ = primary ? PeerRole::kPrimary : PeerRole::kSecondary;
  core_.peer_told(core_.peer, primary ? "is primary now" : "is secondary now", Severity::kInfo);
  core_.events().tell("role", {{"node", core_.peer}, {"role", primary ? "primary" : "secondary"}});
  promotion_.forget_primary_peer();
  // Not marked as half-copied yet, it is what it was, and knows of no end of a primary before.
  const bool behind = core_.phase().being_resynced() && !core_.record().inconsistent;
  keeps_primary_ = !primary && behind && core_.record().peer_primary;
  const bool known = primary || keeps_primary_;
  if (!core_.state().blank() && core_.record().peer_primary != known) {
    core_.state().role().set_peer_primary(known);
    core_.state().role().hear_term(told.term);
    core_.state().persist([](int) {});
  }
  const uint64_t about = core_.record().backing_number;
  if (primary && core_.phase().both_whole())
    core_.state().backing().vouch(true);
  else if (primary)
    core_.state().backing().meet(true);
  if (core_.record().backing_number != about) core_.state().persist([](int) {});
  owner_.peer_became(peer_);
  if (primary) loss_wait_.peer_is_primary_now();
  return true;
}

void Roles::demote(bool for_good, Reply reply) {
  // It has served nobody: the next session knows it as what its last process left.
  if (resumption_.confirmed())
    core_.session.drop("this node is to be demoted, and had not gone on as primary yet", 0);
  const bool was_to_go_on = resumption_.pending();
  // Also where this process does not go on: because of its file, say, or of a disk that was not there.
  const bool would_go_on =
      was_to_go_on || core_.record().promoted_boot != 0 || core_.state().durable().promoted_boot != 0;
  const bool was_to_be_promoted = promotion_.waits_for_consent() || loss_wait_.waiting();
  loss_wait_.give_up(Error{"this node is to be demoted", "", EBUSY, Retry::kNotNow});
  if (was_to_go_on) resumption_.give_up("it is to be demoted");
  if (was_to_go_on || promotion_.waits_for_consent()) {
    // What the witness is asked for that is for nobody any more. Its answer, as late as it may come, is void.
    if (consent_.promotion_waits()) {
      (void)promotion_.forget_consent();
      consent_.forget_promotion();
    }
    core_.stance().alone_right().withdraw();
    if (role_ == Role::kPromoting) promotion_ended(Error{"this node is to be demoted", "", EBUSY, Retry::kNotNow});
  }
  if (role_ == Role::kSecondary) {
    const char* said = was_to_be_promoted ? "this node stays secondary: the promotion that was under way is taken back"
                                          : "this node is secondary already";
    const auto recorded = [this, said, reply = std::move(reply)](int error) {
      gives_up_ = false;
      reply(error == 0 ? Result<std::string>(said) : disks_.why_metadata_failed(error));
      tell_demoted();
    };
    gives_up_ = would_go_on;
    // Before it is said: a later process would go on.
    if (would_go_on) {
      core_.state().role().promoted_on(0);
      core_.state().persist(recorded);
    } else {
      recorded(0);
    }
    return;
  }
  if (role_ != Role::kPrimary) {
    reply(Error{"this node is changing its role just now", "try again", EBUSY});
    return;
  }
  if (const uint64_t clients = owner_.clients_connected(); clients > 0) {
    reply(Error{"the export is in use by " + std::to_string(clients) +
                    (clients == 1 ? " client" : " clients"),
                how_to_end_clients(core_), EBUSY});
    return;
  }
  TB_CHECK(!resumption_.under_way(), "who is demoted does not go on as primary by itself");
  role_ = Role::kDemoting;
  update_local_reads();
  demotion_.begin(for_good, [this, reply = std::move(reply)](Result<std::string> result) {
    demoted(std::move(result), reply);
  });
}

void Roles::when_demoted(std::function<void()> then) {
  if (role_ == Role::kDemoting || gives_up_)
    when_demoted_ = std::move(then);
  else
    then();
}

void Roles::tell_demoted() {
  if (when_demoted_) std::exchange(when_demoted_, nullptr)();
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
  settle_role(role_, result.ok() ? Role::kSecondary : Role::kPrimary, core_.record());
  update_local_reads();
  if (result.ok()) {
    core_.log.log(Severity::kInfo, "demoted to secondary");
    core_.events().tell("role", {{"node", core_.node}, {"role", "secondary"}});
    owner_.became_secondary();
    if (core_.session.up()) send_role();
    core_.session.poke();  // a peer that was refused may order by what this node holds from now on
  }
  owner_.note_state();
  reply(std::move(result));
  tell_demoted();
}

void Roles::update_local_reads() {
  core_.worker_view().set_local_reads(role_ == Role::kPrimary && !resumption_.under_way() &&
                                      disks_.local_ok() && !core_.stance().waits_for_witness());
}

}  // namespace twinblock
