// Virtual time: events in the order of their moments, each on behalf of a process (one life of one
// twinblockd) or of the world. Events of a dead process are dropped, those of a paused one wait.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace twinblock::sim {

using Action = std::function<void()>;

struct Process {
  std::string name;
  bool alive = true;
  bool paused = false;
  uint64_t still_since_ns = 0;  // see stand_still(); 0: it does not
  uint64_t clock_origin_ns = 0;  // its clock less virtual time: below 0, modulo 2^64, for a host that was started later
  std::vector<Action> deferred;  // came due while paused, in order …
  // … and the timers among them: libev calls those before it looks at sockets.
  std::vector<Action> deferred_timers;
};
using ProcessPtr = std::shared_ptr<Process>;

class Scheduler {
 public:
  [[nodiscard]] uint64_t now_ns() const { return now_ns_; }
  // `process` null: the world's own. Events of one moment run in the order in which they were made.
  void after(uint64_t delay_ns, ProcessPtr process, Action action);
  // The same, of a timer of the process.
  void timer(uint64_t delay_ns, ProcessPtr process, Action action);
  // Runs all events up to `end_ns`, or until `stop` says so.
  void run_until(uint64_t end_ns, const std::function<bool()>& stop = {});
  void resume(const ProcessPtr& process);
  // The process is paused as one that gets no processor, which is counted until it is resumed: how
  // long all of them stood still so, together.
  void stand_still(const ProcessPtr& process);
  [[nodiscard]] uint64_t stood_still_total_ns() const {
    return stood_still_ns_ + still_ * now_ns_ - still_began_ns_;
  }
  // Drops all events, and what they hold, unrun.
  void clear();
  [[nodiscard]] uint64_t events_total() const { return events_total_; }
  // Of the moments and numbers of all events so far: another one where anything went another way.
  [[nodiscard]] uint64_t trajectory() const { return trajectory_; }

 private:
  struct Event {
    ProcessPtr process;
    Action action;
    bool is_timer = false;
  };
  void add(uint64_t delay_ns, Event event);
  // An event's place in the order: little to move about.
  struct Turn {
    uint64_t at_ns;
    uint64_t number;
    size_t event;  // where it waits
    auto operator<=>(const Turn&) const = default;
  };

  uint64_t now_ns_ = 0;
  uint64_t events_total_ = 0;
  uint64_t trajectory_ = 0;
  uint64_t stood_still_ns_ = 0;
  uint64_t still_ = 0;           // how many do now …
  uint64_t still_began_ns_ = 0;  // … and the sum of the moments at which they began
  uint64_t next_number_ = 0;
  std::vector<Turn> heap_;  // the next one first
  std::vector<Event> events_;
  std::vector<size_t> unused_;  // places in events_
};

}  // namespace twinblock::sim
