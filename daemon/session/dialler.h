// When and over which link a session is dialled: one link after the other, all of them before a
// pause, and longer pauses while nobody answers. Owned by the session; loop thread only.
#pragma once

#include <cstdint>
#include <memory>

#include "session/links.h"

namespace twinblock {

class Dialler {
 public:
  Dialler(const SessionEnvironment& env, SessionOwner& owner, Links& links,
          const SessionSteps& session);

  void schedule(uint64_t delay_ns);
  // Both nodes do: the preferred one `delay_ns` from now, the other one later.
  void schedule_in_turn(uint64_t delay_ns);
  void stop() { timer_->disarm(); }
  // The set of links has changed: the first one is the next.
  void begin_with_first() { next_ = 0; }
  void session_up();
  // The session was lost, or came to nothing, and is not dialled for a while.
  void pause(uint64_t delay_ns) { delay_ns_ = delay_ns; }
  // A connection has come to nothing: the next link is tried, or all after a pause.
  void failed();

 private:
  void dial();

  const SessionEnvironment& env_;
  SessionOwner& owner_;
  Links& links_;
  const SessionSteps& session_;
  std::unique_ptr<Timer> timer_;
  size_t next_ = 0;    // of the links: on which a handshake is tried next
  size_t failed_ = 0;  // since the last pause
  uint64_t delay_ns_ = 0;
};

}  // namespace twinblock
