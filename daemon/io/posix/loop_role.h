// Who is the loop thread: a role that one of two threads holds. Its holder, the leader, may enter
// a blocking section (a file write that almost always takes a microsecond, but may take a minute);
// when it does not come out in time the other thread, the standby, takes the role and runs the
// loop, and the late leader becomes the standby.
//
// One word decides: even, the leader runs the loop; odd, it is in a blocking section. Whoever moves
// an odd word to the next even one holds the role from then on: the leader, leaving its section, or
// the standby, taking over. Each section has its own odd value, so neither can mistake a later
// section for the one it saw. That exchange also carries the happens-before for everything that
// belongs to the loop.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "base/units.h"

namespace twinblock {

class LoopRole {
 public:
  // The standby looks this often while there are sections, …
  static constexpr uint64_t kLookInterval_ns = 10 * kMillisecond_ns;
  // … takes the role from a leader that has been in one section for this long, …
  static constexpr uint64_t kTakeoverAfter_ns = 5 * kMillisecond_ns;
  // … and sleeps until it is called once there was no section for this long.
  static constexpr uint64_t kParkAfter_ns = 1 * kSecond_ns;
  // After a section that took this long there are none for a while: the disk is busy (dirty page
  // throttling, a journal commit), and each further section would stop the loop again.
  static constexpr uint64_t kSlowSection_ns = 2 * kMillisecond_ns;
  static constexpr uint64_t kCoolOff_ns = 100 * kMillisecond_ns;

  // Leader. Whether a section may begin: nobody is stuck in an earlier one, and the last was quick.
  [[nodiscard]] bool may_block(uint64_t now_ns) const;
  // Leader. Between these two the caller may touch nothing that belongs to the loop. end_blocking()
  // says whether the caller is still the leader; if not, it must hand over what it has (thread-safe
  // queues only) and return to Loop, which calls stand_by().
  [[nodiscard]] uint64_t begin_blocking(uint64_t now_ns);
  [[nodiscard]] bool end_blocking(uint64_t section, uint64_t now_ns);

  // The former leader has handed over what it had. Call once after a false end_blocking().
  void hand_over_finished() { stuck_.fetch_sub(1, std::memory_order_acq_rel); }

  // Standby. Returns true when the caller has become the leader, false after stop().
  [[nodiscard]] bool stand_by();
  // Leader: sends the standby home.
  void stop();
  // How often the standby has taken over. Any thread.
  [[nodiscard]] uint64_t takeovers() const { return takeovers_.load(std::memory_order_relaxed); }

 private:
  bool take_over(uint64_t seen);
  void park(uint64_t seen);

  std::atomic<uint64_t> word_{0};
  std::atomic<uint64_t> section_began_ns_{0};
  std::atomic<int> stuck_{0};  // former leaders that have not handed over yet
  std::atomic<uint64_t> takeovers_{0};
  uint64_t resume_ns_ = 0;  // the leader's

  // Only for sleeping: the leader takes the lock when the standby is parked, at most once a second.
  std::mutex mutex_;
  std::condition_variable called_;
  std::atomic<bool> parked_{false};
  std::atomic<bool> stopped_{false};
};

}  // namespace twinblock
