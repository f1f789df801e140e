#include "session/link_joins.h"

#include <algorithm>
#include <cerrno>

#include "base/limits.h"
#include "wire/codec.h"

namespace twinblock {
namespace {

// A peer that lives has sent a heartbeat by then.
constexpr uint64_t kMoment_ns = limits::kHeartbeatInterval_ns * 3 / 2;

}  // namespace

LinkJoins::LinkJoins(const SessionEnvironment& env, Links& links, const Heartbeats& heartbeats,
                     SessionSteps& session)
    : env_(env), links_(links), heartbeats_(heartbeats), session_(session) {}

void LinkJoins::prepare(Link& link) {
  link.rejoin().set_timer(env_.clock.make_timer([this, &link] { join(link); }));
}

void LinkJoins::session_up() {
  next_incarnation_ = peer_incarnation_ = 0;
  replaced_ns_ = 0;
}

void LinkJoins::join_others() {
  for (const auto& link : links_.all())
    if (link->up() == nullptr) schedule_in_turn(*link);
  const auto parked = [](const Channel& channel) {
    return channel.phase() == Channel::Phase::kParked;
  };
  for (Channel* channel : links_.channels(parked))
    if (session_.established() && parked(*channel)) accept(*channel, false);
}

// --- when

void LinkJoins::schedule(Link& link, uint64_t delay_ns) {
  if (session_.stopped() || !link.enabled()) return;
  link.rejoin().plan(delay_ns, env_.clock.now_ns());
}

void LinkJoins::schedule_in_turn(Link& link, uint64_t delay_ns) {
  schedule(link, env_.in_turn_ns(delay_ns));
}

void LinkJoins::replace_silent() {
  const uint64_t now = env_.clock.now_ns();
  // Not put off by each further tick.
  const uint64_t soon_ns = env_.preferred() ? 0 : limits::kSecondJoinDelay_ns;
  for (const auto& link : links_.all())
    if (!link->rejoin().planned_by(now + soon_ns)) schedule(*link, soon_ns);
}

void LinkJoins::renew_all() {
  // Also where it is not up, or disabled: what is being dialled has the key of before, and so may what the peer dials
  // later.
  for (const auto& link : links_.all()) link->rejoin().want_renewal(env_.clock.now_ns());
  renew_next();
}

void LinkJoins::renew_next() {
  if (!session_.established() || session_.stopped()) return;
  const auto renews = [](const Channel& channel) { return channel.renews() && !channel.up(); };
  if (!links_.channels(renews).empty()) return;
  for (const auto& link : links_.all()) {
    if (!link->rejoin().renewal_wanted() || !speaks(*link) || !attempts(*link).empty()) continue;
    links_.open(*link, env_.network.dial(link->addresses()), true, Channel::Purpose::kRenewal);
    return;
  }
}

void LinkJoins::linger(bool at_once) {
  for (const auto& link : links_.all()) {
    link->rejoin().forget_tries();
    link->rejoin().end_damping();
    schedule(*link, env_.preferred() || at_once ? 0 : limits::kSecondJoinDelay_ns);
  }
  give_up_if_all_tried();  // none may be used
}

void LinkJoins::give_up_if_all_tried() {
  if (!session_.established() || !links_.up().empty()) return;
  std::string reasons;
  for (const auto& link : links_.all()) {
    if (!link->enabled()) continue;
    if (!link->rejoin().tried()) return;
    reasons += (reasons.empty() ? "" : "; ") + link->name() + ": " + link->errors().last();
  }
  session_.lose("no link to " + env_.peer() + " is left (" + reasons + ")", 0);
}

// --- the side that dials

LinkEnd LinkJoins::ended_by_peer(const Link& link) const {
  const std::vector<Channel*> begun = attempts(link);
  const bool renewed = std::any_of(begun.begin(), begun.end(), [](const Channel* channel) {
    return channel->renews() && channel->phase() == Channel::Phase::kAwaitJoin;
  });
  return renewed ? LinkEnd::kRenewed : LinkEnd::kLost;
}

// Connections of this link that were dialled to join, and have not.
std::vector<Channel*> LinkJoins::attempts(const Link& link) const {
  return links_.channels([&](const Channel& channel) {
    return &channel.link() == &link && channel.dialled_to_join() && !channel.up();
  });
}

void LinkJoins::join(Link& link) {
  link.rejoin().end_damping();
  if (session_.stopped() || !session_.established() || !link.enabled()) return;
  const std::vector<Channel*> begun = attempts(link);
  const uint64_t now = env_.clock.now_ns();
  for (Channel* channel : begun) {
    if (channel->phase() != Channel::Phase::kReplacing) continue;
    const uint64_t passed_ns = env_.lateness.passed_ns(channel->life().last_heard_ns(), now);
    if (is_heard(link) || lives(*channel))
      links_.discard(*channel);
    else if (passed_ns < kMoment_ns)
      schedule(link, kMoment_ns - passed_ns);
    else
      ask(*channel);
  }
  // One that has fallen silent may be replaced by a new connection over the same link.
  if (!begun.empty() || is_heard(link)) return;
  links_.open(link, env_.network.dial(link.addresses()), true, Channel::Purpose::kJoin);
}

// Whether the link needs no other connection: it is up, and works, or is to be given up for another
// one that does.
bool LinkJoins::is_heard(const Link& link) const {
  return link.up() != nullptr &&
         std::any_of(links_.up().begin(), links_.up().end(),
                     [this](const Channel* channel) { return works(channel->link()); });
}

bool LinkJoins::works(const Link& link) const {
  return link.up() != nullptr &&
         link.up()->silent_ns(env_.lateness, env_.clock.now_ns()) < env_.config.link_timeout_ns;
}

// Whether the peer is there: what it does not answer then, it would not answer later either.
bool LinkJoins::speaks(const Link& link) const {
  return link.up() != nullptr &&
         env_.lateness.passed_ns(link.up()->life().last_heard_ns(), env_.clock.now_ns()) < kMoment_ns;
}

// Whether the connection that `channel` would replace has been heard since that was dialled. A peer
// that has not read yet what this node sent is given the time for it.
bool LinkJoins::lives(const Channel& channel) const {
  const Channel* old = channel.link().up();
  return old != nullptr && old->life().last_heard_ns() > channel.opened_ns() &&
         heartbeats_.missing_ns(*old, env_.clock.now_ns()) <= env_.config.link_timeout_ns;
}

void LinkJoins::may_ask(Channel& channel) {
  if (channel.link().up() == nullptr || channel.renews()) return ask(channel);
  channel.enter(Channel::Phase::kReplacing);
  schedule(channel.link(), kMoment_ns);
}

void LinkJoins::ask(Channel& channel) {
  channel.enter(Channel::Phase::kAwaitJoin);
  channel.join(session_.id(), 2 * ++next_incarnation_ + (env_.preferred() ? 0 : 1));
  channel.connection().send(
      wire::seal(wire::to_header(wire::JoinFrame{.incarnation = channel.incarnation(),
                                                 .dialler = session_.id().dialler,
                                                 .acceptor = session_.id().acceptor,
                                                 .challenge = channel.intro().peer_nonce(),
                                                 .renews = channel.renews()})));
}

// Another connection takes the place of the one that the link has.
void LinkJoins::replace(Link& link, LinkEnd end, const std::string& why) {
  if (link.up() == nullptr) return;
  if (end != LinkEnd::kRenewed) replaced_ns_ = env_.clock.now_ns();
  session_.link_down(*link.up(), why, end);
}

bool LinkJoins::take(Channel& channel, const wire::JoinFrame& join) {
  const SessionId meant{join.dialler, join.acceptor};
  if (channel.phase() == Channel::Phase::kAwaitJoin) {
    if (join.incarnation != channel.incarnation() || meant != session_.id()) {
      failed(channel, channel.address() + " answered for another session", Failure::kLater);
      return false;
    }
    replace(channel.link(), channel.renews() ? LinkEnd::kRenewed : LinkEnd::kLost,
            "it was silent; replaced by a new connection");
    if (!channel.open()) return false;
    session_.link_up(channel);
    renew_next();
    return channel.open();
  }
  channel.join(meant, join.incarnation);
  const auto leads_to_it = [&](const Channel& other) {
    return &other != &channel && other.phase() == Channel::Phase::kAwaitVerdict &&
           other.intro().session_id() == meant;
  };
  if (!session_.established() && !links_.channels(leads_to_it).empty()) {
    // One a link, the last that came: others would take the places of those that have not said who they are.
    const auto before_it = [&](const Channel& other) {
      return &other.link() == &channel.link() && other.phase() == Channel::Phase::kParked;
    };
    for (Channel* other : links_.channels(before_it)) links_.discard(*other);
    channel.enter(Channel::Phase::kParked);
    return true;
  }
  return accept(channel, join.renews);
}

// The peer says no. What says no to another join than ours may be a recording.
void LinkJoins::refused(Channel& channel, const wire::RefuseFrame& refusal,
                        const std::string& said) {
  const bool ours = channel.phase() == Channel::Phase::kAwaitJoin &&
                    refusal.incarnation == channel.incarnation() &&
                    SessionId{refusal.dialler, refusal.acceptor} == channel.intro().session_id();
  failed(channel, said,
         !ours                     ? Failure::kNoAnswer
         : refusal.error == ESTALE ? Failure::kNoSession
         : refusal.error == EAGAIN ? Failure::kLater
                                   : Failure::kRefused);
}

void LinkJoins::closed(Channel& channel, const std::string& reason) {
  // Who takes a connection, and does not get so far as to speak, may be about to change its key.
  failed(channel, reason,
         channel.phase() != Channel::Phase::kConnecting ? Failure::kLater
         : channel.reached()                          ? Failure::kNoAnswer
                                                      : Failure::kUnreachable);
}

void LinkJoins::withdrawn(uint64_t incarnation, const std::string& reason) {
  const auto meant = [&](const Channel& channel) {
    return channel.phase() == Channel::Phase::kAwaitJoin && channel.incarnation() == incarnation;
  };
  const std::vector<Channel*> asked = links_.channels(meant);
  if (!asked.empty()) failed(*asked.front(), reason, Failure::kLater);
}

void LinkJoins::failed(Channel& channel, const std::string& reason, Failure failure) {
  Link& link = channel.link();
  const bool renewed = channel.renews();
  const uint64_t opened_ns = channel.opened_ns();
  links_.discard(channel);
  if (!session_.established()) return;
  if (failure == Failure::kNoSession && links_.up().empty()) {
    session_.lose(reason, 0);
    return;
  }
  if (renewed) {
    // What became of it says nothing of a link that has lost its connection meanwhile: that one is
    // dialled for itself.
    const bool is_a_no = failure != Failure::kLater && failure != Failure::kNoSession;
    if (is_a_no && speaks(link)) link.rejoin().end_renewal_before(opened_ns);
    session_.note_error(link, reason);
    if (link.up() == nullptr) schedule(link, LinkDamping::kRetryMin_ns);
    if (is_a_no) renew_next();  // else at the next tick: what is not to be yet would not be now either
    return;
  }
  if (failure != Failure::kLater) session_.note_error(link, reason);
  const uint64_t delay = link.rejoin().failed(failure);
  schedule(link, links_.up().empty() ? LinkDamping::kRetryMin_ns : delay);
  give_up_if_all_tried();
}

// --- the side that accepts

// Always true: the channel is open until the peer has read why.
bool LinkJoins::refuse(Channel& channel, const std::string& why, int code) {
  channel.refuse({.incarnation = channel.incarnation(),
                  .dialler = channel.intro().session_id().dialler,
                  .acceptor = channel.intro().session_id().acceptor,
                  .error = static_cast<uint32_t>(code)},
                 why, env_.clock.now_ns());
  return true;
}

// Whether the channel is still open.
bool LinkJoins::accept(Channel& channel, bool renews) {
  if (!session_.established() || channel.intro().session_id() != session_.id())
    return refuse(channel, "the session that it would join has ended on " + env_.node, ESTALE);
  if (!channel.link().enabled()) return refuse(channel, "the link is disabled on " + env_.node);
  // The peer's own numbers, ascending. One that another join of the peer has overtaken on its way
  // is asked for again.
  const uint64_t parity = env_.preferred() ? 1 : 0;
  if (channel.incarnation() % 2 != parity || channel.incarnation() <= peer_incarnation_ ||
      channel.incarnation() > limits::kIncarnationMax)
    return refuse(channel, "there was a later connection", EAGAIN);
  // Both dialled: the preferred node's connection stays, once it is connected.
  for (Channel* other : attempts(channel.link())) {
    if (env_.preferred() && other->phase() == Channel::Phase::kAwaitJoin) {
      links_.discard(channel);
      return false;
    }
    links_.discard(*other);
  }
  peer_incarnation_ = channel.incarnation();
  replace(channel.link(),
          renews                  ? LinkEnd::kRenewed
          : works(channel.link()) ? LinkEnd::kReplaced
                                  : LinkEnd::kLost,
          env_.peer() + " has joined it anew");
  if (!channel.open()) return false;
  channel.connection().send(
      wire::seal(wire::to_header(wire::JoinFrame{.incarnation = channel.incarnation(),
                                                 .dialler = session_.id().dialler,
                                                 .acceptor = session_.id().acceptor})));
  session_.link_up(channel);
  renew_next();  // one of this node's may have been under way
  return channel.open();
}

}  // namespace twinblock
