#include "volume/flush_record.h"

#include <utility>

#include "base/limits.h"
#include "volume/disk_health.h"

namespace twinblock {

void FlushRecord::look() {
  const uint64_t since_ns = core_.data.flushing_since_ns();
  put(since_ns != 0 && core_.clock.now_ns() - since_ns >= limits::kFlushOnRecord_ns);
  end_if_recorded();
}

void FlushRecord::end(std::function<void()> recorded) {
  ended_ = std::move(recorded);
  look();
}

// What a disk has that was given up is nobody's any more, and may never end.
void FlushRecord::end_if_recorded() {
  const bool awaited = core_.record().flushing && disks_.local_ok() && disks_.metadata_error() == 0;
  if (ended_ && under_way_ == 0 && !awaited) std::exchange(ended_, nullptr)();
}

void FlushRecord::put(bool flushing) {
  if (core_.record().flushing == flushing || core_.state().blank()) return;
  core_.state().set_flushing(flushing);
  ++under_way_;
  core_.state().persist([this](int) {
    --under_way_;
    end_if_recorded();
  });
}

}  // namespace twinblock
