// The side that is brought up to date: what the source makes it record, its own set of blocks that
// may differ, and the data, which it takes when what must be durable before is. Owned by PeerSync;
// loop thread only.
//
//   session_up ─▶ the set is told ─▶ a copy of what is here is taken (WayBack) ─▶ "half-copied" is recorded ─▶ data ─▶ "whole" is recorded
//
// A source with nothing to send makes it record "whole" at once.
#pragma once

#include <optional>
#include <vector>

#include "volume/asked_record.h"
#include "volume/core.h"
#include "volume/disk_health.h"
#include "volume/first_record.h"
#include "volume/fresh_look.h"
#include "volume/own_facts.h"
#include "volume/own_set.h"
#include "volume/replica.h"
#include "volume/resync_log.h"
#include "volume/roles.h"
#include "volume/simplex_gate.h"
#include "volume/way_back.h"

namespace twinblock {

class ResyncTarget {
 public:
  class Owner {
   public:
    // It has its record of this session.
    virtual void peer_writes() = 0;
    // This node is about to be recorded as half-copied from it: so has it, too.
    virtual void target_marked() = 0;
    // All is here, and about to be recorded.
    virtual void target_filled() = 0;
    // … and is on record.
    virtual void target_whole() = 0;
    // The peer's disk failed: it goes on with this replica.
    virtual void target_holds_sole_copy() = 0;

   protected:
    ~Owner() = default;
  };
  // The engine's.
  struct Parts {
    SimplexGate& gate;
    DiskHealth& disks;
    Replica& replica;
    AskedRecord& asked;
    Roles& roles;
    FirstRecord& first_record;
    const OwnFacts& facts;
    WayBack& way_back;
    uint64_t own_set_bytes_max;  // that the peer has not confirmed yet
  };

  ResyncTarget(Core& core, const Parts& parts, ResyncLog& log, Owner& owner);

  void session_up();
  // This node is to be brought up to date; `tells`: it tells first what it may hold that the source
  // does not, or lost.
  void begin(bool tells);
  void session_lost();

  // kData, kFlush, kRead or kDigest of the peer.
  void heard_data(wire::Frame& frame, uint64_t incarnation);
  void heard_generation(wire::Frame& frame);
  void heard_progress(const wire::ProgressFrame& told) {
    progress_.update(told.done_bytes, told.total_bytes, core_.clock.now_ns());
  }
  // A question of the peer that has to wait until something else is on record: kept until then.
  [[nodiscard]] bool hold_until_recorded(wire::Frame& frame);
  // What must be durable before data is taken is so.
  void take_data();
  // The peer has taken some of what was sent.
  void control_confirmed() { own_set_.go_on(); }

  void connection_gone(uint64_t incarnation);
  [[nodiscard]] const Progress& progress() const { return progress_; }

 private:
  // Data that has overtaken, over another link, the generation that makes this node take it.
  struct EarlyFrame {
    wire::Frame frame;
    uint64_t incarnation;
  };

  [[nodiscard]] bool may_receive() const;
  [[nodiscard]] bool hold_early(wire::Frame& frame, uint64_t incarnation);
  [[nodiscard]] bool waits_for_copy(const wire::Frame& frame, const wire::GenerationPayload& payload);
  [[nodiscard]] uint64_t to_get_bytes() const;
  [[nodiscard]] bool takes_over(const wire::GenerationPayload& payload);
  void join(const metadata::Uuid& volume, const metadata::Generations& told);
  void become_half_copied(const metadata::Generations& told);
  void become_whole(const metadata::Generations& told);
  [[nodiscard]] uint32_t why_not_stand_in(const wire::GenerationPayload& payload) const;
  void hold_sole_copy(const metadata::Generations& told);
  void record(uint64_t request, uint32_t flags);
  void acknowledge(uint64_t request, uint32_t flags, int error);

  Core& core_;
  const Parts parts_;
  ResyncLog& log_;
  Owner& owner_;
  FreshLook fresh_look_;
  OwnSet own_set_;  // on its way to the source, between begin() and the mark
  Progress progress_;
  bool takes_data_ = false;
  bool joining_ = false;  // the metadata is to be created with the next record
  std::vector<EarlyFrame> early_;
  uint64_t early_bytes_ = 0;
};

}  // namespace twinblock
