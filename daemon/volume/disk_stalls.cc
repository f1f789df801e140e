#include "volume/disk_stalls.h"

#include <utility>

#include "base/units.h"
#include "volume/disk_health.h"

namespace twinblock {

bool DiskStalls::look() {
  data_.look();
  metadata_.look();
  const bool stalled = data_told_ || metadata_told_;
  const NodeConfig& node = core_.config.node(core_.node);
  tell(data_stalled_ns(), disks_.local_ok(), data_told_, "data", node.backing);
  tell(metadata_stalled_ns(), disks_.metadata_error() == 0, metadata_told_, "metadata", node.metadata);
  return stalled;
}

uint64_t DiskStalls::stalled_ns() const {
  return data_stalled_ns() > 0 ? data_stalled_ns() : metadata_stalled_ns();
}

const std::string& DiskStalls::file() const {
  const NodeConfig& node = core_.config.node(core_.node);
  return data_stalled_ns() > 0 ? node.backing : node.metadata;
}

uint64_t DiskStalls::data_stalled_ns() const { return disks_.local_ok() ? data_.stalled_ns() : 0; }

uint64_t DiskStalls::metadata_stalled_ns() const { return disks_.metadata_error() != 0 ? 0 : metadata_.stalled_ns(); }

void DiskStalls::tell(uint64_t stalled_ns, bool well, bool& told, const char* disk, const std::string& file) {
  const bool stalls = stalled_ns > 0;
  if (std::exchange(told, stalls) == stalls || !well) return;  // that it failed was told
  if (!stalls) {
    core_.log.log(Severity::kInfo, std::string("the ") + disk + " disk gets on again");
    core_.events().tell("disk-mended", {{"node", core_.node}, {"disk", disk}});
    return;
  }
  const std::string what = std::string("the ") + disk + " disk stands still: a request to " + file + " has waited for " +
                           format_duration(stalled_ns);
  core_.log.log(Severity::kError, what + "; `twinblock status` says what to do");
  core_.events().tell("disk-stalled", {{"node", core_.node}, {"disk", disk}, {"reason", what}});
}

}  // namespace twinblock
