// A promotion that is under way: whose order it is, by which word, and what it waits for before anything is on record.
//
//   ask ─▶ the peer's answer; without a session, the end of what the lost one had brought
//       ─▶ without a session, the witness' consent, where one is asked ─▶ Calls::go
//
// From there on it keeps what the record said before, so that the promotion can be taken back until it is on record.
// Owned by Roles; loop thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "volume/consent.h"
#include "volume/core.h"
#include "volume/replica.h"

namespace twinblock {

class Promotion {
 public:
  // A sentence for the operator, or an error with an action.
  using Reply = std::function<void(Result<std::string>)>;
  // What the operator answers for.
  struct Word {
    Word(bool is_dead = false, bool no_witness = false,  // NOLINT(google-explicit-constructor)
         std::function<bool()> has_gone = nullptr)
        : peer_is_dead(is_dead), without_witness(no_witness), gone(std::move(has_gone)) {}
    bool peer_is_dead;
    bool without_witness;  // … and does not go on, whatever the witness says of it
    std::function<bool()> gone;  // whether he waits for the answer no more; null: he waits
  };
  struct Calls {
    // Nothing is to be waited for any more.
    std::function<void()> go;
    // It comes to nothing.
    std::function<void(Error)> fail;
  };

  // `replica` and `consent` are the engine's.
  Promotion(Core& core, const Replica& replica, Consent& consent, Calls calls);

  // The operator's. `reply`: null, where somebody else keeps it for now.
  void order(Word word, Reply reply);
  [[nodiscard]] Word word() const { return word_; }
  [[nodiscard]] Reply take_reply() { return std::exchange(reply_, nullptr); }

  void ask();
  // For the peer's answer, or for what a lost session had brought.
  [[nodiscard]] bool waits() const { return timer_->armed(); }
  void wait_no_longer() { timer_->disarm(); }
  // For the witness, before anything is on record.
  [[nodiscard]] bool waits_for_consent() const { return waits_for_consent_; }
  // … whose answer is not waited for any more, if it was: then the peer was not told of the promotion.
  [[nodiscard]] bool forget_consent() { return std::exchange(waits_for_consent_, false); }
  void heard_answer(const wire::PromoteAnswerFrame& answer, std::span<const std::byte> why);
  // What a lost session had brought is on the disk.
  void replica_drained() {
    if (!waits_for_consent_) go_ahead();
  }

  // It is about to be put on record: what that says now is kept.
  void remember_record();
  [[nodiscard]] bool may_be_on_record() const { return before_.has_value(); }
  // The record says again what it said: that this node is primary, where its last process ended so.
  void restore_record();
  // Of what is kept: the peer is not primary any more; the crash as primary is no matter any more.
  void forget_primary_peer() {
    if (before_) before_->peer_primary = false;
  }
  void forget_crash() {
    if (before_) before_->primary = false;
  }
  // It is on record, or given up. Whom to answer, if anybody.
  [[nodiscard]] Reply end();
  // Tells it from those before and after it: what is recorded of one that was given up says nothing of the next.
  [[nodiscard]] uint64_t number() const { return number_; }

 private:
  // Why it is not carried out, if so: who said that the peer is dead has gone.
  [[nodiscard]] std::optional<Error> why_taken_back() const;
  // What the record said.
  struct Before {
    bool primary, peer_primary;
    uint64_t promoted_boot;
  };

  void go_ahead();
  void consented(std::optional<Error> error);
  void look_for_answer();

  Core& core_;
  const Replica& replica_;
  Consent& consent_;
  const Calls calls_;
  Word word_;
  Reply reply_;
  bool waits_for_consent_ = false;
  uint64_t number_ = 0;
  uint64_t question_ = 0;  // number of the last one that the peer was asked
  const std::unique_ptr<Timer> timer_;
  uint64_t asked_ns_ = 0;  // when it began to wait, and for how long it may
  uint64_t wait_ns_ = 0;
  std::optional<Before> before_;
};

}  // namespace twinblock
