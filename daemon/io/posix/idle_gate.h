// Lets another thread do a little of the loop's work while the loop waits for events: the guest has
// the loop's state to itself until it leaves, and the loop does not go on before that. One word
// decides, and carries the happens-before for everything that belongs to the loop.
#pragma once

#include <atomic>
#include <cstdint>

namespace twinblock {

class IdleGate {
 public:
  // The loop: right before and right after it waits for events.
  void begin_wait() { state_.store(kIdle, std::memory_order_release); }
  void end_wait() {
    for (;;) {
      uint32_t seen = kIdle;
      if (state_.compare_exchange_strong(seen, kBusy, std::memory_order_acquire)) return;
      // A guest is in; guests do not block, so this is short.
      if (seen == kGuest &&
          !state_.compare_exchange_strong(seen, kGuestAwaited, std::memory_order_relaxed))
        continue;
      state_.wait(kGuestAwaited, std::memory_order_relaxed);
    }
  }

  // Any other thread: whether it is the guest now. If so, it must leave, without blocking before.
  [[nodiscard]] bool try_enter() {
    uint32_t seen = kIdle;
    return state_.compare_exchange_strong(seen, kGuest, std::memory_order_acquire,
                                          std::memory_order_relaxed);
  }
  void leave() {
    if (state_.exchange(kIdle, std::memory_order_release) == kGuestAwaited) state_.notify_one();
  }

 private:
  static constexpr uint32_t kBusy = 0;          // the loop runs
  static constexpr uint32_t kIdle = 1;          // the loop waits for events
  static constexpr uint32_t kGuest = 2;         // … and a guest is in
  static constexpr uint32_t kGuestAwaited = 3;  // … which the loop waits for

  std::atomic<uint32_t> state_{kBusy};
};

}  // namespace twinblock
