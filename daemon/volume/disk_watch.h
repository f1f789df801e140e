// Whether one of this node's own disks gets on with what it is asked, by clients, by the peer or by the node itself. A
// request that is neither carried out nor failed is waited for without an end: until then its memory is the kernel's
// (docs/when-what-fails.md, "A disk that hangs"). So it is told at least. As with a peer's disk (PROTOCOL.md, "in
// time"), it stands still where the oldest request has waited for disk_timeout and the device has done nothing in that
// time, or where it has waited for kDiskPatience times as long. It gets on when all that it was asked until then is back: a
// device may lose one request, or fail it late, and carry out another.
//
// Owned by DiskStalls; loop thread only.
#pragma once

#include <cstdint>

#include "volume/core.h"

namespace twinblock {

class DiskWatch {
 public:
  DiskWatch(Core& core, const Disk& disk) : core_(core), disk_(disk) {}

  // To be called now and then.
  void look();
  // For how long it has stood still, if it does; else 0.
  [[nodiscard]] uint64_t stalled_ns() const { return stalled_ns_; }

 private:
  [[nodiscard]] bool stands_still(uint64_t waited_ns, uint64_t now_ns) const;
  void ask_device();
  void device_seen();

  Core& core_;
  const Disk& disk_;
  uint64_t waits_since_ns_ = 0;  // the oldest request; 0: none, or none that is older than a look
  uint64_t stalled_since_ns_ = 0;  // 0: it does not stand still
  uint64_t stalled_ns_ = 0;
  bool first_is_back_ = false;  // what it stood still with
  bool asking_ = false;       // the device is being looked at
  uint64_t answers_ = 0;      // about it, while that request waits
  uint64_t device_work_ = 0;  // by the last look; written by a worker while `asking_`
  uint64_t device_work_before_ = 0;
  uint64_t worked_ns_ = 0;    // when the device was last seen to have done anything
};

}  // namespace twinblock
