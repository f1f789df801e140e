// A promotion with the operator's word that the peer is dead, while the session with it still stands:
// right after a loss of power nothing has told this node yet. It waits until the peer counts as lost,
// which is within the peer timeout; if the peer shows that it lives, the word was wrong.
#include <cerrno>
#include <utility>

#include "volume/engine.h"

namespace twinblock {
namespace {

constexpr uint64_t kLossPoll_ns = 20 * kMillisecond_ns;

}  // namespace

void Engine::wait_for_loss(Reply reply) {
  if (role_ == Role::kPromoting) {  // it had asked the peer, which did not answer any more
    promote_timer_->disarm();
    take_promotion_back();
  }
  log(Severity::kInfo, "to be promoted, as " + core_.peer +
                           " is said to be dead: waiting until it counts as lost, or answers");
  loss_wait_ = {std::move(reply), core_.clock.now_ns()};
  loss_timer_->arm(0);
}

void Engine::look_for_loss() {
  const uint64_t since_ns = loss_wait_->since_ns;
  if (!peer_is_primary_in_session() || why_not_serve()) {
    LossWait ended = std::move(*loss_wait_);
    loss_wait_.reset();
    promote(true, std::move(ended.reply));
    return;
  }
  const std::string& volume = core_.config.volume;
  std::optional<Error> error;
  if (session_.answered_since(since_ns))
    error = Error{core_.peer + " is primary and not dead: it has just answered this node",
                  "run `twinblock demote " + volume + "` there first; if it is to be cut off, do "
                  "that before you say --peer-is-dead",
                  EBUSY};
  else if (core_.clock.now_ns() - since_ns > 2 * core_.config.peer_timeout_ns)
    error = Error{core_.peer + " is primary; it does not answer, but the session with it stands",
                  "look at it with `twinblock status " + volume + "`, then try again", ETIMEDOUT};
  if (!error) {
    loss_timer_->arm(kLossPoll_ns);
    return;
  }
  LossWait ended = std::move(*loss_wait_);
  loss_wait_.reset();
  ended.reply(*std::move(error));
}

}  // namespace twinblock
