// How the two nodes come to hold the same, and stay so: what follows from the handshake's verdict,
// the phases of the session (mirror/phase.h), both sides of a resync, and what the node notes of its
// peer before it relies on it. Owned by the engine; loop thread only.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "volume/consent.h"
#include "volume/core.h"
#include "volume/local_flush.h"
#include "volume/own_facts.h"
#include "volume/resync_log.h"
#include "volume/resync_source.h"
#include "volume/resync_target.h"
#include "volume/verifier.h"

namespace twinblock {

class PeerSync final : private ResyncSource::Owner,
                       private ResyncTarget::Owner,
                       private PeerRequest {
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
  };

  PeerSync(Core& core, const Parts& parts, Owner& owner);

  // The session stands on a verdict that is usable.
  void session_up(Verdict verdict, const SyncFacts& peer);
  void session_lost();
  // Everything is to be sent to another replica than before, as soon as the witness agrees to a generation
  // for it (AloneRight::take_in_another()).
  [[nodiscard]] bool waits_for_witness() const { return waiting_copy_.has_value(); }
  void right_changed();

  // The node's role is about to change, or has (RolesOwner).
  void became_primary();
  void became_secondary();
  // Puts into the record whom this node takes along in what it writes from now on (RolesOwner).
  void note_company();
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
  // The peer's process, and the boot of its host; 0: there is none.
  struct PeerProcess {
    uint64_t instance = 0, boot = 0;
    bool operator==(const PeerProcess&) const = default;
  };

  // PeerRequest: the peer knows itself as the only good copy.
  void answered(const PeerAnswer& answer) override;
  // ResyncSource::Owner
  void resync_target_marked() override;
  void resync_copied() override;
  void resync_finished() override;
  void resync_failed(const std::string& why) override;
  // ResyncTarget::Owner
  void target_filled() override { enter(Phase::kFilled); }
  void target_whole() override;
  void target_holds_sole_copy() override;

  void enter(Phase phase);
  void begin_equal();
  void begin_diskless(const SyncFacts& peer);
  void record_session(Verdict verdict);
  void begin_resync(Verdict verdict, const SyncFacts& peer);
  void begin_same(Verdict verdict, const SyncFacts& peer);
  void begin_copy(Verdict verdict, const SyncFacts& peer);
  // What stands for the replica for which a generation has to begin; nothing: none has to.
  [[nodiscard]] std::optional<uint64_t> another_replica(const SyncFacts& target) const;
  void begin_generation_for(uint64_t replica);
  void flush_for_resync(std::function<void()> then);
  void note_peer_process();
  [[nodiscard]] bool same_as(Verdict verdict, const SyncFacts& peer) const;
  void leave_to_peer();
  void mark_stale();
  void mark_answered(int error);
  void mark_overdue();
  void mark_settled();
  void tell_sole_copy();
  void name_sole_copy();
  void go_on_with_peer();
  void whole_again();
  void ask_to_be_copied_back();
  // Makes the record durable, and goes on if the session still stands.
  void persist_for_resync(std::function<void()> then);

  Core& core_;
  const Parts parts_;
  Owner& owner_;
  LocalFlush local_flush_;
  ResyncLog log_;
  ResyncSource source_;
  ResyncTarget target_;
  PeerProcess peer_process_;                  // of this session
  std::optional<PeerProcess> durably_noted_;  // by this process, on record
  struct WaitingCopy {
    Verdict verdict;
    SyncFacts peer;
  };
  std::optional<WaitingCopy> waiting_copy_;  // for the witness; of this session
  bool target_is_believed_ = true;  // what the target reads is what its disk holds
  // That this replica is stale is on this node's record, which this process does not take back.
  enum class StaleMark : uint8_t { kNone, kAsked, kDurable, kFailed };
  StaleMark mark_ = StaleMark::kNone;
  uint64_t mark_asked_ns_ = 0;
  const std::unique_ptr<Timer> mark_timer_;
  uint64_t told_copy_ = 0;  // the generation in which the peer was told that it holds the only copy …
  uint64_t sole_copy_ = 0;  // … and has it on record, as it said in this session; 0: not yet
};

}  // namespace twinblock
