// How a primary becomes secondary: what it holds is made durable, and so is what the peer misses of
// it, by the block where that is known; then its record says that it is secondary.
//
//   begin ─▶ the verifier ends ─▶ flush ─▶ snapshot (without a peer) ─▶ record ─▶ done
//
// Owned by Roles; loop thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "metadata/snapshot.h"
#include "volume/core.h"
#include "volume/disk_health.h"
#include "volume/flush_group.h"
#include "volume/slow_reads.h"
#include "volume/verifier.h"
#include "volume/write_path.h"

namespace twinblock {

class Demotion {
 public:
  // A sentence for the operator, or an error with an action: then this node is primary still.
  using Done = std::function<void(Result<std::string>)>;
  struct Parts {
    WritePath& writes;
    SlowReads& reads;
    FlushGroup& flushes;
    Verifier& verifier;
    Disk& metadata;
    DiskHealth& disks;
  };

  Demotion(Core& core, const Parts& parts);

  // The node takes no requests any more. Not while one is under way.
  // `for_good`: the next process does not go on as primary either.
  void begin(bool for_good, Done done);
  // A session has begun or ended.
  void session_changed() { snapshot_is_current_ = false; }

 private:
  void flush();
  [[nodiscard]] Error flush_error(int error) const;
  void flushed(int error);
  void write_snapshot();
  void record();
  void end(Result<std::string> result);

  Core& core_;
  const Parts parts_;
  metadata::SnapshotWriter snapshot_;
  bool for_good_ = true;
  bool snapshot_is_current_ = false;  // the one being written: the set is still the same
  Done done_;
  std::unique_ptr<Timer> timer_;
};

}  // namespace twinblock
