// Which node may write: this node's role and the peer's, and how they change. A promotion asks the
// peer, which records the right before it says yes, so that at most one node of a session becomes
// primary; without a session, what this node has on record decides, or the operator's word.
//
//   kSecondary ─▶ kPromoting (Promotion; then the record) ─▶ kPrimary
//   kPrimary ─▶ kDemoting (Demotion) ─▶ kSecondary
//
// Owned by the engine; loop thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "volume/asked_record.h"
#include "volume/candidacy.h"
#include "volume/consent.h"
#include "volume/core.h"
#include "volume/demotion.h"
#include "volume/disk_health.h"
#include "volume/loss_wait.h"
#include "volume/promotion.h"
#include "volume/replica.h"
#include "volume/resumption.h"
#include "volume/role.h"

namespace twinblock {

class RolesOwner {
 public:
  // How many have the export open.
  [[nodiscard]] virtual uint64_t clients_connected() const = 0;
  // Puts into the record whom this node takes along in what it writes from now on. Before it is recorded as
  // primary: it is asked what it followed.
  virtual void note_company() = 0;
  // This node was primary with its peer when its host lost its memory: the peer may hold more of what
  // was acknowledged.
  [[nodiscard]] virtual bool forgot_what_the_peer_may_hold() const = 0;
  // As Consent::Owner's.
  [[nodiscard]] virtual bool takes_in_another() const = 0;
  // This node is primary on record, and the peer has been told: from now on it sends, and does not
  // receive.
  virtual void became_primary() = 0;
  // … secondary, before the peer is told.
  virtual void became_secondary() = 0;
  virtual void peer_became(PeerRole role) = 0;
  // What is said of the volume may be another state now.
  virtual void note_state() = 0;

 protected:
  ~RolesOwner() = default;
};

class Roles {
 public:
  using Reply = Promotion::Reply;
  using Word = Promotion::Word;

  // `replica` and `asked` are the engine's, as are the parts that a demotion needs.
  Roles(Core& core, const Replica& replica, AskedRecord& asked, Consent& consent,
        const Demotion::Parts& parts, RolesOwner& owner);

  // The process begins. `on_this_boot`: that of the host when this node was promoted.
  void start(bool on_this_boot, std::function<SyncFacts()> mine) { resumption_.start(on_this_boot, std::move(mine)); }
  [[nodiscard]] const Resumption& resumption() const { return resumption_; }
  // Primary as its last process was, by the same promotion: that one's clients may be about to come back.
  [[nodiscard]] bool went_on() const { return went_on_; }

  // The operator's orders.
  void promote(Word word, Reply reply);
  // `for_good`: the next process does not go on as primary either. A promotion that waits for the witness, or for the loss
  // of the session, is taken back.
  void demote(bool for_good, Reply reply);
  // Once: when no demotion is under way, and when whoever ordered it has its answer.
  void when_demoted(std::function<void()> then);
  // The process ends: no role is taken on any more, and nobody may open the export.
  void stop() { stopping_ = true; }
  [[nodiscard]] bool stopping() const { return stopping_; }

  [[nodiscard]] Role role() const { return role_; }
  [[nodiscard]] PeerRole peer() const { return peer_; }
  [[nodiscard]] bool is_primary() const { return twinblock::is_primary(role_); }
  // What the peer is told of it: also while it is being promoted.
  [[nodiscard]] bool passes_for_primary() const {
    return role_ != Role::kSecondary && !promotion_.waits_for_consent();
  }
  // Whether a client may open the export: not yet where it is primary by its peer's confirmation (volume/resumption.h).
  [[nodiscard]] bool serves() const {
    return role_ == Role::kPrimary && !resumption_.under_way() && !stopping_;
  }
  // Whether it may be promoted.
  [[nodiscard]] const Candidacy& candidacy() const { return candidacy_; }

  // `behind`: this node is to be brought up to date, and is not marked yet. That a peer was primary is
  // not forgotten then: a promotion here would go on beside what that one has acknowledged. `mine`: as
  // this node has told them.
  void session_up(const SyncFacts& mine, const SyncFacts& peer, bool behind);
  // How the peer takes part has changed.
  void phase_entered();
  // The target of a resync says that it can't be marked as half-copied yet.
  void target_waits() { resumption_.target_waits(); }
  // This node is about to record that it is being brought up to date.
  void caught_up();
  void session_lost();
  // To be called when all that the session carried has ended. A promotion that the peer was asked
  // about has failed; but with the word that the peer is dead, this may be the loss that proves it.
  void answer_is_lost(const std::string& reason);
  // What a lost session had brought is on the disk.
  void replica_drained();
  // The peer's frames; false: the frame does not suit the state of this node.
  [[nodiscard]] bool heard_role(const wire::RoleFrame& told);
  [[nodiscard]] bool heard_question(const wire::PromoteAskFrame& ask);
  void heard_answer(const wire::PromoteAnswerFrame& answer, std::span<const std::byte> why) {
    promotion_.heard_answer(answer, why);
  }
  // The peer holds all that this node does: a crash as primary before is no matter any more.
  void crash_is_made_good();
  // Whether workers may read the local replica: to be called when it has failed, too, and when clients
  // wait for the witness, or do so no longer.
  void update_local_reads();
  // A primary whose clients waited for the witness was overtaken by the peer: it is secondary.
  void yield();

 private:
  void wait_for_loss(Word word, Reply reply);
  // Nothing is to be waited for any more.
  void promotion_may_go();
  void become_primary();
  void resume();
  // In a session with a peer that knows nothing of the volume, which is asked as for any promotion.
  void go_on_beside_newcomer();
  // `how` it came to be primary, for the log; `reply`: to who ordered it. Both literals.
  void record_primary(const char* how, const char* reply);
  void now_primary(const char* how);
  void promotion_ended(Result<std::string> result);
  void take_promotion_back();
  void demoted(Result<std::string> result, const Reply& reply);
  void tell_demoted();
  void send_role();

  Core& core_;
  AskedRecord& asked_;
  Consent& consent_;
  const DiskHealth& disks_;
  RolesOwner& owner_;
  Demotion demotion_;
  Candidacy candidacy_;
  Promotion promotion_;
  LossWait loss_wait_;
  Resumption resumption_;
  Role role_ = Role::kSecondary;
  PeerRole peer_ = PeerRole::kUnknown;
  bool went_on_ = false;
  bool stopping_ = false;
  bool keeps_primary_ = false;  // on record is one of before this session
  bool gives_up_ = false;  // that it was to go on as primary is being taken off the record
  std::function<void()> when_demoted_;  // of who waits for the end of the demotion that is under way; else null
};

}  // namespace twinblock
