// The clocks of the kernel, read through the vdso. Any thread.
#pragma once

#include <time.h>

#include <cstdint>

#include "base/units.h"

namespace twinblock {

inline uint64_t clock_ns(clockid_t id) {
  timespec now{};
  clock_gettime(id, &now);
  return static_cast<uint64_t>(now.tv_sec) * kSecond_ns + static_cast<uint64_t>(now.tv_nsec);
}
// Goes on while the host is suspended, as the peer does: what a node may count on for some time (its peer's last answer,
// a lease) is over when it wakes up.
inline uint64_t monotonic_ns() { return clock_ns(CLOCK_BOOTTIME); }

}  // namespace twinblock
