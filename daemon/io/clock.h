// Time, as the engine sees it: a monotonic clock and timers whose callbacks run on the loop.
// Implemented by io/posix (libev) and by the simulator. Loop thread only, but for now_ns().
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

namespace twinblock {

// A one-shot timer. Destroying it disarms it; its callback may arm it again or destroy it.
class Timer {
 public:
  virtual ~Timer() = default;
  // Fires once, at least `delay_ns` from now; replaces an earlier arming.
  virtual void arm(uint64_t delay_ns) = 0;
  virtual void disarm() = 0;
  [[nodiscard]] virtual bool armed() const = 0;
};

class Clock {
 public:
  virtual ~Clock() = default;
  // Monotonic, never goes back; any thread.
  [[nodiscard]] virtual uint64_t now_ns() const = 0;
  // Nanoseconds since 1970 (UTC), for people only; any thread.
  [[nodiscard]] virtual uint64_t wall_ns() const = 0;
  // What the calling thread has used of its processor, for figures only; any thread.
  [[nodiscard]] virtual uint64_t thread_cpu_ns() const { return now_ns(); }
  // Whether the calling thread has the loop, and so all that is the loop's, to itself; any thread.
  [[nodiscard]] virtual bool on_loop() const { return true; }
  [[nodiscard]] virtual std::unique_ptr<Timer> make_timer(std::function<void()> callback) = 0;
};

}  // namespace twinblock
