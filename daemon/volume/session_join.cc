// How further links join a session, on both sides.
#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/limits.h"
#include "volume/session.h"
#include "volume/session_channel.h"

namespace twinblock {

void Session::schedule_join(SessionLink& link, uint64_t delay_ns) {
  if (stopped_ || !link.enabled) return;
  link.join_at_ns = env_.clock.now_ns() + delay_ns;
  link.join_timer->arm(delay_ns);
}

void Session::join(SessionLink& link) {
  link.damped = false;
  if (stopped_ || !established_ || !link.enabled) return;
  const uint64_t now = env_.clock.now_ns();
  // One that has fallen silent may be replaced by a new connection over the same link.
  if (link.up != nullptr && link.up->silent_ns(now) < env_.config.link_timeout_ns) return;
  const bool pending = std::any_of(channels_.begin(), channels_.end(), [&](const auto& channel) {
    return &channel->link == &link && channel->dialled() &&
           channel->purpose == Channel::Purpose::kJoin && channel->phase != Channel::Phase::kUp;
  });
  if (pending) return;
  channels_.push_back(std::make_unique<Channel>(*this, link, env_.network.dial(link.addresses),
                                                true, Channel::Purpose::kJoin, now));
}

void Session::ask_to_join(Channel& channel) {
  channel.phase = Channel::Phase::kAwaitJoin;
  channel.session_id = session_;
  channel.incarnation = 2 * ++next_incarnation_ + (i_am_preferred() ? 0 : 1);
  channel.connection->send(wire::seal(wire::to_header(
      wire::JoinFrame{.incarnation = channel.incarnation,
                      .dialler = session_.dialler,
                      .acceptor = session_.acceptor,
                      .challenge = channel.peer_nonce})));
}

// Whether the channel is still open.
bool Session::handle_join(Channel& channel, const wire::JoinFrame& join) {
  const SessionId meant{join.dialler, join.acceptor};
  if (channel.phase == Channel::Phase::kAwaitJoin) {
    if (join.incarnation != channel.incarnation || meant != session_) {
      join_failed(channel, channel.address + " answered for another session", JoinFailure::kLater);
      return false;
    }
    if (channel.link.up != nullptr) {
      replaced_ns_ = env_.clock.now_ns();
      link_down(*channel.link.up, "it was silent; replaced by a new connection");
    }
    if (channel.phase == Channel::Phase::kClosed) return false;
    link_up(channel);
    return channel.phase != Channel::Phase::kClosed;
  }
  if (is_recorded(channel, join.challenge)) return false;
  channel.incarnation = join.incarnation;
  channel.session_id = meant;
  const bool about_to_stand =
      !established_ && std::any_of(channels_.begin(), channels_.end(), [&](const auto& other) {
        return other.get() != &channel && other->phase == Channel::Phase::kAwaitVerdict &&
               other->session_id == channel.session_id;
      });
  if (about_to_stand) {
    channel.phase = Channel::Phase::kParked;
    return true;
  }
  return accept_join(channel);
}

// Whether the channel is still open.
bool Session::accept_join(Channel& channel) {
  const auto refuse_join = [&](const std::string& why, int code = 0) {
    const auto text = wire::text_bytes(why);
    const wire::RefuseFrame refusal{.incarnation = channel.incarnation,
                                    .dialler = channel.session_id.dialler,
                                    .acceptor = channel.session_id.acceptor,
                                    .error = static_cast<uint32_t>(code)};
    channel.connection->send(wire::seal(wire::to_header(refusal), text));
    channel.connection->send(text);
    channel.close_soon(env_.clock.now_ns());
    return true;
  };
  if (!established_ || channel.session_id != session_)
    return refuse_join("the session that it would join has ended on " + env_.node, ESTALE);
  if (!channel.link.enabled) return refuse_join("the link is disabled on " + env_.node);
  // The peer's own numbers, ascending. One that another join of the peer has overtaken on its way
  // is asked for again.
  const uint64_t parity = i_am_preferred() ? 1 : 0;
  if (channel.incarnation % 2 != parity || channel.incarnation <= peer_incarnation_ ||
      channel.incarnation > limits::kIncarnationMax)
    return refuse_join("there was a later connection", EAGAIN);
  // Both dialled: the preferred node's connection stays, once it is connected.
  std::vector<Channel*> ours;
  for (const auto& other : channels_)
    if (other.get() != &channel && &other->link == &channel.link && other->dialled() &&
        other->purpose == Channel::Purpose::kJoin && other->phase != Channel::Phase::kUp)
      ours.push_back(other.get());
  for (Channel* other : ours) {
    if (i_am_preferred() && other->phase == Channel::Phase::kAwaitJoin) {
      discard(channel);
      return false;
    }
    discard(*other);
  }
  peer_incarnation_ = channel.incarnation;
  if (channel.link.up != nullptr) {
    replaced_ns_ = env_.clock.now_ns();
    link_down(*channel.link.up, peer_ + " has joined it anew");
  }
  if (channel.phase == Channel::Phase::kClosed) return false;
  channel.connection->send(wire::seal(wire::to_header(
      wire::JoinFrame{.incarnation = channel.incarnation,
                      .dialler = session_.dialler,
                      .acceptor = session_.acceptor})));
  link_up(channel);
  return channel.phase != Channel::Phase::kClosed;
}

void Session::join_failed(Channel& channel, const std::string& reason, JoinFailure failure) {
  SessionLink& link = channel.link;
  discard(channel);
  if (!established_) return;
  if (failure == JoinFailure::kNoSession && up_.empty()) {
    lose(reason, 0);
    return;
  }
  link.refused = failure == JoinFailure::kRefused;
  if (failure != JoinFailure::kLater) note_error(link, reason);
  if (failure == JoinFailure::kRefused || failure == JoinFailure::kUnreachable) link.tried = true;
  const uint64_t delay = link.damping.failed();
  schedule_join(link, up_.empty() ? LinkDamping::kRetryMin_ns : delay);
  give_up_if_all_tried();
}

}  // namespace twinblock
