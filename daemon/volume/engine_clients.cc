// What clients ask of the volume, and whether they may.
#include <cerrno>

#include "base/checks.h"
#include "volume/engine.h"

namespace twinblock {

Status Engine::client_opened() {
  if (roles_.serves()) {
    ++clients_;
    return ok_status();
  }
  const std::string peer_address = session_.peer_address();
  if (roles_.peer() == PeerRole::kPrimary)
    return Error{"node " + core_.node + " of volume " + core_.config.volume +
                     " is secondary; the primary is " + core_.peer + " (" + peer_address + ")",
                 "attach on " + core_.peer + ", or demote it there and run `twinblock promote " +
                     core_.config.volume + "` here",
                 EROFS};
  return Error{"node " + core_.node + " of volume " + core_.config.volume +
                   (core_.blank ? " is not initialised"
                                : " is secondary, and so is, as far as it "
                                  "knows, ") +
                   (core_.blank ? "" : core_.peer),
               core_.blank ? "run `twinblock init " + core_.config.volume + "` and `promote`"
                           : "run `twinblock promote " + core_.config.volume + "` first",
               EROFS};
}

void Engine::client_closed() {
  TB_CHECK(clients_ > 0, "a client closes what it has opened");
  --clients_;
}

void Engine::submit(ClientRequest& request) {
  if (roles_.role() != Role::kPrimary) {
    request.error = EROFS;
    request.done(request);
    return;
  }
  switch (request.op) {
    case ClientOp::kWrite:
    case ClientOp::kZero:
      writes_.submit(request);
      return;
    case ClientOp::kRead:
      reads_.submit(request);
      return;
    case ClientOp::kFlush:
      ++core_.counters.flushes;
      flushes_.flush([&request](int error) {
        request.error = error;
        request.done(request);
      });
      return;
  }
}

}  // namespace twinblock
