// Where a frame goes that has come over a connection of the session: to the part that it is for, to
// the engine, or nowhere, with the connection or the session. Owned by the session; loop thread only.
#pragma once

#include <cstdint>

#include "session/handshake.h"
#include "session/retirements.h"

namespace twinblock {

class FrameRoutes {
 public:
  struct Parts {
    Links& links;
    ControlStream& control;
    Heartbeats& heartbeats;
    TripSampler& sampler;
    PeerTraffic& traffic;
    Retirements& retirements;
    LinkJoins& joins;
    Newcomers& newcomers;
    Handshake& handshake;
  };
  FrameRoutes(const SessionEnvironment& env, SessionOwner& owner, SessionSteps& session,
              const Parts& parts)
      : env_(env), owner_(owner), session_(session), parts_(parts) {}

  // A frame of the session. Whether the connection is still open.
  bool take(Channel& channel, wire::Frame& frame);
  // What has come is none: the connection ends, or the session.
  void refuse(Channel& channel);

 private:
  bool take_ordered(Channel& channel, wire::Frame& frame);
  void take_ack(Channel& channel, wire::Frame& frame);
  void take_heartbeat(Channel& channel, const wire::Frame& frame);
  void take_retirement(uint64_t incarnation);

  const SessionEnvironment& env_;
  SessionOwner& owner_;
  SessionSteps& session_;
  const Parts parts_;
};

}  // namespace twinblock
