// How this node stands to what its clients, its operator and its peer ask of it: whether writes, flushes and reads
// may go on now, or wait for the peer or the witness; and what the volume is just busy with, while who is primary stays as
// it is. Who changes it says what happened. Owned by Core; loop thread only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/limits.h"
#include "config/config.h"
#include "io/clock.h"
#include "session/session.h"
#include "volume/alone_right.h"
#include "volume/node_state.h"
#include "volume/peer_phase.h"
#include "volume/worker_view.h"

namespace twinblock {

// What only a peer that is away for a moment holds, and is waited for.
enum class AwaitedCopies { kNone, kOfBadPlaces, kAll };

class Stance {
 public:
  enum class Change { kNone, kGrowing, kRollingBack };
  // Core's.
  struct Parts {
    const Config& config;
    const Clock& clock;
    const Session& session;
    const NodeState& state;
    const PeerPhase& phase;
    const WorkerView& worker_view;
  };
  explicit Stance(const Parts& parts) : parts_(parts), alone_right_(parts.config.witness.kind) {}

  // A primary's writes and flushes wait: …
  [[nodiscard]] bool frozen() const { return waits_for_peer() || waits_for_witness() || waits_for_sole_copy(); }
  // … for the peer (on_peer_loss = freeze) …
  [[nodiscard]] bool waits_for_peer() const {
    return parts_.config.on_peer_loss == OnPeerLoss::kFreeze && !parts_.phase.attached() && !alone_allowed_ &&
           !demoting_;
  }
  // … for a peer that is away for a moment with the only good replica …
  [[nodiscard]] bool waits_for_sole_copy() const {
    return awaits(AwaitedCopies::kAll);
  }
  void await_copies(AwaitedCopies which) { awaited_copies_ = which; }
  [[nodiscard]] AwaitedCopies awaited_copies() const { return awaited_copies_; }
  // … or for the witness, as what it would promise now counts on its own replica only.
  [[nodiscard]] bool waits_for_witness() const {
    return !parts_.phase.attached() && !may_promise_alone();
  }
  // Reads do as well, since the peer may have been promoted; also where the peer has not been heard
  // for so long that it may be about to be.
  [[nodiscard]] bool reads_wait() const {
    return waits_for_witness() || !parts_.worker_view.lease_holds(parts_.clock);
  }
  // Until then the peer, as far as it has told in this session what it waits for, does not ask a witness to be promoted
  // without this node.
  [[nodiscard]] uint64_t peer_waits_until_ns() const {
    return parts_.session.heartbeats().answered_beat_ns() +
           std::min({parts_.config.peer_timeout_ns, peer_told_timeout_ns_, limits::kLeaseMax_ns});
  }
  // A session begins, in which the peer has not told its peer_timeout yet; it has.
  void session_up() { peer_told_timeout_ns_ = 0; }
  void peer_told_timeout(uint64_t ns) { peer_told_timeout_ns_ = ns; }

  // The session ends in which the peer was whole, or was not.
  void peer_lost(bool whole) { peer_was_whole_ = peer_was_whole_ || whole; }
  // It is to be marked as one that is not, or this node is primary no longer.
  void peer_counts_no_more() { peer_was_whole_ = stands_aside_ = false; }
  // This node's own disk stands still, while a witness says who goes on, so that it has no session until that gets on …
  void stand_aside() { stands_aside_ = peer_was_whole_; }
  // … and has promised nothing since the peer was whole: whatever its disk may come back with, what that holds counts as well.
  [[nodiscard]] bool stands_aside() const { return stands_aside_ && waits_for_witness(); }
  // All that counts is on the peer's replica as well, so that this node's disk may be left to it.
  [[nodiscard]] bool peer_holds_all() const { return parts_.phase.peer_whole() || stands_aside(); }
  // That disk has come back: a peer that is still there comes before the witness.
  void ready_again() { ready_ns_ = parts_.clock.now_ns(); }
  [[nodiscard]] bool peer_comes_first() const {
    return stands_aside() && parts_.clock.now_ns() - ready_ns_ < parts_.config.peer_timeout_ns;
  }

  // What the peer misses may be promised, as soon as it is on record.
  [[nodiscard]] bool may_promise_alone() const { return alone_right_.alone(parts_.state.record()); }
  [[nodiscard]] AloneRight& alone_right() { return alone_right_; }
  [[nodiscard]] const AloneRight& alone_right() const { return alone_right_; }
  // The operator's word that nobody waits for the peer: until that takes part, or a promotion. False: it had been given.
  bool operator_lets_go_on() { return !std::exchange(alone_allowed_, true); }
  void peer_takes_part() { alone_allowed_ = peer_was_whole_ = stands_aside_ = false; }
  void promotion_begins() { alone_allowed_ = false; }

  // The node is being demoted: nobody has the export open, and a flush promises no client anything, so that it
  // waits for no peer, whether that comes and goes meanwhile or not.
  [[nodiscard]] bool demoting() const { return demoting_; }
  // What clients ask for, and cannot be done here, waits; what a demotion asks for is nobody's.
  [[nodiscard]] bool clients_wait() const { return frozen() && !demoting_; }
  // … or can't be read here.
  [[nodiscard]] bool bad_places_wait() const { return awaits(AwaitedCopies::kOfBadPlaces); }
  void demotion_begins() { demoting_ = true; }
  void demotion_ended() { demoting_ = false; }

  // What the volume is just doing, in words for errors ("growing", until both have recorded its size, or neither; being
  // rolled back here; being copied for a snapshot), while who is primary stays as it is, and nobody begins a volume anew;
  // null: nothing of these.
  [[nodiscard]] const char* changing() const {
    switch (change_) {
      case Change::kGrowing: return "growing";
      case Change::kRollingBack: return "being rolled back";
      case Change::kNone: break;
    }
    return taking_snapshot_ ? "being copied for a snapshot" : nullptr;
  }
  void change_begins(Change change) { change_ = change; }
  void change_ended() { change_ = Change::kNone; }
  // A snapshot is being taken by this node's order: until both copies are taken, nobody but clients changes what the
  // backings hold, and those wait for it.
  [[nodiscard]] bool taking_snapshot() const { return taking_snapshot_; }
  void snapshot_begins() { taking_snapshot_ = true; }
  void snapshot_ended() { taking_snapshot_ = false; }

 private:
  [[nodiscard]] bool awaits(AwaitedCopies which) const {
    return awaited_copies_ == which && !parts_.phase.attached() && !alone_allowed_ && !demoting_;
  }

  const Parts parts_;
  AloneRight alone_right_;
  uint64_t peer_told_timeout_ns_ = 0;
  AwaitedCopies awaited_copies_ = AwaitedCopies::kNone;
  bool peer_was_whole_ = false;
  bool stands_aside_ = false;
  uint64_t ready_ns_ = 0;
  bool alone_allowed_ = false;
  bool demoting_ = false;
  Change change_ = Change::kNone;
  bool taking_snapshot_ = false;
};

}  // namespace twinblock
