#include "volume/promotion.h"

#include <cerrno>

#include "base/checks.h"
#include "volume/loss_wait.h"

namespace twinblock {

Promotion::Promotion(Core& core, const Replica& replica, Consent& consent, Calls calls)
    : core_(core),
      replica_(replica),
      consent_(consent),
      calls_(std::move(calls)),
      timer_(core.clock.make_timer([this] { look_for_answer(); })) {}

void Promotion::order(Word word, Reply reply) {
  word_ = word;
  reply_ = std::move(reply);
}

void Promotion::ask() {
  if (core_.session.up()) {
    core_.session.send_ordered(wire::PromoteAskFrame{++question_, core_.state().role().next_term()});
  } else if (!replica_.draining()) {
    go_ahead();
    return;
  }
  // Without a session, writes that the lost one had brought end first: they would land on top of
  // the new clients' (invariant 4). With the word that the peer is dead, the loss of the session may
  // come as late as its answer would.
  asked_ns_ = core_.clock.now_ns();
  wait_ns_ = core_.config.peer_timeout_ns * (word_.peer_is_dead || consent_.asks() ? 2 : 1);
  timer_->arm(wait_ns_);
}

// Nothing of the lost session's lands any more. Where there is a witness, it has to consent (or the
// operator in its place) before anything is on record.
void Promotion::go_ahead() {
  timer_->disarm();
  if (std::optional<Error> why = why_taken_back()) {
    calls_.fail(*std::move(why));
    return;
  }
  if (!consent_.asks()) {
    calls_.go();
    return;
  }
  waits_for_consent_ = true;
  consent_.forget_promotion();  // of a resumption, which this one takes the place of
  const auto then = [this, number = number_](std::optional<Error> error) {
    if (number == number_) consented(std::move(error));
  };
  if (word_.without_witness)
    consent_.take_word(then);
  else
    consent_.ask_for_promotion(then);
}

void Promotion::consented(std::optional<Error> error) {
  if (!std::exchange(waits_for_consent_, false)) return;
  TB_CHECK(!core_.session.up(), "who waits for the witness is alone");
  if (!error && (error = why_taken_back()))
    core_.stance().alone_right().withdraw();  // what it has just got
  if (error)
    calls_.fail(*std::move(error));
  else
    calls_.go();
}

// Who gave the word may have gone while the last writes of a lost session ended, or the witness was asked. The peer's own
// yes needs no word. From Calls::go on nothing is taken back: the record in memory has another term, and is about the
// backing that is here.
std::optional<Error> Promotion::why_taken_back() const {
  return word_.peer_is_dead ? twinblock::why_taken_back(core_, word_.gone) : std::nullopt;
}

// Time in which this node stood still does not count, and the answer may lie in the socket.
void Promotion::look_for_answer() {
  const uint64_t waited_ns = core_.lateness().passed_ns(asked_ns_, core_.clock.now_ns());
  if (waited_ns < wait_ns_) {
    timer_->arm(wait_ns_ - waited_ns);
    return;
  }
  calls_.fail(Error{replica_.draining()
                        ? "the local disk has not finished what " + core_.peer + " had sent to it"
                        : core_.peer + " did not answer the request to become primary",
                    "try again", ETIMEDOUT, Retry::kLater});
}

void Promotion::heard_answer(const wire::PromoteAnswerFrame& answer, std::span<const std::byte> why) {
  // An answer to a question that is not waited for any more: the peer was told so (Roles::send_role()), and
  // has taken back what it recorded for it.
  if (!waits() || answer.question != question_) return;
  timer_->disarm();
  if (answer.error == 0)
    calls_.go();
  else
    calls_.fail(Error{core_.peer + " refuses: " + wire::printable(why), "", static_cast<int>(answer.error),
                      Retry::kLater});
}

void Promotion::remember_record() {
  const metadata::NodeRecord& record = core_.record();
  before_ = {record.primary, record.peer_primary, record.promoted_boot};
  core_.stance().promotion_begins();
}

void Promotion::restore_record() {
  TB_CHECK(before_.has_value(), "only what was kept can be restored");
  RecordedRole& role = core_.state().role();
  role.set_primary(before_->primary);
  role.promoted_on(before_->promoted_boot);
  role.set_peer_primary(core_.record().peer_primary || before_->peer_primary);
  core_.state().persist([](int) {});
}

Promotion::Reply Promotion::end() {
  timer_->disarm();
  before_.reset();
  waits_for_consent_ = false;
  ++number_;
  return take_reply();
}

}  // namespace twinblock
