#include "session/dialler.h"

#include <algorithm>

#include "base/limits.h"

namespace twinblock {

Dialler::Dialler(const SessionEnvironment& env, SessionOwner& owner, Links& links,
                 const SessionSteps& session)
    : env_(env),
      owner_(owner),
      links_(links),
      session_(session),
      timer_(env.clock.make_timer([this] { dial(); })) {}

void Dialler::schedule(uint64_t delay_ns) {
  if (!session_.stopped()) timer_->arm(delay_ns);
}

void Dialler::schedule_in_turn(uint64_t delay_ns) {
  schedule(env_.in_turn_ns(delay_ns));
}

void Dialler::session_up() {
  next_ = failed_ = 0;
  delay_ns_ = 0;
  timer_->disarm();
}

void Dialler::failed() {
  if (timer_->armed()) return;
  if (++failed_ < links_.count_enabled()) {
    schedule(0);
    return;
  }
  failed_ = 0;
  delay_ns_ =
      std::clamp(delay_ns_ * 2, limits::kReconnectDelayMin_ns, limits::kReconnectDelayMax_ns);
  schedule(delay_ns_);
}

// The first link that leads to a session is joined by the rest.
void Dialler::dial() {
  if (session_.stopped() || session_.established()) return;
  // Who dialled here and was refused, whoever it was, is not waited for.
  const auto busy = [](const Channel& channel) {
    return channel.shakes_hands() && (channel.dialled() || channel.phase() != Channel::Phase::kClosing);
  };
  if (!links_.channels(busy).empty()) return;
  if (owner_.draining()) {
    schedule(limits::kReconnectDelayMin_ns);
    return;
  }
  for (size_t looked = 0; looked < links_.count(); ++looked) {
    Link& link = *links_.all()[next_ % links_.count()];
    next_ = (next_ + 1) % links_.count();
    if (!link.enabled()) continue;
    links_.open(link, env_.network.dial(link.addresses()), true, Channel::Purpose::kHandshake);
    return;
  }
}

}  // namespace twinblock
