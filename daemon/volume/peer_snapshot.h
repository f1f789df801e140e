// This node's part of a snapshot that was ordered at the peer: the steps that the peer asks for, and their
// answers. Who ordered it owns it, until it falls silent: when the session is lost, or nothing is heard for the
// file's time limit (after the flush: for as long as the other node may flush; a little longer when it was kept),
// what was taken and not kept is dropped here. Owned by Snapshots; loop thread only.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "volume/core.h"
#include "volume/snapshot_steps.h"
#include "wire/frames.h"

namespace twinblock {

class PeerSnapshot {
 public:
  PeerSnapshot(Core& core, SnapshotSteps& steps);

  // `refused`: why none may begin here, beside what is wrong with the node itself.
  void heard(const wire::SnapshotFrame& frame, const std::string& name, const std::optional<Error>& refused);
  void session_lost();
  // There is one, which whoever ordered it may yet have dropped.
  [[nodiscard]] bool may_be_dropped() const { return part_.has_value(); }
  // … of which the end is not known here yet.
  [[nodiscard]] bool under_way() const { return part_ && (part_->under_way || (part_->taken && !part_->kept)); }

 private:
  struct Part {
    std::string name;
    wire::SnapshotStep step;   // that was asked last
    uint64_t number;
    bool under_way = true;     // it, or one before it
    bool taken = false;        // there is a copy, …
    bool kept = false;         // … which has its name, and whoever ordered it was told so
    bool abandoned = false;    // nobody wants it any more: it is dropped as soon as nothing is under way
    std::optional<Error> error = {};  // how the step ended
  };

  [[nodiscard]] Error given_up() const;
  [[nodiscard]] std::optional<Error> why_not(const wire::SnapshotFrame& frame, const std::string& name) const;
  void begin(wire::SnapshotStep step);
  void ended(wire::SnapshotStep step, const Status& status);
  [[nodiscard]] uint64_t patience_ns() const;
  void answer_late();
  void answer_ended();
  void forget();
  void abandon(const std::string& why);
  void at_silence();

  Core& core_;
  SnapshotSteps& steps_;
  std::optional<Part> part_;
  std::optional<uint64_t> asks_;  // a request that waits for the step's end
  std::unique_ptr<Timer> late_;
  std::unique_ptr<Timer> silence_;
};

}  // namespace twinblock
