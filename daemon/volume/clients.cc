#include "volume/clients.h"

#include <cerrno>
#include <string>

#include "base/checks.h"

namespace twinblock {

Status Clients::opened(uint64_t term) {
  if (roles_.serves()) {
    if (term != 0 && term != core_.record().term)
      return Error{"node " + core_.node + " is primary of volume " + core_.config.volume +
                       " by promotion " + std::to_string(core_.record().term) + ", and not by " +
                       std::to_string(term) + ": what a client has read since that one may be old",
                   "end the client, and start it anew with " + core_.config.volume + "@" +
                       std::to_string(core_.record().term),
                   ESTALE};
    ++count_;
    if (term != 0) {
      any_back_ = true;
      hung_up_in_.reset();
    }
    return ok_status();
  }
  const std::string peer_address = core_.session.links().peer_address();
  if (roles_.peer() == PeerRole::kPrimary)
    return Error{"node " + core_.node + " of volume " + core_.config.volume +
                     " is secondary; the primary is " + core_.peer + " (" + peer_address + ")",
                 "attach on " + core_.peer + ", or demote it there and run `twinblock promote " +
                     core_.config.volume + "` here",
                 EROFS};
  return Error{"node " + core_.node + " of volume " + core_.config.volume +
                   (core_.state().blank() ? " is not initialised"
                                          : " is secondary, and so is, as far as it knows, ") +
                   (core_.state().blank() ? "" : core_.peer),
               core_.state().blank()
                   ? "run `twinblock init " + core_.config.volume + "` and `promote`"
                   : "run `twinblock promote " + core_.config.volume + "` first",
               EROFS};
}

void Clients::closed() {
  TB_CHECK(count_ > 0, "a client closes what it has opened");
  --count_;
}

void Clients::submit(ClientRequest& request) {
  if (roles_.role() != Role::kPrimary) {
    request.error = EROFS;
    request.done(request);
    return;
  }
  TB_CHECK(core_.record().primary, "who serves clients is primary on record");
  switch (request.op) {
    case ClientOp::kWrite:
    case ClientOp::kZero:
      any_back_ = true;
      writes_.submit(request);
      return;
    case ClientOp::kRead:
      reads_.submit(request);
      return;
    case ClientOp::kFlush:
      core_.counters().flushed();
      flushes_.flush([&request](int error) {
        request.error = error;
        request.done(request);
      });
      return;
  }
}

}  // namespace twinblock
