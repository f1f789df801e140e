#include "volume/disk_watch.h"

#include <algorithm>
#include <utility>

#include "base/limits.h"

namespace twinblock {

void DiskWatch::look() {
  const uint64_t now = core_.clock.now_ns();
  const uint64_t since = disk_.under_way().look(now).value_or(0);
  const bool the_same = std::exchange(waits_since_ns_, since) == since;
  if (!the_same) answers_ = 0;
  // Once it stands still, it does so until that request is back, whatever the device does for others meanwhile; and until
  // what it was asked after that one is, too, of which nobody knows for how long it has waited.
  const bool over = since == 0 || (!the_same && std::exchange(first_is_back_, true));
  if (stalled_since_ns_ != 0 && over) stalled_since_ns_ = 0;
  const uint64_t waited_ns = since == 0 ? 0 : core_.lateness().passed_ns(since, now);
  if (stalled_since_ns_ == 0 && stands_still(waited_ns, now)) {
    stalled_since_ns_ = since;
    first_is_back_ = false;
  }
  stalled_ns_ = stalled_since_ns_ == 0 ? 0 : core_.lateness().passed_ns(stalled_since_ns_, now);
  if (waited_ns >= limits::kDiskLook_ns && !asking_) ask_device();
}

bool DiskWatch::stands_still(uint64_t waited_ns, uint64_t now_ns) const {
  const uint64_t timeout_ns = core_.config.disk_timeout_ns;
  if (waited_ns > limits::kDiskPatience * timeout_ns) return true;
  if (answers_ < 2) return false;  // the first one says nothing by itself
  const uint64_t patience_ns = device_work_before_ == 0 ? limits::kBlindFlushPatience * timeout_ns : timeout_ns;
  return core_.lateness().passed_ns(std::max(waits_since_ns_, worked_ns_), now_ns) > patience_ns;
}

void DiskWatch::ask_device() {
  asking_ = true;
  core_.workers.run([this] { device_work_ = disk_.device_work(); }, [this] { device_seen(); });
}

void DiskWatch::device_seen() {
  asking_ = false;
  const uint64_t before = std::exchange(device_work_before_, device_work_);
  if (++answers_ > 1 && device_work_ != before) worked_ns_ = core_.clock.now_ns();
}

}  // namespace twinblock
