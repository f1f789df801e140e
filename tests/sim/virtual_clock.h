// Clock and Timer on virtual time. Each process has its own origin, as machines have, and some begin right after their
// host's start; timers fire a little late, as they do.
#pragma once

#include <memory>
#include <utility>

#include "base/units.h"
#include "io/clock.h"
#include "random.h"
#include "scheduler.h"

namespace twinblock::sim {

class VirtualClock final : public Clock {
 public:
  VirtualClock(Scheduler& scheduler, ProcessPtr process, Random random)
      : scheduler_(scheduler), process_(std::move(process)), random_(random) {
    const uint64_t drawn = random_.between(1, uint64_t{1} << 50);
    const bool young = drawn % 8 == 0;
    process_->clock_origin_ns = young ? 1 + drawn / 8 % kYoung_ns - scheduler_.now_ns() : drawn;
  }

  [[nodiscard]] uint64_t now_ns() const override {
    return process_->clock_origin_ns + scheduler_.now_ns();
  }
  [[nodiscard]] uint64_t wall_ns() const override { return now_ns(); }
  [[nodiscard]] std::unique_ptr<Timer> make_timer(std::function<void()> callback) override {
    return std::make_unique<VirtualTimer>(*this, std::move(callback));
  }

 private:
  // What the clock shows at most when such a process begins: moments that lie further back were before it began.
  static constexpr uint64_t kYoung_ns = kSecond_ns;

  class VirtualTimer final : public Timer {
   public:
    VirtualTimer(VirtualClock& clock, std::function<void()> callback)
        : clock_(clock), state_(std::make_shared<State>()) {
      state_->callback = std::move(callback);
    }
    ~VirtualTimer() override { disarm(); }
    void arm(uint64_t delay_ns) override {
      state_->armed = true;
      const uint64_t arming = ++state_->arming;
      const uint64_t late_ns = clock_.random_.below(200'000);
      clock_.scheduler_.timer(delay_ns + late_ns, clock_.process_, [state = state_, arming] {
        if (!state->armed || state->arming != arming) return;
        state->armed = false;
        state->callback();
      });
    }
    void disarm() override { state_->armed = false; }
    [[nodiscard]] bool armed() const override { return state_->armed; }

   private:
    struct State {  // outlives the timer, for the event that is under way
      std::function<void()> callback;
      bool armed = false;
      uint64_t arming = 0;
    };
    VirtualClock& clock_;
    std::shared_ptr<State> state_;
  };

  Scheduler& scheduler_;
  ProcessPtr process_;
  Random random_;
};

}  // namespace twinblock::sim
