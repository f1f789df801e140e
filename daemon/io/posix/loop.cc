#include "io/posix/loop.h"

#include <ev.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <utility>

#include "base/checks.h"
#include "base/lifetime.h"
#include "io/posix/monotonic.h"
#include "io/posix/thread.h"

namespace twinblock {
namespace {

class LoopTimer final : public Timer {
 public:
  LoopTimer(Loop& owner, std::function<void()> callback)
      : owner_(owner), loop_(owner.ev()), callback_(std::move(callback)) {
    ev_timer_init(&watcher_, &LoopTimer::fired, 0., 0.);
    watcher_.data = this;
  }
  ~LoopTimer() override { ev_timer_stop(loop_, &watcher_); }
  LoopTimer(const LoopTimer&) = delete;
  LoopTimer& operator=(const LoopTimer&) = delete;

  void arm(uint64_t delay_ns) override {
    deadline_ns_ = monotonic_ns() + delay_ns;
    start(delay_ns);
  }
  void disarm() override { ev_timer_stop(loop_, &watcher_); }
  [[nodiscard]] bool armed() const override { return ev_is_active(&watcher_) != 0; }

 private:
  void start(uint64_t delay_ns) {
    ev_timer_stop(loop_, &watcher_);
    // libev counts from the beginning of its turn, which may be long ago.
    ev_now_update(loop_);
    ev_timer_set(&watcher_, static_cast<double>(delay_ns) / 1e9, 0.);
    ev_timer_start(loop_, &watcher_);
    owner_.note_change();
  }

  static void fired(struct ev_loop* /*loop*/, ev_timer* watcher, int /*events*/) {
    auto* self = static_cast<LoopTimer*>(watcher->data);
    const uint64_t now_ns = monotonic_ns();
    // libev's clock is a double; never fire early by its rounding.
    if (now_ns < self->deadline_ns_) return self->start(self->deadline_ns_ - now_ns);
    // The callback may destroy this timer and must outlive that.
    const Lifetime::Watch watch(self->lifetime_);
    std::function<void()> callback = std::move(self->callback_);
    callback();
    if (!watch.ended()) self->callback_ = std::move(callback);
  }

  Loop& owner_;
  struct ev_loop* loop_;
  ev_timer watcher_{};
  uint64_t deadline_ns_ = 0;
  std::function<void()> callback_;
  Lifetime lifetime_;  // the callback may end it
};

}  // namespace

Loop::Loop(const Pace& pace)
    : pace_(pace), ev_(ev_loop_new(unsigned{EVFLAG_NOENV} | unsigned{EVBACKEND_EPOLL})) {
  TB_CHECK(ev_ != nullptr, "no epoll: out of file descriptors at start?");
  interrupt_ = std::make_unique<ev_async>();
  // The watcher only ends the wait; what woke us is in the flags.
  ev_async_init(interrupt_.get(), [](struct ev_loop*, ev_async*, int) {});
  ev_async_start(ev_, interrupt_.get());
  ev_set_userdata(ev_, this);
  ev_set_loop_release_cb(
      ev_,
      [](struct ev_loop* loop) noexcept {
        auto* self = static_cast<Loop*>(ev_userdata(loop));
        self->changed_ = false;
        self->ownership_.begin_wait();
      },
      // libev looks at errno afterwards: a wait that a signal, or a stop of the process, has interrupted ends it else.
      [](struct ev_loop* loop) noexcept {
        const int error = errno;
        static_cast<Loop*>(ev_userdata(loop))->ownership_.end_wait();
        errno = error;
      });
}

Loop::~Loop() {
  if (standby_.joinable()) {  // prepared, and never run
    role_.stop();
    standby_.join();
  }
  for (const TurnPart* part : parts_) TB_CHECK(part == nullptr, "a part outlives its loop");
  ev_async_stop(ev_, interrupt_.get());
  ev_loop_destroy(ev_);
}

void Loop::prepare() {
  standby_ = start_thread("tb-standby", [this] { take_part(false); });
}

void Loop::run() {
  if (!standby_.joinable()) prepare();
  take_part(true);
  standby_.join();
  leader_.store({}, std::memory_order_relaxed);
}

void Loop::take_part(bool leader) {
  for (;;) {
    if (!leader && !role_.stand_by()) return;
    leader_.store(std::this_thread::get_id(), std::memory_order_relaxed);
    if (!leader) pending_ = true;  // the former leader did not finish its turn
    leader = true;
    while (leader && !stopping_.load(std::memory_order_acquire)) {
      if (!turn()) {
        leader = false;
        role_.hand_over_finished();
      } else if (may_be_free()) {
        leader = step_aside();
      }
    }
    if (leader) return role_.stop();
  }
}

void Loop::count_lone_caller() {
  const uint64_t now_ns = monotonic_ns();
  lone_callers_ = now_ns < lone_caller_ns_ + pace_.soon_ns ? lone_callers_ + 1 : 0;
  lone_caller_ns_ = now_ns;
}

bool Loop::may_be_free() const {
  return lone_callers_ >= kLoneCallersMin && !pending_ &&
         monotonic_ns() < lone_caller_ns_ + pace_.soon_ns && !(busy_ && busy_());
}

// Nobody runs the loop from now on, but the thread that has stepped aside if it has to.
void Loop::set_free() {
  const bool needed = !may_be_free();
  leader_.store({}, std::memory_order_relaxed);
  moved_ns_.store(monotonic_ns(), std::memory_order_relaxed);
  ownership_.set_free();
  // Sequentially consistent with reach_owner(): one of the two sees what the other has set.
  if (needed || wake_pending_ || nudge_pending_ || stopping_) call_leader_back();
}

bool Loop::take() {
  if (!ownership_.try_take()) return false;
  leader_.store(std::this_thread::get_id(), std::memory_order_relaxed);
  moved_ns_.store(monotonic_ns(), std::memory_order_relaxed);
  return true;
}

// The leader, between two turns. Returns when the caller is the leader again, or, with false, the
// standby: a lone caller's write took too long, and the other thread has taken the loop over.
bool Loop::step_aside() {
  const uint64_t takeovers = role_.takeovers();
  set_free();
  for (;;) {
    const bool called = wait_aside();
    if (role_.takeovers() != takeovers) return false;
    const uint64_t moved_ago_ns = monotonic_ns() - moved_ns_.load(std::memory_order_relaxed);
    if (ownership_.owner() != LoopOwner::kNobody) {
      if (moved_ago_ns > pace_.caller_max_ns && !give_back_.exchange(true)) nudge();
    } else if ((called || moved_ago_ns >= pace_.free_max_ns) && take()) {
      give_back_ = false;
      if (role_.takeovers() == takeovers) return true;
      lone_callers_ = 0;  // calls the other thread, which leads and has stepped aside meanwhile
      set_free();
      return false;
    }
  }
}

// Whether it was called back. Sleeps until the loop may have been free for too long.
bool Loop::wait_aside() {
  const uint64_t since_ns = monotonic_ns() - moved_ns_.load(std::memory_order_relaxed);
  const uint64_t sleep_ns = since_ns < pace_.free_max_ns ? pace_.free_max_ns - since_ns : pace_.free_max_ns;
  std::unique_lock lock(aside_.mutex);
  aside_.called.wait_for(lock, std::chrono::nanoseconds(sleep_ns), [this] { return aside_.call_back; });
  return std::exchange(aside_.call_back, false);
}

void Loop::call_leader_back() {
  const std::lock_guard lock(aside_.mutex);
  aside_.call_back = true;
  aside_.called.notify_all();
}

bool Loop::turn() {
  ev_run(ev_, pending_ ? EVRUN_NOWAIT : EVRUN_ONCE);
  nudge_pending_.exchange(false, std::memory_order_acq_rel);
  if (wake_pending_.exchange(false, std::memory_order_acq_rel)) {
    lone_callers_ = 0;
    if (wake_handler_) wake_handler_();
  }
  if (posted_pending_.load(std::memory_order_acquire)) run_posted();
  return second_half();
}

bool Loop::second_half() {
  std::erase(parts_, nullptr);
  // By index: parts may be added by what runs here.
  const auto each = [this](auto&& step) {
    for (size_t i = 0; i < parts_.size(); ++i)
      if (parts_[i] != nullptr) step(*parts_[i]);
  };
  each([](TurnPart& part) { part.flush_sends(); });
  for (size_t i = 0; i < parts_.size(); ++i)
    if (parts_[i] != nullptr && !parts_[i]->submit_queued()) return false;
  each([](TurnPart& part) { part.deliver(); });
  each([](TurnPart& part) { part.flush_sends(); });
  pending_ = false;
  each([this](const TurnPart& part) { pending_ = pending_ || part.pending(); });
  return true;
}

bool Loop::run_for(const Parking& caller) {
  if (!take()) return run_as_guest();
  count_lone_caller();
  if (wake_handler_) wake_handler_();
  bool leader = second_half();
  // Who has nothing to wait for runs no turn: where many come, timers and sockets would be late.
  const bool waits = !caller.done();
  while (leader && !caller.done() && !give_back_ && !stopping_) leader = turn();
  if (!leader) {  // the standby has taken the loop over
    role_.hand_over_finished();
    return true;
  }
  if (waits && caller.done())
    lone_caller_ns_ = monotonic_ns();
  else
    lone_callers_ = 0;
  set_free();
  return true;
}

// While the loop's own thread waits for events, the loop is the guest's.
bool Loop::enter_as_guest() {
  if (!ownership_.try_enter()) return false;
  host_ = leader_.exchange(std::this_thread::get_id(), std::memory_order_relaxed);
  return true;
}

bool Loop::run_as_guest() {
  if (!enter_as_guest()) return false;
  count_lone_caller();
  if (wake_handler_) wake_handler_();
  for (TurnPart* part : parts_)
    if (part != nullptr) part->flush_sends();
  constexpr size_t kLendersMax = 4;
  std::array<std::pair<TurnPart*, RequestList>, kLendersMax> lent;
  size_t lenders = 0;
  for (TurnPart* part : parts_)
    if (part != nullptr && lenders < kLendersMax)
      if (RequestList requests = part->lend(); !requests.empty())
        lent[lenders++] = {part, requests};
  leave_as_guest();
  if (lenders == 0) return true;
  for (size_t i = 0; i < lenders; ++i) lent[i].first->execute_lent(lent[i].second);
  // Delivered at once if the loop still waits; it may have nothing else to wake it.
  if (!enter_as_guest()) {
    nudge();
    return true;
  }
  for (size_t i = 0; i < parts_.size(); ++i)
    if (parts_[i] != nullptr) parts_[i]->deliver();
  for (TurnPart* part : parts_)
    if (part != nullptr) part->flush_sends();
  leave_as_guest();
  return true;
}

void Loop::leave_as_guest() {
  bool work_left = changed_;
  for (const TurnPart* part : parts_) work_left = work_left || (part != nullptr && part->pending());
  leader_.store(host_, std::memory_order_relaxed);
  ownership_.leave();
  if (work_left) nudge();
}

void Loop::stop() {
  stopping_.store(true);
  nudge();
}

void Loop::wake() {
  if (!wake_pending_.exchange(true)) reach_owner();
}

void Loop::nudge() {
  if (!nudge_pending_.exchange(true)) reach_owner();
}

void Loop::reach_owner() {
  ev_async_send(ev_, interrupt_.get());
  if (ownership_.owner() == LoopOwner::kNobody) call_leader_back();
}

void Loop::on_wake(std::function<void()> handler) { wake_handler_ = std::move(handler); }

void Loop::on_step_aside(std::function<bool()> busy) { busy_ = std::move(busy); }

void Loop::post(std::function<void()> work) {
  {
    const std::lock_guard lock(posted_mutex_);
    posted_.push_back(std::move(work));
    posted_pending_.store(true, std::memory_order_release);
  }
  nudge();
}

void Loop::run_posted() {
  std::vector<std::function<void()>> work;
  {
    const std::lock_guard lock(posted_mutex_);
    work.swap(posted_);
    posted_pending_.store(false, std::memory_order_relaxed);
  }
  for (const auto& function : work) function();
}

uint64_t Loop::now_ns() const { return monotonic_ns(); }
uint64_t Loop::wall_ns() const { return clock_ns(CLOCK_REALTIME); }
uint64_t Loop::thread_cpu_ns() const { return clock_ns(CLOCK_THREAD_CPUTIME_ID); }

std::unique_ptr<Timer> Loop::make_timer(std::function<void()> callback) {
  return std::make_unique<LoopTimer>(*this, std::move(callback));
}

bool Loop::on_loop() const {
  return leader_.load(std::memory_order_relaxed) == std::this_thread::get_id();
}

void Loop::attach(TurnPart& part) { parts_.push_back(&part); }

void Loop::detach(TurnPart& part) {
  std::replace(parts_.begin(), parts_.end(), &part, static_cast<TurnPart*>(nullptr));
}

}  // namespace twinblock
