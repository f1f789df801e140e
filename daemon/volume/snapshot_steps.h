// The steps of a snapshot on this node: its disk is flushed, and its backing is copied, one step at a time.
// Who orders them: Snapshots, and for the peer PeerSnapshot. Owned by the engine; loop thread only.
#pragma once

#include <functional>
#include <string>

#include "io/copies.h"
#include "volume/core.h"
#include "volume/disk_health.h"
#include "volume/local_flush.h"
#include "volume/roles.h"
#include "wire/frames.h"

namespace twinblock {

class SnapshotSteps {
 public:
  // Not from within begin(). An error says what to do.
  using Done = std::function<void(Status)>;

  // `copies`: null where none can be taken.
  SnapshotSteps(Core& core, DiskHealth& disks, const Roles& roles, Copies* copies)
      : core_(core), disks_(disks), roles_(roles), copies_(copies), flush_(core.data) {}

  // What keeps this node from taking part.
  [[nodiscard]] std::optional<Error> why_not() const;
  void begin(wire::SnapshotStep step, const std::string& name, Done done);
  [[nodiscard]] bool under_way() const { return under_way_; }
  // Where the copy is, or what was run for it.
  [[nodiscard]] std::string place(const std::string& name) const;

 private:
  void flush(Done done);
  [[nodiscard]] Error may_be_left(Error error, const std::string& name) const;

  Core& core_;
  DiskHealth& disks_;
  const Roles& roles_;
  Copies* const copies_;
  LocalFlush flush_;
  bool under_way_ = false;
};

}  // namespace twinblock
