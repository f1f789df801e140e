// How the two nodes come to hold the same, and stay so: what follows from the handshake's verdict,
// the phases of the session (mirror/phase.h), both sides of a resync, and what is on record of the peer
// before this node relies on it (Company, StandIn). Owned by the engine; loop thread only.
#pragma once

#include <functional>
#include <optional>

#include "volume/company.h"
#include "volume/consent.h"
#include "volume/core.h"
#include "volume/local_flush.h"
#include "volume/own_facts.h"
#include "volume/resync_log.h"
#include "volume/resync_source.h"
#include "volume/resync_target.h"
#include "volume/stand_in.h"
#include "volume/verifier.h"

namespace twinblock {

class PeerSync final : private ResyncSource::Owner,
                       private ResyncTarget::Owner,
                       private StandIn::Owner {
 public:
  class Owner {
   public:
    virtual void phase_entered() = 0;
    // What is said of the volume may be another state now.
    virtual void note_state() = 0;

   protected:
    ~Owner() = default;
  };
  // The engine's.
  struct Parts {
    SimplexGate& gate;
    WritePath& writes;
    FlushGroup& flushes;
    DiskHealth& disks;
    Verifier& verifier;
    Replica& replica;
    AskedRecord& asked;
    Consent& consent;
    Roles& roles;
    FirstRecord& first_record;
    const OwnFacts& facts;
    WayBack& way_back;
    const EventWords& words;
    uint64_t own_set_bytes_max;
  };

  PeerSync(Core& core, const Parts& parts, Owner& owner);

  // The session stands on a verdict that is usable.
  void session_up(Verdict verdict, const SyncFacts& peer);
  void session_lost(uint64_t retry_delay_ns);
  // Everything is to be sent to another replica than before, as soon as the witness agrees to a generation
  // for it (AloneRight::take_in_another()).
  [[nodiscard]] bool waits_for_witness() const { return waiting_copy_.has_value(); }
  void right_changed();

  // The node's role is about to change, or has (RolesOwner).
  void became_primary();
  void became_secondary();
  // Puts into the record whom this node takes along in what it writes from now on (RolesOwner).
  void note_company() { company_.promoted(); }
  // The local disk failed while the peer was whole.
  void peer_stands_in();

  void heard_set(const wire::Frame& frame);
  [[nodiscard]] ResyncTarget& target() { return target_; }
  [[nodiscard]] const ResyncTarget& target() const { return target_; }
  [[nodiscard]] ResyncSource& source() { return source_; }
  [[nodiscard]] const ResyncSource& source() const { return source_; }
  [[nodiscard]] ResyncLog& log() { return log_; }
  [[nodiscard]] const ResyncLog& log() const { return log_; }

 private:
  // ResyncSource::Owner
  void resync_target_waits() override;
  void resync_target_marked() override;
  void resync_copied() override;
  void resync_finished() override;
  void resync_waits() override;
  void resync_failed(const std::string& why) override;
  // ResyncTarget::Owner
  void target_filled() override;
  void peer_writes() override;
  void target_marked() override;
  void target_whole() override;
  void target_holds_sole_copy() override;
  // StandIn::Owner
  void stand_in_recorded() override;

  void enter(Phase phase);
  void doubt_equal();
  void begin_diskless(const SyncFacts& peer);
  void record_session(Verdict verdict);
  void begin_resync(Verdict verdict, const SyncFacts& peer);
  void begin_same(Verdict verdict, const SyncFacts& peer);
  // `flushed`: this node's disk, for another replica than before.
  void begin_copy(Verdict verdict, const SyncFacts& peer, bool flushed = false);
  void flush_for_resync(std::function<void()> then);
  void leave_to_peer();
  void ask_to_be_copied_back();
  void look_for_sole_copy();
  // Makes the record durable, and goes on if the session still stands.
  void persist_for_resync(std::function<void()> then);

  Core& core_;
  const Parts parts_;
  Owner& owner_;
  LocalFlush local_flush_;
  ResyncLog log_;
  ResyncSource source_;
  ResyncTarget target_;
  StandIn stand_in_;
  Company company_;
  const std::unique_ptr<Timer> away_timer_;
  uint64_t took_part_ns_ = 0;  // when a session was lost in which the peer took part; 0: never
  struct WaitingCopy {
    Verdict verdict;
    SyncFacts peer;
  };
  std::optional<WaitingCopy> waiting_copy_;  // for the witness; of this session
  bool target_is_believed_ = true;  // what the target reads is what its disk holds
};

}  // namespace twinblock
