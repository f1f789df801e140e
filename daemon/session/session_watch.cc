#include "session/session_watch.h"

#include <algorithm>
#include <string>
#include <vector>

#include "base/limits.h"
#include "base/units.h"

namespace twinblock {

SessionWatch::SessionWatch(const SessionEnvironment& env, SessionOwner& owner,
                           SessionSteps& session, const Parts& parts)
    : env_(env),
      owner_(owner),
      session_(session),
      parts_(parts),
      tick_timer_(env_.clock.make_timer([this] { tick(); })) {}

void SessionWatch::start() { arm_tick(parts_.heartbeats.interval_ns()); }

void SessionWatch::arm_tick(uint64_t delay_ns) {
  env_.lateness.expect(env_.clock.now_ns() + delay_ns);
  tick_timer_->arm(delay_ns);
}

void SessionWatch::tick() {
  parts_.links.sweep();
  const uint64_t now = env_.clock.now_ns();
  // The loop calls timers before it looks at sockets: after a stand-still the peer hears at once that
  // this node lives, and is judged when what it sent meanwhile has been read. Once: a loop that has
  // time for one turn only, again and again, judges as well.
  catching_up_ = env_.lateness.looks(now) && !catching_up_;
  if (catching_up_) {
    arm_tick(0);
    if (session_.established()) parts_.heartbeats.send_all(now);
    return;
  }
  arm_tick(parts_.heartbeats.interval_ns());
  parts_.strangers.tick(now);
  parts_.peer_log.tick(now);
  parts_.handshake.time_out_late(now);
  parts_.responder.tick(now);
  if (!session_.established()) return;
  parts_.heartbeats.send_all(now);
  parts_.links.update_rates(now);
  owner_.links_changed();
  look_for_loss(now);
  parts_.joins.renew_next();
}

void SessionWatch::look_for_loss(uint64_t now) {
  if (const auto silence = parts_.heartbeats.silence(now))
    session_.lose(*silence, 0);
  else if (parts_.traffic.carries_nothing(now, parts_.joins.replaced_ns()))
    // A client that waits has some time without the peer, before it is tried again.
    session_.lose("the links to " + env_.peer() + " come up, but nothing comes through",
                  limits::kReconnectDelayMax_ns);
  else if (session_.tells_in_vain())
    session_.lose(env_.peer() + " has connections closed again and again, and does not confirm what it is told of them",
                  limits::kReconnectDelayMax_ns);
  else if (const auto hangs = parts_.traffic.hangs_ns(now))
    session_.lose(env_.peer() + " is alive but has not finished a request for " + format_duration(*hangs) +
                      "; its disk may hang",
                  10 * limits::kReconnectDelayMax_ns);
  else
    look_for_silence(now);
  if (session_.established() && parts_.newcomers.believed(now))
    session_.lose(env_.peer() + " connected anew, and the session has been silent for " +
                      format_duration(parts_.heartbeats.silent_ns(now)),
                  0);
}

// A silent link is given up while another one lives. The last one is the peer timeout's.
void SessionWatch::look_for_silence(uint64_t now) {
  std::vector<Channel*> silent;
  bool healthy = false;
  bool alive = false;
  for (Channel* channel : parts_.links.up()) {
    const uint64_t silent_ns = channel->silent_ns(env_.lateness, now);
    healthy = healthy || silent_ns <= parts_.heartbeats.suspicious_ns();
    if (parts_.heartbeats.is_gone(*channel, now))
      silent.push_back(channel);
    else
      alive = alive || silent_ns <= env_.config.link_timeout_ns;
  }
  if (!healthy) parts_.joins.replace_silent();
  if (!alive) return;
  for (Channel* channel : silent) {
    Link& link = channel->link();
    const std::string silence = format_duration(channel->silent_ns(env_.lateness, now));
    session_.link_down(*channel,
                       env_.peer() + " was silent on it, or did not hear this node, for " + silence,
                       LinkEnd::kLost);
    link.given_up_for_silence(now);
  }
}

}  // namespace twinblock
