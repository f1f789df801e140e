// The engine's side of the session: what the session asks of the node goes to the part that knows it, what it
// tells to all parts that it is about, and each frame to the one that hears it. What both nodes tell each other
// as soon as a session stands, or have recorded for each other, is its own. It decides nothing.
//
// Owned by the engine; loop thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "session/session.h"
#include "volume/asked_record.h"
#include "volume/compression_orders.h"
#include "volume/consent.h"
#include "volume/core.h"
#include "volume/disk_health.h"
#include "volume/flush_group.h"
#include "volume/growth.h"
#include "volume/link_orders.h"
#include "volume/own_facts.h"
#include "volume/peer_settings.h"
#include "volume/peer_sync.h"
#include "volume/replica.h"
#include "volume/roles.h"
#include "volume/simplex_gate.h"
#include "volume/slow_reads.h"
#include "volume/snapshots.h"
#include "volume/split_brain_orders.h"
#include "volume/state_log.h"
#include "volume/verifier.h"
#include "volume/way_back.h"
#include "volume/write_path.h"

namespace twinblock {

class EngineSession final : public SessionOwner {
 public:
  // The engine's. They are made after this one, and used when the session is started.
  struct Parts {
    Core& core;
    SimplexGate& gate;
    WritePath& writes;
    FlushGroup& flushes;
    SlowReads& reads;
    Replica& replica;
    Verifier& verifier;
    Consent& consent;
    Roles& roles;
    const DiskHealth& disks;
    const OwnFacts& facts;
    Growth& growth;
    const WayBack& way_back;
    Snapshots& snapshots;
    PeerSync& sync;
    SplitBrainOrders& split_brain;
    StateLog& states;
    std::function<void()> note_state;  // after whatever may have changed the state
  };

  explicit EngineSession(Parts parts);

  [[nodiscard]] CompressionOrders& compression() { return compression_; }
  [[nodiscard]] LinkOrders& link_orders() { return link_orders_; }
  [[nodiscard]] const PeerSettings& peer_settings() const { return peer_settings_; }
  void witness_answered(uint64_t mark) { peer_settings_.witness_answered(mark); }
  [[nodiscard]] AskedRecord& asked() { return asked_; }
  // This node is primary and waits for its own disk, while a witness says who goes on: the peer may, so that no session is
  // to keep it from that. (Who has given its disk up works on the peer's.)
  [[nodiscard]] bool stands_aside() const {
    return disk_stalled() && parts_.disks.local_ok() && parts_.consent.asks();
  }

  // SessionOwner
  SyncFacts facts() const override { return parts_.facts.now(); }
  void facts_told() override;
  bool fast_zero() override { return parts_.core.data.fast_zero(); }
  [[nodiscard]] uint64_t volume_bytes() const override { return parts_.core.volume_bytes(); }
  std::string peer_is_larger(uint64_t volume_bytes) override;
  bool draining() override {
    return parts_.replica.draining() || parts_.way_back.rolling_back() || parts_.growth.recording() || stands_aside();
  }
  void session_up(Verdict verdict, const SyncFacts& peer, bool peer_fast_zero) override;
  void session_lost(const std::string& reason, uint64_t retry_delay_ns) override;
  void session_frame(wire::Frame& frame, uint64_t incarnation) override;
  void connection_gone(uint64_t incarnation) override;
  void links_changed() override;
  void control_confirmed() override;
  uint64_t disk_still_ns() override { return parts_.replica.still_ns(); }
  uint64_t disk_stalled_ns() override { return disk_stalled() ? parts_.disks.stalls().stalled_ns() : 0; }

 private:
  [[nodiscard]] bool disk_stalled() const { return parts_.roles.is_primary() && parts_.disks.stalls().stalled_ns() > 0; }

  const Parts parts_;
  CompressionOrders compression_;
  LinkOrders link_orders_;
  PeerSettings peer_settings_;
  AskedRecord asked_;
};

}  // namespace twinblock
