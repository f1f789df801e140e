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
#include <algorithm>

#include "base/units.h"
#include "volume/session.h"
#include "volume/session_channel.h"

namespace twinblock {

std::vector<Session::Channel*> Session::newcomers() const {
  std::vector<Channel*> found;
  for (const auto& channel : channels_)
    if (channel->phase == Channel::Phase::kProbing) found.push_back(channel.get());
  return found;
}

void Session::probe(Channel& newcomer) {
  for (Channel* other : newcomers()) discard(*other);
  newcomer.phase = Channel::Phase::kProbing;
  const uint64_t now = env_.clock.now_ns();
  probe_ns_ = now;
  for (Channel* channel : up_) heartbeat(*channel, now);
  if (up_.empty())
    for (const auto& link : links_) schedule_join(*link, 0);
}

void Session::session_answers() {
  probe_ns_ = 0;
  for (Channel* newcomer : newcomers()) {
    strangers_.tell("link " + newcomer->link.config.name + ": " + newcomer->address,
                    "says to be " + peer_ + ", with which a session stands that answers; refused",
                    env_.clock.now_ns());
    send_refusal(*newcomer, env_.node + " has a session with " + peer_ + ", and that answers");
    newcomer->close_soon(env_.clock.now_ns());
  }
}

void Session::judge_probe(uint64_t now) {
  if (!established_ || probe_ns_ == 0) return;
  if (newcomers().empty()) {
    probe_ns_ = 0;
    return;
  }
  // What has come and is not read yet has its turn before the second tick.
  const uint64_t silent = now - std::min(now, last_heard_ns_);
  if (silent > env_.config.link_timeout_ns && now - probe_ns_ >= 2 * tick_interval_ns())
    lose(peer_ + " connected anew, and the session has been silent for " + format_duration(silent),
         0);
}

// The session is lost: whoever waits for that may go on.
void Session::let_newcomer_in() {
  for (Channel* newcomer : newcomers()) {
    const bool too_soon = env_.clock.now_ns() < refuse_until_ns_;
    if (stopped_ || (too_soon && newcomer->peer_instance == peer_instance_))
      discard(*newcomer);
    else
      (void)let_in(*newcomer);
  }
}

}  // namespace twinblock
