// Who has the loop's state just now: one word, which also carries the happens-before for all of it.
// Every change of hands is in the table below, and each function here is checked against it when it
// is compiled.
//
//   owner          who may touch    a lone caller           what is handed over by wake(),
//                  the loop's state (Loop::run_for())       nudge() or post() is seen
//   kRunner        its runner       does wake() instead     by the turn that it runs, or the next
//   kWaiting       nobody           enters as the guest     when the wait is interrupted
//   kGuest         the guest        does wake() instead     when the wait is interrupted
//   kGuestAwaited  the guest        does wake() instead     by the turn that begins when it leaves
//   kNobody        nobody           becomes the runner      when the leader is called back
//
// The runner is the leader (loop_role.h), or the lone caller that has taken the loop while the
// leader stands aside.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "base/checks.h"

namespace twinblock {

enum class LoopOwner : uint32_t {
  kRunner,        // a thread runs a turn
  kWaiting,       // … and waits for events in it
  kGuest,         // … and a guest does a little of its work meanwhile,
  kGuestAwaited,  // … for whose end it waits, since there are events
  kNobody,        // no thread runs turns
};

struct LoopMove {
  LoopOwner from;
  LoopOwner to;
};
constexpr std::array<LoopMove, 8> kLoopMoves = {{
    {LoopOwner::kRunner, LoopOwner::kWaiting},       // begin_wait(): the runner
    {LoopOwner::kWaiting, LoopOwner::kRunner},       // end_wait(): the runner
    {LoopOwner::kWaiting, LoopOwner::kGuest},        // try_enter(): a lone caller
    {LoopOwner::kGuest, LoopOwner::kWaiting},        // leave(): the guest
    {LoopOwner::kGuest, LoopOwner::kGuestAwaited},   // end_wait(): the runner
    {LoopOwner::kGuestAwaited, LoopOwner::kWaiting},  // leave(): the guest
    {LoopOwner::kRunner, LoopOwner::kNobody},        // set_free(): the runner
    {LoopOwner::kNobody, LoopOwner::kRunner},        // try_take(): the leader, or a lone caller
}};

constexpr bool is_loop_move(LoopOwner from, LoopOwner to) {
  for (const LoopMove& move : kLoopMoves)
    if (move.from == from && move.to == to) return true;
  return false;
}
// While a guest is in, nobody runs the loop before it has left.
static_assert(!is_loop_move(LoopOwner::kGuest, LoopOwner::kRunner) &&
              !is_loop_move(LoopOwner::kGuestAwaited, LoopOwner::kRunner));
// What nobody runs has no guest either: what that would leave undone nobody would see.
static_assert(!is_loop_move(LoopOwner::kNobody, LoopOwner::kGuest));

class LoopOwnership {
 public:
  // Any thread. Sequentially consistent with set_free().
  [[nodiscard]] LoopOwner owner() const { return owner_.load(std::memory_order_seq_cst); }

  // The runner: right before and right after it waits for events.
  void begin_wait() { give_up<LoopOwner::kWaiting>(std::memory_order_release); }
  void end_wait() {
    for (;;) {
      if (try_move<LoopOwner::kWaiting, LoopOwner::kRunner>(std::memory_order_acquire)) return;
      // A guest is in; guests do not block, so this is short.
      if (try_move<LoopOwner::kGuest, LoopOwner::kGuestAwaited>(std::memory_order_relaxed) ||
          owner_.load(std::memory_order_relaxed) == LoopOwner::kGuestAwaited)
        owner_.wait(LoopOwner::kGuestAwaited, std::memory_order_relaxed);
    }
  }

  // The runner: nobody runs the loop from now on.
  void set_free() { give_up<LoopOwner::kNobody>(std::memory_order_seq_cst); }
  // Any thread: whether nobody ran the loop; the caller is its runner now.
  [[nodiscard]] bool try_take() {
    return try_move<LoopOwner::kNobody, LoopOwner::kRunner>(std::memory_order_acquire);
  }

  // Any other thread: whether it is the guest now. If so, it must leave, without blocking before.
  [[nodiscard]] bool try_enter() {
    return try_move<LoopOwner::kWaiting, LoopOwner::kGuest>(std::memory_order_acquire);
  }
  void leave() {
    static_assert(is_loop_move(LoopOwner::kGuest, LoopOwner::kWaiting) &&
                  is_loop_move(LoopOwner::kGuestAwaited, LoopOwner::kWaiting));
    const LoopOwner before = owner_.exchange(LoopOwner::kWaiting, std::memory_order_release);
    TB_CHECK(before == LoopOwner::kGuest || before == LoopOwner::kGuestAwaited,
             "who leaves the loop was its guest");
    if (before == LoopOwner::kGuestAwaited) owner_.notify_one();
  }

 private:
  template <LoopOwner kFrom, LoopOwner kTo>
  bool try_move(std::memory_order order) {
    static_assert(is_loop_move(kFrom, kTo));
    LoopOwner seen = kFrom;
    return owner_.compare_exchange_strong(seen, kTo, order, std::memory_order_relaxed);
  }
  // From kRunner, which nobody but the runner ends.
  template <LoopOwner kTo>
  void give_up(std::memory_order order) {
    static_assert(is_loop_move(LoopOwner::kRunner, kTo));
    TB_CHECK(owner_.load(std::memory_order_relaxed) == LoopOwner::kRunner,
             "who gives the loop up was its runner");
    owner_.store(kTo, order);
  }

  std::atomic<LoopOwner> owner_{LoopOwner::kRunner};
};

}  // namespace twinblock
