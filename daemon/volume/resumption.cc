#include "volume/resumption.h"

#include <cerrno>
#include <utility>

#include "base/units.h"

namespace twinblock {
namespace {

constexpr uint64_t kLook_ns = 20 * kMillisecond_ns;
// A witness that could not be asked is asked again after this.
constexpr uint64_t kAskAgain_ns = 1 * kSecond_ns;

}  // namespace

Resumption::Resumption(Core& core, Consent& consent, Ways go_on)
    : core_(core),
      consent_(consent),
      go_on_(std::move(go_on)),
      timer_(core.clock.make_timer([this] { look(); })) {}

void Resumption::start(bool on_this_boot, std::function<SyncFacts()> mine) {
  const SyncFacts now = mine();
  if (core_.config.on_restart == OnRestart::kResume && core_.state().crashed() && now.other_backing)
    core_.log.log(Severity::kWarning, "does not go on as primary: its backing is not the one that it was primary with");
  const bool whole = !now.inconsistent && !now.backing_lost && !now.flush_failed && !now.forgot;
  if (core_.config.on_restart != OnRestart::kResume || !on_this_boot || !whole || now.discard)
    return;
  state_ = State::kPending;
  was_alone_ = alone_on_record();
  mine_ = std::move(mine);
  since_ns_ = core_.clock.now_ns();
  core_.log.log(Severity::kInfo, "was primary when its process ended: goes on as primary when it is "
                                 "known that " + core_.peer + " was not promoted since");
  timer_->arm(kLook_ns);
}

// What the peer says of itself without a session counts, too: it may be refused for another reason.
void Resumption::look() {
  if (state_ != State::kPending) return;
  const auto& peer = core_.session.handshake().peer_facts();
  SyncFacts mine = mine_();
  mine.resumes = true;
  if (peer && knows_of(mine, *peer) && !goes_on(mine, *peer) && !goes_on_later(mine, *peer)) {
    refused_by_peer();
    return;
  }
  timer_->arm(kLook_ns);
  const uint64_t now = core_.clock.now_ns();
  if (now - since_ns_ < core_.config.peer_timeout_ns || now < not_before_ns_) return;
  if (core_.session.up())
    look_beside_newcomer();
  else
    look_without_peer();
}

// Nobody but an operator tells it to yield: there would be two.
bool Resumption::beside_older_primary() const {
  const auto& peer = core_.session.handshake().peer_facts();
  return peer && peer->primary && core_.session.links().peer_answers();
}

// It has no say before it has something on record; then it is asked, as for any promotion.
void Resumption::look_beside_newcomer() {
  const Phase phase = core_.phase().now();
  if (phase != Phase::kCopying && phase != Phase::kEqual) return;
  not_before_ns_ = core_.clock.now_ns() + kAskAgain_ns;
  go_on_.beside_newcomer();
}

void Resumption::look_without_peer() {
  // The peer may hold what was acknowledged before this host was started anew, or what a flush has lost here since:
  // consent does not bring that back.
  const SyncFacts mine = mine_();
  if (mine.disk_failed || mine.flush_failed || (mine.rebooted && core_.record().shares_generation())) return;
  if (waits_for_peer()) return;
  if (consent_.asks()) {
    if (!consent_.promotion_waits()) ask_witness();
    return;
  }
  if (!alone_on_record() || beside_older_primary()) return;
  core_.log.log(Severity::kInfo, "goes on as primary, alone as before");
  end();
  go_on_.alone();
}

// Until it answers, or the peer is there.
void Resumption::ask_witness() {
  not_before_ns_ = core_.clock.now_ns() + kAskAgain_ns;
  consent_.ask_for_promotion([this](const std::optional<Error>& error) {
    if (state_ != State::kPending || core_.session.up()) return;
    if (!error) {
      core_.log.log(Severity::kInfo, "goes on as primary, by the witness' consent");
      end();
      go_on_.alone();
    } else if (error->code == EBUSY && error->retry == Retry::kNotNow) {  // one that can't be asked yet is busy, too
      give_up(error->what);
    }
  });
}

bool Resumption::confirmed_by(const SyncFacts& mine, const SyncFacts& peer) {
  // It can't, nor in any later session, when it has this node's data: only who was alone needs nobody's word.
  if (!knows_of(mine, peer)) {
    if (!was_alone_) give_up(core_.peer + " came without data, and can't say whether it was promoted meanwhile");
    return false;
  }
  if (!goes_on(mine, peer)) {
    refused_by_peer();
    return false;
  }
  was_alone_ = false;
  state_ = State::kConfirmed;
  recorded_ = wants_alone_ = alone_ = false;
  return true;
}

void Resumption::target_waits() {
  if (state_ != State::kConfirmed || !recorded_) return;
  wants_alone_ = true;
  if (core_.stance().waits_for_witness()) consent_.look();
  if (core_.stance().frozen()) return;
  // Not as a promise, which would begin another one where the peer is about to share this one by then.
  if (core_.record().shares_generation()) {
    core_.state().history().begin_generation(core_.stance().alone_right().by_witness());
    core_.stance().alone_right().withdraw();  // it is spent
  }
  core_.state().persist([this, session = core_.phase().session()](int error) {
    if (error != 0 || state_ != State::kConfirmed || !core_.phase().still(session)) return;
    alone_ = true;
    go_on_.confirmed();
  });
}

void Resumption::refused_by_peer() {
  give_up(core_.peer + " was promoted meanwhile, or holds another state of the volume, or "
                           "what this host has lost with its memory");
}

bool Resumption::session_lost() {
  if (state_ != State::kConfirmed) return false;
  state_ = State::kPending;
  wants_alone_ = false;
  since_ns_ = core_.clock.now_ns();
  timer_->arm(kLook_ns);
  answer(Error{"the session with " + core_.peer + " was lost before this node went on as primary", "try again", 0,
               Retry::kLater});
  return true;
}

bool Resumption::may_serve() {
  const Phase phase = core_.phase().now();
  const bool stays = phase == Phase::kCopying || phase == Phase::kDuplex || alone_;
  if (state_ != State::kConfirmed || !recorded_ || !stays) return false;
  end();
  answer(std::string(kWentOn));
  return true;
}

void Resumption::wait(Reply reply) {
  TB_CHECK(state_ == State::kConfirmed, "who waits to serve has been confirmed");
  waiting_.push_back(std::move(reply));
}

void Resumption::answer(const Result<std::string>& result) {
  for (const Reply& reply : std::exchange(waiting_, {})) reply(result);
}

void Resumption::end() {
  state_ = State::kOver;
  wants_alone_ = false;
  timer_->disarm();
}

void Resumption::give_up(const std::string& why) {
  core_.log.log(Severity::kWarning, "does not go on as primary: " + why);
  core_.state().role().promoted_on(0);  // nor does a later process
  core_.state().persist([](int) {});
  end();
}

}  // namespace twinblock
