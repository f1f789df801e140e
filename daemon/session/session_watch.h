// What is due as time passes: heartbeats, the ends of handshakes that come to none, and the judgement
// whether the peer, its disk and each link still live. Owned by the session; loop thread only.
#pragma once

#include <cstdint>
#include <memory>

#include "session/handshake.h"
#include "session/peer_traffic.h"

namespace twinblock {

class SessionWatch {
 public:
  struct Parts {
    StrangerLog& strangers;
    StrangerLog& peer_log;
    Links& links;
    Heartbeats& heartbeats;
    PeerTraffic& traffic;
    LinkJoins& joins;
    Newcomers& newcomers;
    Handshake& handshake;
    ProbeResponder& responder;
  };
  SessionWatch(const SessionEnvironment& env, SessionOwner& owner, SessionSteps& session,
               const Parts& parts);

  // Begins to watch, once.
  void start();

 private:
  void tick();
  void arm_tick(uint64_t delay_ns);
  void look_for_loss(uint64_t now_ns);
  void look_for_silence(uint64_t now_ns);

  const SessionEnvironment& env_;
  SessionOwner& owner_;
  SessionSteps& session_;
  const Parts parts_;
  std::unique_ptr<Timer> tick_timer_;
  bool catching_up_ = false;  // a tick came late: what lies in the sockets is read before the next one
};

}  // namespace twinblock
