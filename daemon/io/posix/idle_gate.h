// Who may touch what belongs to the loop, besides the thread that runs it: while that waits for
// events, a guest does a little of its work, and the loop does not go on before it has left; while
// nobody runs the loop, whoever takes it runs it. One word decides, and carries the happens-before
// for everything that belongs to the loop.
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

  // Who runs the loop: nobody does from now on. Sequentially consistent with free().
  void set_free() { state_.store(kFree, std::memory_order_seq_cst); }
  // Any thread: whether nobody ran the loop; the caller runs it now.
  [[nodiscard]] bool try_take() {
    uint32_t seen = kFree;
    return state_.compare_exchange_strong(seen, kBusy, std::memory_order_acquire,
                                          std::memory_order_relaxed);
  }
  [[nodiscard]] bool free() const { return state_.load(std::memory_order_seq_cst) == kFree; }

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
  static constexpr uint32_t kFree = 4;          // nobody runs the loop

  std::atomic<uint32_t> state_{kBusy};
};

}  // namespace twinblock
