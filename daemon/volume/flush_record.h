// Whether a flush of the local disk takes long: that goes on record, since only this process would be told of its failure.
// Owned by DiskHealth; loop thread only.
#pragma once

#include <functional>

#include "volume/core.h"

namespace twinblock {

class DiskHealth;

class FlushRecord {
 public:
  // `disks` outlives it.
  FlushRecord(Core& core, const DiskHealth& disks) : core_(core), disks_(disks) {}

  // From time to time.
  void look();
  // This process stops: the record is to say that none does. `recorded` when it does on the disk, or can't be written: once,
  // at once where there is nothing to wait for, and not before a flush that takes long has ended.
  void end(std::function<void()> recorded);

 private:
  void put(bool flushing);
  void end_if_recorded();

  Core& core_;
  const DiskHealth& disks_;
  int under_way_ = 0;  // records that were asked for, and are not on the disk yet
  std::function<void()> ended_;
};

}  // namespace twinblock
