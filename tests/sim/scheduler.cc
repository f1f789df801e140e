#include "scheduler.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <utility>

#include "report.h"

namespace twinblock::sim {

void Scheduler::after(uint64_t delay_ns, ProcessPtr process, Action action) {
  add(delay_ns, {std::move(process), std::move(action)});
}

void Scheduler::timer(uint64_t delay_ns, ProcessPtr process, Action action) {
  add(delay_ns, {std::move(process), std::move(action), true});
}

void Scheduler::add(uint64_t delay_ns, Event event) {
  if (unused_.empty()) {
    unused_.push_back(events_.size());
    events_.emplace_back();
  }
  const size_t place = unused_.back();
  unused_.pop_back();
  events_[place] = std::move(event);
  heap_.push_back({now_ns_ + delay_ns, next_number_++, place});
  std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
}

void Scheduler::run_until(uint64_t end_ns, const std::function<bool()>& stop) {
  while (!heap_.empty() && heap_.front().at_ns <= end_ns) {
    std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
    const Turn turn = heap_.back();
    heap_.pop_back();
    Event event = std::move(events_[turn.event]);
    unused_.push_back(turn.event);
    now_ns_ = turn.at_ns;
    Report::set_now(now_ns_);
    if (event.process && !event.process->alive) continue;
    if (event.process && event.process->paused) {
      Process& process = *event.process;
      (event.is_timer ? process.deferred_timers : process.deferred).push_back(std::move(event.action));
      continue;
    }
    ++events_total_;
    // Multiplicative hashing; the multiplier is the golden ratio's (Knuth, TAOCP 3, 6.4).
    trajectory_ = (std::rotl(trajectory_, 5) ^ turn.at_ns ^ turn.number << 40) * 0x9E3779B97F4A7C15;
    event.action();
    if (stop && stop()) return;
  }
  now_ns_ = std::max(now_ns_, end_ns);
}

void Scheduler::clear() {
  heap_.clear();
  unused_.clear();
  const std::vector<Event> dropped = std::exchange(events_, {});
}

void Scheduler::stand_still(const ProcessPtr& process) {
  process->paused = true;
  process->still_since_ns = now_ns_;
  ++still_;
  still_began_ns_ += now_ns_;
}

void Scheduler::resume(const ProcessPtr& process) {
  process->paused = false;
  if (const uint64_t since_ns = std::exchange(process->still_since_ns, 0); since_ns > 0) {
    stood_still_ns_ += now_ns_ - since_ns;
    --still_;
    still_began_ns_ -= since_ns;
  }
  for (Action& action : std::exchange(process->deferred_timers, {}))
    timer(0, process, std::move(action));
  for (Action& action : std::exchange(process->deferred, {})) after(0, process, std::move(action));
}

}  // namespace twinblock::sim
