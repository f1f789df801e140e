// libev's ev_io with a std::function. Loop only; internal to io/posix.
#pragma once

#include <ev.h>

#include <functional>
#include <utility>

#include "io/posix/loop.h"

namespace twinblock {

class IoWatcher {
 public:
  // `events`: EV_READ, EV_WRITE. Not started. The callback may destroy the watcher if it touches
  // none of its captures afterwards.
  IoWatcher(Loop& loop, int fd, int events, std::function<void()> ready)
      : owner_(loop), loop_(loop.ev()), ready_(std::move(ready)) {
    ev_io_init(&watcher_, &IoWatcher::fired, fd, events);
    watcher_.data = this;
  }
  ~IoWatcher() { stop(); }
  IoWatcher(const IoWatcher&) = delete;
  IoWatcher& operator=(const IoWatcher&) = delete;

  void start() {
    ev_io_start(loop_, &watcher_);
    owner_.note_change();
  }
  void stop() {
    ev_io_stop(loop_, &watcher_);
    owner_.note_change();
  }
  [[nodiscard]] bool active() const { return ev_is_active(&watcher_) != 0; }

 private:
  static void fired(struct ev_loop* /*loop*/, ev_io* watcher, int /*events*/) {
    static_cast<IoWatcher*>(watcher->data)->ready_();
  }

  Loop& owner_;
  struct ev_loop* loop_;
  ev_io watcher_{};
  std::function<void()> ready_;
};

}  // namespace twinblock
