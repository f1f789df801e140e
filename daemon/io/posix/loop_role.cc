#include "io/posix/loop_role.h"

#include <chrono>

#include "base/checks.h"
#include "io/posix/monotonic.h"

namespace twinblock {

bool LoopRole::may_block(uint64_t now_ns) const {
  return stuck_.load(std::memory_order_acquire) == 0 && now_ns >= resume_ns_;
}

uint64_t LoopRole::begin_blocking(uint64_t now_ns) {
  const uint64_t section = word_.load(std::memory_order_relaxed) + 1;
  TB_CHECK(section % 2 == 1, "a blocking section within another");
  section_began_ns_.store(now_ns, std::memory_order_relaxed);
  // Sequentially consistent with park(): either we see that it parks, or it sees this section.
  word_.store(section, std::memory_order_seq_cst);
  if (parked_.load(std::memory_order_seq_cst)) {
    const std::lock_guard lock(mutex_);
    parked_.store(false, std::memory_order_relaxed);
    called_.notify_one();
  }
  return section;
}

bool LoopRole::end_blocking(uint64_t section, uint64_t now_ns) {
  const uint64_t began_ns = section_began_ns_.load(std::memory_order_relaxed);
  uint64_t expected = section;
  if (!word_.compare_exchange_strong(expected, section + 1, std::memory_order_acq_rel))
    return false;
  if (now_ns > began_ns + kSlowSection_ns) resume_ns_ = now_ns + kCoolOff_ns;
  return true;
}

bool LoopRole::take_over(uint64_t seen) {
  const uint64_t now_ns = monotonic_ns();
  const uint64_t began_ns = section_began_ns_.load(std::memory_order_relaxed);
  if (now_ns < began_ns + kTakeoverAfter_ns) return false;
  if (!word_.compare_exchange_strong(seen, seen + 1, std::memory_order_acq_rel)) return false;
  stuck_.fetch_add(1, std::memory_order_acq_rel);
  takeovers_.fetch_add(1, std::memory_order_relaxed);
  resume_ns_ = now_ns + kCoolOff_ns;
  return true;
}

bool LoopRole::stand_by() {
  uint64_t before = word_.load(std::memory_order_acquire);
  uint64_t idle_ns = 0;
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      called_.wait_for(lock, std::chrono::nanoseconds(kLookInterval_ns),
                       [this] { return stopped_.load(std::memory_order_relaxed); });
      if (stopped_.load(std::memory_order_relaxed)) return false;
    }
    const uint64_t seen = word_.load(std::memory_order_acquire);
    if (seen % 2 == 1 && take_over(seen)) return true;
    idle_ns = seen == before && seen % 2 == 0 ? idle_ns + kLookInterval_ns : 0;
    before = seen;
    if (idle_ns >= kParkAfter_ns) {
      park(seen);
      idle_ns = 0;
    }
  }
}

void LoopRole::park(uint64_t seen) {
  std::unique_lock lock(mutex_);
  parked_.store(true, std::memory_order_seq_cst);
  if (word_.load(std::memory_order_seq_cst) == seen)
    called_.wait(lock, [this] {
      return stopped_.load(std::memory_order_relaxed) || !parked_.load(std::memory_order_relaxed);
    });
  parked_.store(false, std::memory_order_relaxed);
}

void LoopRole::stop() {
  const std::lock_guard lock(mutex_);
  stopped_.store(true, std::memory_order_relaxed);
  called_.notify_all();
}

}  // namespace twinblock
