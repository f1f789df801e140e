// A node that was primary when its process ended goes on as primary by itself, so that a device whose
// connections are kept for it (the kernel's nbd) loses time only. That is so on the same boot of its
// host alone: only then does its page cache hold all that it acknowledged since, and only then can such a
// device still be there. (What it had acknowledged before a loss of power, when an operator's word made it
// primary again, its peer may hold: until it has acknowledged more in a generation of its own, it does not
// go on against that one.) And it must be known that nobody was promoted since:
//
//   kPending    the peer confirms that in a handshake (mirror/generation.h, goes_on()); or it is away,
//               and this node had on record that it had gone on alone, in a generation of its own: then
//               its clients' writes are here only, and the peer may be promoted against a word only;
//               where there is a witness, it is asked instead, but not where clients wait for a lost peer
//               (on_peer_loss = freeze): they would all the same, and the peer could not go on any more. A peer
//               that knows nothing of the volume (its disk was lost, and is empty, or another's) says as little as
//               one that is away; but once it has a session, which fills it, none goes on by itself that was not
//               alone
//   kConfirmed  primary, but not served yet: clients could read what was under way when the process
//               ended. That is here for sure only once the peer has the same, or is marked as half-copied. Where
//               it can't be marked yet, as it takes a copy first, or has failed to, this node goes on alone, as one
//               that runs has by then: in a generation of its own, so that a promotion there shows as a split
//   kOver       served, or given up: the node is secondary until it is promoted
//
// Owned by Roles; loop thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "volume/consent.h"
#include "volume/core.h"

namespace twinblock {

class Resumption {
 public:
  using Reply = std::function<void(Result<std::string>)>;
  static constexpr const char* kWentOn = "this node is primary, as which its last process had ended";

  struct Ways {
    std::function<void()> alone;            // without a session
    std::function<void()> beside_newcomer;  // whose session stands; may be refused, and is tried again
    std::function<void()> confirmed;        // as it may serve by now
  };
  Resumption(Core& core, Consent& consent, Ways go_on);

  // The process begins. `on_this_boot`: that of the host when this node was promoted. `mine`: what this node says of
  // itself at the moment, as in a handshake.
  void start(bool on_this_boot, std::function<SyncFacts()> mine);
  [[nodiscard]] bool pending() const { return state_ == State::kPending; }
  [[nodiscard]] bool under_way() const { return state_ != State::kOver; }
  // This node is primary by its peer's confirmation, and not for clients yet.
  [[nodiscard]] bool confirmed() const { return state_ == State::kConfirmed; }
  // Whether nobody is asked in the place of a peer that is away, for which clients wait.
  [[nodiscard]] bool waits_for_peer() const {
    return pending() && core_.stance().waits_for_peer() && core_.record().shares_generation();
  }

  // A session stands. Whether the peer has confirmed, so that this node is primary; else it is over, but where the peer
  // knows nothing of the volume and this node was alone.
  bool confirmed_by(const SyncFacts& mine, const SyncFacts& peer);
  // … and this node is primary on record.
  void recorded() { recorded_ = state_ == State::kConfirmed; }
  // The peer, which has confirmed, says that it can't be marked as half-copied yet: this node, which has flushed what it
  // holds, goes on alone as soon as that is on record. Where clients wait for the peer, or the witness, so does this. (Not
  // where the session is lost: it may be to be demoted, its flush may have failed, and the peer's replica may be the better one.)
  void target_waits();
  // Whether it would, so that the witness is asked.
  [[nodiscard]] bool wants_alone() const { return wants_alone_; }
  // The session is lost. Whether it had been confirmed, so that this node waits again.
  bool session_lost();
  // Whether the peer's replica can't be promoted any more over what clients may read here; then it is
  // over, and this node serves.
  bool may_serve();
  // An order to be primary, of a node that has been confirmed: answered when it serves, or can't yet.
  void wait(Reply reply);
  // It serves, by an operator's word.
  void end();
  // It stays secondary. `why`: a sentence for the log.
  void give_up(const std::string& why);

 private:
  enum class State { kOver, kPending, kConfirmed };

  void look();
  void look_without_peer();
  void look_beside_newcomer();
  [[nodiscard]] bool beside_older_primary() const;
  [[nodiscard]] bool alone_on_record() const {
    return !core_.record().shares_generation() && !core_.record().peer_primary;
  }
  void ask_witness();
  void refused_by_peer();
  void answer(const Result<std::string>& result);

  Core& core_;
  Consent& consent_;
  const Ways go_on_;
  const std::unique_ptr<Timer> timer_;
  State state_ = State::kOver;
  bool recorded_ = false;
  bool wants_alone_ = false, alone_ = false;  // … is on record; of this session
  bool was_alone_ = false;  // on record when the process began; a newcomer's session changes that
  uint64_t not_before_ns_ = 0;  // is anybody asked again
  std::vector<Reply> waiting_;
  std::function<SyncFacts()> mine_;
  uint64_t since_ns_ = 0;
};

}  // namespace twinblock
