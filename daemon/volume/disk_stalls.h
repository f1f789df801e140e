// Whether one of this node's disks stands still (DiskWatch), and what was told of it. Owned by DiskHealth; loop thread only.
#pragma once

#include <cstdint>
#include <string>

#include "volume/core.h"
#include "volume/disk_watch.h"

namespace twinblock {

class DiskHealth;

class DiskStalls {
 public:
  // `disks` outlives it.
  DiskStalls(Core& core, const DiskHealth& disks, const Disk& metadata)
      : core_(core), disks_(disks), data_(core, core.data), metadata_(core, metadata) {}

  // From time to time. Whether one stood still until now.
  [[nodiscard]] bool look();
  // For how long a local disk has not answered a request, where it stands still (disk_watch.h); else 0. …
  [[nodiscard]] uint64_t stalled_ns() const;
  // … Its file. If both do, it is the data.
  [[nodiscard]] const std::string& file() const;

 private:
  // Nobody waits for one that was given up, but who had asked it before.
  [[nodiscard]] uint64_t data_stalled_ns() const;
  [[nodiscard]] uint64_t metadata_stalled_ns() const;
  void tell(uint64_t stalled_ns, bool well, bool& told, const char* disk, const std::string& file);

  Core& core_;
  const DiskHealth& disks_;
  DiskWatch data_, metadata_;
  bool data_told_ = false, metadata_told_ = false;
};

}  // namespace twinblock
