#include "volume/loss_wait.h"

#include <cerrno>
#include <utility>

#include "base/checks.h"
#include "words/stall_words.h"

namespace twinblock {
namespace {

constexpr uint64_t kLossPoll_ns = 20 * kMillisecond_ns;

}  // namespace

std::optional<Error> why_taken_back(const Core& core, const std::function<bool()>& gone) {
  if (!gone || !gone()) return std::nullopt;
  const std::string why = "who said that " + core.peer + " is dead has gone, and took the order back by that";
  core.log.log(Severity::kInfo, "not to be promoted: " + why);
  return Error{why, "", ECANCELED, Retry::kNotNow};
}

LossWait::LossWait(Core& core, Calls calls)
    : core_(core), calls_(std::move(calls)), timer_(core.clock.make_timer([this] { look(); })) {}

void LossWait::begin(Reply reply, std::function<bool()> gone) {
  TB_CHECK(!waiting(), "one promotion at a time waits for the loss of the session");
  core_.log.log(Severity::kInfo, "to be promoted, as " + core_.peer +
                                     " is said to be dead: waiting until it counts as lost, or "
                                     "answers");
  wait_ = {std::move(reply), std::move(gone), core_.clock.now_ns()};
  timer_->arm(0);
}

void LossWait::look() {
  TB_CHECK(waiting(), "the timer runs while a promotion waits");
  if (std::optional<Error> why = why_taken_back(core_, wait_->gone)) {
    end()(*std::move(why));
    return;
  }
  if (!calls_.goes_on()) {
    calls_.over(end());
    return;
  }
  std::optional<Error> error = why_not_wait(wait_->since_ns);
  if (!error) {
    timer_->arm(kLossPoll_ns);
    return;
  }
  end()(*std::move(error));
}

void LossWait::give_up(Error why) {
  if (!waiting()) return;
  timer_->disarm();
  end()(std::move(why));
}

// It may have said so just before it died: then the word is given once more.
void LossWait::peer_is_primary_now() { give_up(lives("it has just become that")); }

Error LossWait::lives(const std::string& how) const {
  // The operator may well have seen that it answers no client.
  if (const uint64_t stalled_ns = core_.session.heartbeats().peer_stalled_ns(); stalled_ns > 0)
    return {core_.peer + " is primary and not dead: " + how + ", though " + stalled_words(stalled_ns),
            end_stalled_primary(core_.peer) + ", and then say --peer-is-dead again", EBUSY, Retry::kNotNow};
  return {core_.peer + " is primary and not dead: " + how,
          "run `twinblock demote " + core_.config.volume + "` there first; if it is to be cut off, do "
          "that before you say --peer-is-dead",
          EBUSY, Retry::kNotNow};
}

std::optional<Error> LossWait::why_not_wait(uint64_t since_ns) const {
  const std::string& volume = core_.config.volume;
  if (core_.session.answered_since(since_ns)) return lives("it has just answered this node");
  if (core_.lateness().passed_ns(since_ns, core_.clock.now_ns()) >
      2 * core_.config.peer_timeout_ns)
    return Error{core_.peer + " is primary; it does not answer, but the session with it stands",
                 "look at it with `twinblock status " + volume + "`, then try again", ETIMEDOUT,
                 Retry::kLater};
  return std::nullopt;
}

// The next promotion may begin to wait from within the answer to this one.
LossWait::Reply LossWait::end() {
  Reply reply = std::move(wait_->reply);
  wait_.reset();
  return reply;
}

}  // namespace twinblock
