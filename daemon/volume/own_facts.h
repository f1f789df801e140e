// What this node tells of itself in a handshake, and what it knows of the memory of its host: whether
// that still holds all that was acknowledged. Owned by the engine; loop thread only.
#pragma once

#include "mirror/generation.h"
#include "volume/core.h"
#include "volume/disk_health.h"
#include "volume/roles.h"

namespace twinblock {

class OwnFacts {
 public:
  // `boot`: Engine::Parts'.
  OwnFacts(const Core& core, const DiskHealth& disks, const Roles& roles, uint64_t instance,
            uint64_t boot)
      : core_(core), disks_(disks), roles_(roles), instance_(instance), boot_(boot) {}

  // The record was read. `cache_is_gone`: what the disk did not take was dropped from memory on
  // purpose: as after a loss of power.
  void loaded(bool cache_is_gone);

  [[nodiscard]] SyncFacts now() const;
  [[nodiscard]] uint64_t boot() const { return boot_; }
  // The host was not started anew since this node was promoted.
  [[nodiscard]] bool promoted_on_this_boot() const {
    return boot_ != 0 && core_.record().promoted_boot == boot_;
  }
  // All that was acknowledged is here, in this host's memory or on its disk: it was not started anew since
  // this node was primary, or was whole beside a primary; or the primary's end was in order.
  [[nodiscard]] bool holds_what_was_acknowledged() const {
    const metadata::NodeRecord& record = core_.record();
    if (core_.state().crashed()) return !rebooted_;
    return !record.peer_primary || (boot_ != 0 && record.followed_boot == boot_);
  }
  // This node was primary with its peer when its host lost its memory: the peer may hold more of what
  // was acknowledged. So it may where this node was in duplex with a primary, if nobody else asks the
  // operator about that one.
  [[nodiscard]] bool peer_may_hold_more() const {
    const metadata::NodeRecord& record = core_.record();
    // (What it had begun alone the peer has none of, and gives its own up for. Whether that one was promoted since an etcd
    // knows; a command knows no generations, and without either the operator is asked.)
    const AloneRight& right = core_.stance().alone_right();
    const bool asks = right.asks(record);
    const bool settled = asks && right.witness() == WitnessKind::kEtcd && !record.shares_generation();
    const bool forgot_as_primary = core_.state().crashed() && rebooted_ && record.peer_instance != 0 && !settled;
    // (Who was rolled back lacks more than memory: Candidacy.)
    const bool forgot_as_secondary = asks && record.peer_primary && record.way_back.rolled_back_to_s() == 0 &&
                                     (boot_ == 0 || record.followed_boot != boot_);
    return forgot_as_primary || forgot_as_secondary;
  }

 private:
  const Core& core_;
  const DiskHealth& disks_;
  const Roles& roles_;
  const uint64_t instance_;
  const uint64_t boot_;
  bool forgot_ = false;    // this process began with a cache that had dropped what a flush had lost
  bool rebooted_ = false;  // the host was started anew since this node last took a peer along
};

}  // namespace twinblock
