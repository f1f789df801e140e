// A hello while a session stands.
//
// The peer may have started anew, or have given the session up before this node did; then its end
// of the session answers no more. Or it is not the peer: any program on its host can say hello. So
// the session is asked first, and the newcomer waits.
//   1. A heartbeat on each connection of the session; without any, all links are asked to join it.
//   2. The peer's heartbeat shows that it has heard that: the newcomer is refused.
//   3. The connections are reset, and joining is refused with "no such session": it is lost, and
//      the newcomer is let in. A process that was killed and started again comes this way.
//   4. Nothing comes at all for link_timeout: it counts as lost, and the newcomer is let in. A host
//      that lost power, and whose new kernel can't be heard over the old connection.
//
// Owned by the session; loop thread only.
#pragma once

#include <cstdint>
#include <vector>

#include "session/heartbeats.h"
#include "session/link_joins.h"
#include "session/stranger_log.h"

namespace twinblock {

class Newcomers {
 public:
  Newcomers(const SessionEnvironment& env, Links& links, Heartbeats& heartbeats, LinkJoins& joins,
            StrangerLog& strangers);

  // `channel` has brought a good hello. The latest one waits, others are closed.
  void wait(Channel& channel);
  // A heartbeat of the peer has come.
  void session_answers();
  // Whether the session has been silent for as long as it takes to believe the newcomer.
  [[nodiscard]] bool believed(uint64_t now_ns);
  void session_lost() { since_ns_ = 0; }

  [[nodiscard]] bool waiting() const { return since_ns_ != 0; }
  [[nodiscard]] std::vector<Channel*> all() const;

 private:
  const SessionEnvironment& env_;
  Links& links_;
  Heartbeats& heartbeats_;
  LinkJoins& joins_;
  StrangerLog& strangers_;
  uint64_t since_ns_ = 0;  // somebody else says to be the peer; 0: nobody does
};

}  // namespace twinblock
