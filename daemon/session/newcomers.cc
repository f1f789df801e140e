#include "session/newcomers.h"

namespace twinblock {

Newcomers::Newcomers(const SessionEnvironment& env, Links& links, Heartbeats& heartbeats,
                     LinkJoins& joins, StrangerLog& strangers)
    : env_(env), links_(links), heartbeats_(heartbeats), joins_(joins), strangers_(strangers) {}

std::vector<Channel*> Newcomers::all() const {
  return links_.channels(
      [](const Channel& channel) { return channel.phase() == Channel::Phase::kProbing; });
}

void Newcomers::wait(Channel& channel) {
  for (Channel* other : all()) links_.discard(*other);
  channel.enter(Channel::Phase::kProbing);
  const uint64_t now = env_.clock.now_ns();
  since_ns_ = now;
  for (Channel* up : links_.up()) heartbeats_.send(*up, now);
  if (links_.up().empty())
    for (const auto& link : links_.all()) joins_.schedule(*link, 0);
}

void Newcomers::session_answers() {
  if (since_ns_ == 0 || heartbeats_.answered_beat_ns() < since_ns_) return;
  since_ns_ = 0;
  for (Channel* newcomer : all()) {
    const uint64_t now = env_.clock.now_ns();
    strangers_.tell(
        "link " + newcomer->link().name() + ": " + newcomer->address(),
        "says to be " + env_.peer() + ", with which a session stands that answers; refused", now);
    newcomer->refuse({.nonce = newcomer->intro().peer_nonce()},
                     env_.node + " has a session with " + env_.peer() + ", and that answers", now);
  }
}

bool Newcomers::believed(uint64_t now) {
  if (since_ns_ == 0) return false;
  if (all().empty()) {
    since_ns_ = 0;
    return false;
  }
  // What has come and is not read yet has its turn before the second tick.
  return heartbeats_.silent_ns(now) > env_.config.link_timeout_ns &&
         env_.lateness.passed_ns(since_ns_, now) >= 2 * heartbeats_.interval_ns();
}

}  // namespace twinblock
