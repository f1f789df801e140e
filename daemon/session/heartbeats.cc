#include "session/heartbeats.h"

#include <algorithm>

#include "base/limits.h"
#include "base/units.h"
#include "wire/codec.h"

namespace twinblock {
namespace {

// A peer that is heard, but of which no beat comes, may not have heard this node for so many `peer_timeout`s.
constexpr uint64_t kTimeoutsWithoutABeat = 3;

}  // namespace

Heartbeats::Heartbeats(const SessionEnvironment& env, SessionOwner& owner, Links& links,
                       ControlStream& control)
    : env_(env), owner_(owner), links_(links), control_(control) {}

uint64_t Heartbeats::interval_ns() const {
  return std::min(limits::kHeartbeatInterval_ns, env_.config.link_timeout_ns / 4);
}

uint64_t Heartbeats::one_beat_ns() const { return interval_ns() * 5 / 4; }

uint64_t Heartbeats::suspicious_ns() const {
  return std::min(limits::kSuspicious_ns, env_.config.link_timeout_ns * 3 / 5);
}

void Heartbeats::session_up() {
  last_heard_ns_ = last_echo_ns_ = last_beat_ns_ = env_.clock.now_ns();
  disk_still_ns_ = 0;
  peer_stalled_ns_ = 0;
}

void Heartbeats::channel_up(Channel& channel) {
  channel.life().begin_presence(presence_ns_);
  last_heard_ns_ = env_.clock.now_ns();
  if (channel.link().patience().returned(last_heard_ns_)) tell_patience(channel.link(), last_heard_ns_);
  last_echo_ns_ = std::max(last_echo_ns_, channel.opened_ns());  // it has answered what began then
}

void Heartbeats::heard(Channel& channel) {
  const uint64_t now = env_.clock.now_ns();
  channel.life().heard(now);
  if (!channel.up()) return;
  presence_ns_ += std::min(now - std::min(now, last_heard_ns_), one_beat_ns());
  channel.life().heard_in_presence(presence_ns_);
  last_heard_ns_ = now;
}

void Heartbeats::heard_by_peer(Channel* channel, uint64_t moment_ns, uint64_t waited_ns) {
  last_echo_ns_ = std::max(last_echo_ns_, moment_ns);
  if (channel == nullptr) return;
  const uint64_t age_ns = std::min(waited_ns, env_.lateness.passed_ns(moment_ns, env_.clock.now_ns()));
  channel->life().heard_by_peer(moment_ns, presence_ns_ - std::min(presence_ns_, age_ns));
}

void Heartbeats::send(Channel& channel, uint64_t now) {
  const SignsOfLife& life = channel.life();
  const uint64_t stalled_ns = owner_.disk_stalled_ns();
  const wire::HeartbeatFrame beat{.sent_ns = now,
                                  .echo_ns = life.peer_tick_ns(),
                                  .held_ns = life.tick_held_ns(now),
                                  .received = control_.received(),
                                  .full = links_.paused(),
                                  .disk_still_ns = stalled_ns > 0 ? stalled_ns : owner_.disk_still_ns(),
                                  .stalled = stalled_ns > 0};
  control_.confirmed();
  channel.connection().send(wire::seal(wire::to_header(beat)));
}

void Heartbeats::send_all(uint64_t now) {
  for (Channel* channel : links_.up()) {
    SignsOfLife& life = channel->life();
    // Before the heartbeat, which waits for the end of this turn and says nothing of a queue. Nor
    // does what the kernel has room for: of the bytes that were queued at the last tick some must
    // have left since, and some must wait still.
    const uint64_t sent = channel->connection().sent_bytes_total();
    const auto [waits, moves] = life.look_at_queue(sent, channel->connection().queued_bytes_total());
    // What this node has not read because it has enough to do is not the peer's silence. But where
    // it has enough to do because of answers that wait to be sent, and nothing takes any of them, the
    // pause would last as long as the silence: such a connection is judged as ever.
    const bool unread = links_.paused() && (moves || !waits);
    if (unread) heard(*channel);
    // What the peer takes from a long queue proves that our direction works before any answer to it
    // can come.
    if (unread || (waits && moves)) {
      last_echo_ns_ = now;
      life.heard_by_peer(now, presence_ns_);
    }
    send(*channel, now);
  }
}

bool Heartbeats::take(Channel& channel, const wire::Frame& frame) {
  const auto beat = wire::frame_as<wire::HeartbeatFrame>(frame.header);
  const uint64_t now = env_.clock.now_ns();
  if (!control_.peer_has(beat.received)) return false;
  SignsOfLife& life = channel.life();
  disk_got_on_ns_ = std::max(disk_got_on_ns_, now - std::min(now, beat.disk_still_ns));
  disk_still_ns_ = beat.disk_still_ns;
  peer_stalled_ns_ = beat.stalled ? beat.disk_still_ns : 0;
  if (frame.arrived_ns != 0)
    (void)life.estimate_arrival(beat.sent_ns, frame.arrived_ns, frame.arrived_alone);
  last_beat_ns_ = now;
  const bool first = !life.has_ticked();
  life.ticked(beat.sent_ns, now, presence_ns_);
  // The first beat of a connection is ahead of all that the peer sends, and may be the only one for long that
  // tells what the way takes where nothing waits: it is answered at once.
  if (first && channel.up()) send(channel, now);
  const uint64_t echo = beat.echo_ns;
  if (echo == 0 || echo > now) return true;
  answered_beat_ns_ = std::max(answered_beat_ns_, echo);
  // The peer heard a beat `held_ns` before it sent this one: however long that beat was under way
  // behind other frames, our direction works. One that has stopped reading, as it has enough to do,
  // says so.
  heard_by_peer(&channel, beat.full ? now : std::max(echo, now - std::min(now, beat.held_ns)),
                life.count_waiting(beat.sent_ns, echo, beat.held_ns, one_beat_ns()));
  if (now - echo >= beat.held_ns) {
    const uint64_t round_trip_ns = now - echo - beat.held_ns;
    life.went_round(round_trip_ns);
    channel.link().meter().round_trip(round_trip_ns, echo, now);
  }
  return true;
}

uint64_t Heartbeats::silent_ns(uint64_t now) const {
  return env_.lateness.passed_ns(last_heard_ns_, now);
}

uint64_t Heartbeats::missing_ns(const Channel& channel, uint64_t now) const {
  const SignsOfLife& life = channel.life();
  const uint64_t unheard_ns = env_.lateness.passed_ns(life.last_echo_ns(), now);
  const uint64_t by_any_ns = env_.lateness.passed_ns(last_echo_ns_, now);
  const uint64_t told_ns = std::max(life.told_presence_ns(), life.echo_presence_ns());
  return std::max(presence_ns_ - life.heard_presence_ns(),
                  std::min(told_ns - life.echo_presence_ns(),
                           unheard_ns - std::min(unheard_ns, by_any_ns)));
}

bool Heartbeats::is_gone(const Channel& channel, uint64_t now) const {
  const uint64_t silent_ns = channel.silent_ns(env_.lateness, now);
  const uint64_t limit = channel.link().patience().limit_ns(now);
  const uint64_t missing = missing_ns(channel, now);
  if (silent_ns > limit && missing > limit) return true;
  // Before all of them are given up with the peer; but a peer that stands still itself, and is just heard again over another
  // link, is about to be heard over this one.
  return silent_ns > env_.config.peer_timeout_ns * 3 / 4 && missing > limit / 2;
}

// It was given up for its silence again, and was not dead.
void Heartbeats::tell_patience(const Link& link, uint64_t now) {
  const uint64_t limit_ns = link.patience().limit_ns(now);
  const std::string reason =
      "was given up several times for its silence, and was back at once: it may be silent for " +
      format_duration(limit_ns) + " from now on";
  env_.events.tell("link-patience", {{"link", link.name()},
                                     {"milliseconds", limit_ns / kMillisecond_ns},
                                     {"reason", reason}});
  env_.log.log(Severity::kWarning, "link " + link.name() + " " + reason);
}

std::optional<std::string> Heartbeats::silence(uint64_t now) const {
  const uint64_t timeout = env_.config.peer_timeout_ns;
  if (const uint64_t silent = silent_ns(now); silent > timeout)
    return env_.peer() + " has been silent for " + format_duration(silent);
  // As the latest beat says: the next one may lie behind what the peer has sent before it, which comes. Silence since
  // forgives nothing, and nobody whose beats do not come at all is waited for without end.
  const uint64_t told_unheard_ns = env_.lateness.passed_ns(last_echo_ns_, last_beat_ns_);
  const uint64_t unheard = env_.lateness.passed_ns(last_echo_ns_, now);
  if (told_unheard_ns + silent_ns(now) > timeout || unheard > kTimeoutsWithoutABeat * timeout)
    return env_.peer() + " has not heard this node for " + format_duration(unheard);
  return std::nullopt;
}

}  // namespace twinblock
