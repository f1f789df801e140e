// Parks one thread until another one has finished what it waits for: a futex, used once. The
// standard library's atomic wait does the same, but yields the processor several times before it
// sleeps, which on two busy cores cost three system calls for each write.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

namespace twinblock {

class Parking {
 public:
  // Once, by whoever finishes the work. The parked thread may end this object's life before the
  // call returns: a wake for an address that nobody waits on any more does nothing.
  void unpark() {
    if (state_.exchange(kDone, std::memory_order_acq_rel) == kParked)
      syscall(SYS_futex, &state_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
  }
  // Whether park() would return at once.
  [[nodiscard]] bool done() const { return state_.load(std::memory_order_acquire) == kDone; }
  // Once, by the owner.
  void park() {
    uint32_t expected = kRunning;
    if (!state_.compare_exchange_strong(expected, kParked, std::memory_order_acq_rel)) return;
    while (state_.load(std::memory_order_acquire) == kParked)
      syscall(SYS_futex, &state_, FUTEX_WAIT_PRIVATE, kParked, nullptr, nullptr, 0);
  }

 private:
  static constexpr uint32_t kRunning = 0;
  static constexpr uint32_t kParked = 1;
  static constexpr uint32_t kDone = 2;

  std::atomic<uint32_t> state_{kRunning};
  static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t));
};

}  // namespace twinblock
