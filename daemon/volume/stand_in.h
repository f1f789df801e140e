// The peer's replica stands in for this node's, whose disk failed: what has to be on record before anything is
// acknowledged that only the peer has. Owned by PeerSync; loop thread only.
//
//   begin ─▶ this node records that its replica is stale, or its metadata disk proves to have failed, too
//         ─▶ the peer records that it holds the only copy, in a generation of its own (unless it has already)
//         ─▶ the witness names that generation: waited for only where this node's own record does not say it
//         ─▶ stand_in_recorded()
//
// The first is of a process, and the others are of a session. A process takes the first back where the session ends and
// it is sure that the peer has the second not on record: it was never told, or said no, or says of itself that it is in
// the generation of before. Nothing was acknowledged meanwhile that this replica lacks, and nobody else may hold that.
// Where the peer was told, and said neither yes nor no, the mark stays until it has said what it is.
#pragma once

#include <cstdint>
#include <memory>

#include "volume/consent.h"
#include "volume/core.h"
#include "volume/disk_health.h"

namespace twinblock {

class StandIn final : private PeerRequest {
 public:
  class Owner {
   public:
    // All of that is so, and the session still stands.
    virtual void stand_in_recorded() = 0;

   protected:
    ~Owner() = default;
  };

  StandIn(Core& core, DiskHealth& disks, Consent& consent, Owner& owner);

  // In a phase in which the peer is whole and this node has no disk. `generation`: in which the peer holds the
  // only copy by its own record, as it said in this session; 0: it knows of nothing yet.
  void begin(uint64_t generation);
  void session_lost();
  // That this node's replica is stale is durable.
  [[nodiscard]] bool marked() const { return mark_ == Mark::kDurable; }

 private:
  // That this replica is stale, on this node's record.
  enum class Mark : uint8_t { kNone, kAsked, kDurable, kFailed, kTakenBack };
  // Whether the peer has it on record that it stands in.
  enum class PeerRecord : uint8_t { kNone, kPerhaps, kHas };

  // PeerRequest: the peer knows itself as the only good copy.
  void answered(const PeerAnswer& answer) override;

  void mark();
  void record_mark(Mark mark);
  void take_mark_back();
  void look();
  void mark_answered(int error);
  void mark_overdue();
  void mark_settled();
  void tell_peer();
  void name_to_witness();

  Core& core_;
  DiskHealth& disks_;
  Consent& consent_;
  Owner& owner_;
  Mark mark_ = Mark::kNone;
  uint64_t mark_records_ = 0;  // that were asked for: the last one's answer counts
  uint64_t mark_asked_ns_ = 0;
  const std::unique_ptr<Timer> mark_timer_;
  uint64_t told_ = 0;      // the generation in which the peer was told that it holds the only copy …
  uint64_t recorded_ = 0;  // … and has it on record, as it said in this session; 0: not yet
  bool awaits_answer_ = false;  // the peer's, in this session
  PeerRecord peer_record_ = PeerRecord::kNone;
  uint64_t lost_ns_ = 0;  // when the last session was
  const std::unique_ptr<Timer> look_timer_;
};

}  // namespace twinblock
