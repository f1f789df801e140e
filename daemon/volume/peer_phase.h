// In which phase the session with the peer is (mirror/phase.h), for all parts to read; PeerSync alone
// changes it. Owned by Core; loop thread only.
#pragma once

#include <cstdint>

#include "base/checks.h"
#include "mirror/phase.h"
#include "volume/worker_view.h"

namespace twinblock {

class PeerPhase {
 public:
  explicit PeerPhase(WorkerView& workers) : workers_(workers) {}

  [[nodiscard]] Phase now() const { return phase_; }
  [[nodiscard]] Attachment attachment() const { return rules_of(phase_).attachment; }
  // The peer receives what this node writes.
  [[nodiscard]] bool attached() const { return attachment() != Attachment::kNone; }
  // … and is whole.
  [[nodiscard]] bool peer_whole() const {
    return attachment() == Attachment::kDuplex || attachment() == Attachment::kDiskless;
  }
  // The peer is whole, and this node's disk failed.
  [[nodiscard]] bool diskless() const { return attachment() == Attachment::kDiskless; }
  [[nodiscard]] bool both_whole() const { return rules_of(phase_).both_whole; }
  // The peer may send writes.
  [[nodiscard]] bool receives() const { return rules_of(phase_).receives; }
  // … and is whole itself: this node's replica is not the only good one.
  [[nodiscard]] bool receives_from_whole() const { return receives() && !holds_sole_copy(); }
  [[nodiscard]] bool being_resynced() const { return phase_ == Phase::kBehind; }
  [[nodiscard]] bool holds_sole_copy() const { return phase_ == Phase::kSoleCopy; }

  // The session that stands, or stood last, for callbacks that may come when it is gone.
  [[nodiscard]] uint64_t session() const { return session_; }
  [[nodiscard]] bool still(uint64_t session) const {
    return phase_ != Phase::kApart && session == session_;
  }
  [[nodiscard]] const PhaseSteps& steps() const { return steps_; }

 private:
  friend class PeerSync;
  void enter(Phase to) {
    TB_CHECK(may_follow(phase_, to), "the table of phases has this step");
    if (phase_ == Phase::kApart && to != Phase::kApart) ++session_;
    steps_.took(phase_, to);
    // What is known of the disk's contents was this disk's or is the peer's; a target's are about to change.
    const bool other_contents = rules_of(to).attachment == Attachment::kDiskless || diskless() || rules_of(to).receives;
    phase_ = to;
    if (other_contents) workers_.forget_places();
    workers_.set_peer_receives(attached());
  }

  WorkerView& workers_;
  Phase phase_ = Phase::kApart;
  uint64_t session_ = 0;
  PhaseSteps steps_;  // that were taken
};

}  // namespace twinblock
