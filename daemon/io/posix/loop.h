// The loop: libev's events, timers and the order of work within one turn.
//
// One turn:
//   1. events: sockets, timers, rings (libev), then the wake handler and posted functions;
//   2. sends go out, so that the wire works while the disk does;
//   3. disk requests are submitted, or executed at once where that is quicker (posix_disk.h);
//   4. disk requests that are finished are delivered;
//   5. what those have sent goes out.
// The next turn waits for an event, unless a part says that it has work left.
//
// A lone caller need not wake the loop: while that waits for events, run_for() does steps 1 (the
// wake handler), 2 and 3 for it on the caller's own thread (loop_owner.h). Where one lone caller
// comes soon after the other, the loop's own thread steps aside: the next one runs the loop until
// its own request is finished, so that what it waits for wakes it, and nobody else.
//
// What other threads hand over, and how it reaches whoever has the loop then:
//   run_for()  the lone caller does it itself; where the loop is busy it goes on to wake()
//   wake()     requests: the wake handler takes them in the next turn
//   nudge()    what parts have put into lists of their own: a turn looks at them
//   post()     a function, rare; with a nudge()
// The last three set a flag and, the first of them since the last turn, reach whoever has the loop
// (reach_owner()): its wait for events ends at once; where nobody runs the loop, the leader, which
// stands aside, is called back.
//
// The loop is a role, not one thread (loop_role.h): all its state may move to another thread, but
// only between turns or in step 3, and two turns never run at one time. Everything here is for the
// loop alone, but for stop(), wake(), post(), nudge(), run_for() and the clocks, which any thread
// may call.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "io/clock.h"
#include "io/posix/loop_owner.h"
#include "io/posix/loop_role.h"
#include "io/posix/parking.h"
#include "io/posix/request_list.h"

struct ev_loop;
struct ev_async;

namespace twinblock {

// What takes part in each turn: the network and the disks.
class TurnPart {
 public:
  virtual ~TurnPart() = default;
  virtual void flush_sends() {}
  // False when the caller has lost the loop role meanwhile (LoopRole): it then touches nothing
  // more.
  [[nodiscard]] virtual bool submit_queued() { return true; }
  virtual void deliver() {}
  // Hands out disk writes for the caller to execute while the loop goes on, and takes them back;
  // none when there is anything else that the loop had better do itself. execute_lent() is called
  // on the borrower's thread, beside the loop.
  [[nodiscard]] virtual RequestList lend() { return {}; }
  virtual void execute_lent(RequestList& /*requests*/) {}
  // Whether the next turn must not wait for an event.
  [[nodiscard]] virtual bool pending() const { return false; }
};

class Loop final : public Clock {
 public:
  // How patient a loop is with lone callers (run_for()).
  struct Pace {
    // Its thread steps aside after a few lone callers, of whom each came that soon after the one
    // before, …
    uint64_t soon_ns = 1 * kMillisecond_ns;
    // … and comes back when there was none for that long, or when one has waited for that long.
    uint64_t free_max_ns = 2 * kMillisecond_ns;
    uint64_t caller_max_ns = 10 * kMillisecond_ns;
  };

  Loop() : Loop(Pace{}) {}
  explicit Loop(const Pace& pace);
  // After run() has returned, or without any. All watchers, timers and parts must be gone.
  ~Loop() override;
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  // Before run(): starts the second thread that it takes. Throws std::system_error when there can be no more. Left out,
  // run() does it, for whom that would be the end of the process.
  void prepare();
  // Runs turns until stop(); the caller takes part in them, and so does one thread more. Once.
  void run();
  void stop();

  // Runs the on_wake() handler soon, once for all calls since it last ran. Costs one exchange when
  // a wake is pending already.
  void wake();
  // Any thread but the loop's, for one that is about to wait for what it has handed over, and
  // knows of no other: runs the on_wake() handler, sends, and executes what disk writes follow,
  // here and now; then, if nobody else does, runs the loop until `caller` is unparked. False, and
  // nothing done, when the loop is busy: then wake(). The loop outlives each call.
  [[nodiscard]] bool run_for(const Parking& caller);
  // Before run(). The second one, on the loop: whether there is anything to wait for that must not
  // come a few ms late, a request for example; then the loop's thread does not step aside.
  void on_wake(std::function<void()> handler);
  void on_step_aside(std::function<bool()> busy);

  // As many lone callers as make the loop's thread step aside.
  static constexpr uint32_t kLoneCallersMin = 8;
  // Runs `work` on the loop; for what is rare (control requests). Dropped after stop().
  void post(std::function<void()> work);

  [[nodiscard]] uint64_t now_ns() const override;
  [[nodiscard]] uint64_t wall_ns() const override;
  [[nodiscard]] uint64_t thread_cpu_ns() const override;
  [[nodiscard]] bool on_loop() const override;
  [[nodiscard]] std::unique_ptr<Timer> make_timer(std::function<void()> callback) override;

  // For the parts of io/posix.
  void attach(TurnPart& part);
  void detach(TurnPart& part);
  void nudge();  // a turn soon, without the wake handler; any thread
  // Timers or watchers have changed: a loop that waits for events must look at them again.
  void note_change() { changed_ = true; }
  [[nodiscard]] LoopRole& role() { return role_; }
  [[nodiscard]] struct ev_loop* ev() { return ev_; }

 private:
  void take_part(bool leader);
  [[nodiscard]] bool turn();
  [[nodiscard]] bool second_half();
  [[nodiscard]] bool run_as_guest();
  [[nodiscard]] bool enter_as_guest();
  void leave_as_guest();
  void run_posted();
  void count_lone_caller();
  [[nodiscard]] bool may_be_free() const;
  void set_free();
  [[nodiscard]] bool take();
  [[nodiscard]] bool step_aside();
  [[nodiscard]] bool wait_aside();
  void call_leader_back();
  void reach_owner();

  const Pace pace_;
  struct ev_loop* ev_;
  std::unique_ptr<ev_async> interrupt_;
  LoopRole role_;
  LoopOwnership ownership_;
  bool changed_ = false;         // since the loop began to wait
  uint32_t lone_callers_ = 0;    // in a row
  uint64_t lone_caller_ns_ = 0;  // the last one
  std::function<bool()> busy_;
  std::thread standby_;
  std::atomic<std::thread::id> leader_{};  // who has the loop at this moment, be it as a guest
  std::thread::id host_{};                 // whose guest that is
  std::atomic<bool> stopping_{false};

  // For the thread that has stepped aside. A lock, for sleeping only: it is taken by that thread,
  // and by who calls it back, which is rare beside lone callers.
  struct Aside {
    std::mutex mutex;
    std::condition_variable called;
    bool call_back = false;
  } aside_;
  std::atomic<uint64_t> moved_ns_{0};   // the role, last, from or to a lone caller
  std::atomic<bool> give_back_{false};  // asks the lone caller that runs the loop

  // Set by wake() and nudge(), taken back by the next turn.
  std::atomic<bool> wake_pending_{false};
  std::atomic<bool> nudge_pending_{false};
  std::function<void()> wake_handler_;

  // A lock, since posting is rare and its functions own memory; held for a push or a swap, never
  // while a function runs.
  std::mutex posted_mutex_;
  std::vector<std::function<void()>> posted_;
  std::atomic<bool> posted_pending_{false};

  std::vector<TurnPart*> parts_;  // null: detached
  bool pending_ = false;
};

}  // namespace twinblock
