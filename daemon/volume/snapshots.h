// Copies of both nodes' backings that are equal byte by byte, under load. The order is the operator's, on the
// node that writes, or on either where none does. Each step is done by both at the same time:
//
//   1. flush: what was written is made stable, and a reflink is taken, which the one in 3. renews: so that has
//      little left to do. Nobody waits for that;
//   2. writes are held (WriteHold): those under way end on both nodes, the next ones wait;
//   3. take: each takes its copy. When both have, and whatever else happens, writes go on;
//   4. keep: the copies are made durable and get their name; or, where anything failed, both are dropped.
//
// Who ordered it owns the hold: it ends with the take on both nodes, with the first failure, with the session,
// and after the file's time limit ([copies], timeout) at the latest, in one place (let_go_on()). Meanwhile
// neither node is promoted, grows, or is repaired (Stance::taking_snapshot()), so that clients are the only ones
// who write. Reads go on.
//
// Owned by the engine; loop thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "session/peer_requests.h"
#include "volume/core.h"
#include "volume/peer_snapshot.h"
#include "volume/snapshot_steps.h"
#include "volume/verifier.h"
#include "volume/write_path.h"
#include "wire/frames.h"

namespace twinblock {

class Snapshots final : private PeerRequest, private WriteHold {
 public:
  // One that both nodes have.
  struct Taken {
    std::string name;
    uint64_t at_ns = 0;  // since 1970, when the copies were taken
    uint64_t pause_ns = 0;  // for so long writes waited
    std::string here, there;  // where the copies are
    std::string said;  // all that, in a sentence for the operator
  };
  // Or an error with an action.
  using Reply = std::function<void(Result<Taken>)>;

  // `copies`: null where none can be taken.
  Snapshots(Core& core, WritePath& writes, const Verifier& verifier, DiskHealth& disks, const Roles& roles,
            Copies* copies);

  // The operator's order, here. It is answered when the copies have their names, or at the first failure.
  void order(const std::string& name, Reply reply);
  // The peer's; answered.
  void heard(const wire::SnapshotFrame& frame, std::span<const std::byte> name);
  void session_lost();
  // It may never answer, and the peer stands in: what clients are asked to wait for won't come.
  void disk_left();

 private:
  struct Run {
    std::string name;
    Reply reply;
    wire::SnapshotStep step = wire::SnapshotStep::kFlush;
    bool here = false;   // the step is under way here …
    bool there = false;  // … and at the peer
    bool draining = false;  // writes are held, and some are still under way
    bool taken_here = false;   // there is a copy …
    bool asked_there = false;  // … or may be
    bool failed = false;       // and told; what there is, is dropped
    int flushes = 0;
    uint64_t step_since_ns = 0;
    std::optional<uint64_t> held_since_ns = {};
    Taken taken = {};
  };

  // PeerRequest
  void answered(const PeerAnswer& answer) override;
  // WriteHold
  void drained() override;
  void hold_denied() override;

  [[nodiscard]] Session& session() const { return core_.session; }
  [[nodiscard]] std::optional<Error> why_not_order(const std::string& name) const;
  void begin(wire::SnapshotStep step);
  void ask();
  void ended_here(const Status& status);
  void next();
  void flushed();
  void hold();
  [[nodiscard]] uint64_t hold_limit_ns() const;
  void let_go_on();
  void late();
  void fail_for_a_disk();
  void fail(Error error);
  void clean_up();
  void kept();

  Core& core_;
  WritePath& writes_;
  const Verifier& verifier_;
  const Roles& roles_;
  SnapshotSteps steps_;
  PeerSnapshot part_;  // of one that was ordered at the peer
  std::optional<Run> run_;
  std::string asked_name_;  // in frames: stays until they are answered
  uint64_t number_ = 0;     // of the step that the peer was asked last
  std::unique_ptr<Timer> deadline_;
};

}  // namespace twinblock
