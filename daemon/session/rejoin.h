// How a link comes into the session, again and again: when it is tried next, what the last tries came to,
// and whether a connection that works is to be replaced. Owned by the link; loop thread only.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "io/clock.h"
#include "mirror/link_damping.h"

namespace twinblock {

// Why a connection that was dialled to join the session has not joined it.
enum class JoinFailure {
  kRefused,      // the peer says no
  kNoSession,    // … as it has no such session any more
  kUnreachable,  // nobody takes the connection
  kNoAnswer,     // it may be under way
  kLater,        // nothing is wrong: try again
};

class Rejoin {
 public:
  // Once, before anything else: fires when the link is to be joined.
  void set_timer(std::unique_ptr<Timer> timer) { timer_ = std::move(timer); }

  void plan(uint64_t delay_ns, uint64_t now_ns) {
    due_ns_ = now_ns + delay_ns;
    timer_->arm(delay_ns);
  }
  // Nothing is planned, and nothing is waited for.
  void cancel() {
    timer_->disarm();
    damped_ = false;
  }
  // It is tried now, or at once: it is left alone no longer.
  void end_damping() { damped_ = false; }
  [[nodiscard]] bool planned_by(uint64_t moment_ns) const { return timer_->armed() && due_ns_ <= moment_ns; }
  // 0: it is not planned.
  [[nodiscard]] uint64_t due_in_ns(uint64_t now_ns) const {
    return timer_->armed() && due_ns_ > now_ns ? due_ns_ - now_ns : 0;
  }

  void joined() {
    cancel();
    damping_.joined();
    tried_ = refused_ = false;
  }
  // It was up for so long, and is lost; for how long it is left alone.
  [[nodiscard]] uint64_t lost(uint64_t up_for_ns) {
    const uint64_t delay_ns = damping_.lost(up_for_ns);
    damped_ = delay_ns > 0;
    return delay_ns;
  }
  // A try came to nothing; after how long the next one is due.
  [[nodiscard]] uint64_t failed(JoinFailure failure) {
    refused_ = failure == JoinFailure::kRefused;
    tried_ = tried_ || refused_ || failure == JoinFailure::kUnreachable;
    return damping_.failed();
  }
  // Tries count anew: the session has a link, or has just lost its last one.
  void forget_tries() { tried_ = false; }
  // The peer, or this node, may take it now.
  void forget_refusal() { refused_ = false; }

  void want_renewal(uint64_t now_ns) { renew_since_ns_ = now_ns; }
  // If that was wanted before what was dialled at `dialled_ns`, which has the key of then.
  void end_renewal_before(uint64_t dialled_ns) {
    if (renew_since_ns_ <= dialled_ns) renew_since_ns_.reset();
  }

  // It could not be joined since the session has been without any link.
  [[nodiscard]] bool tried() const { return tried_; }
  // It flaps, and is left alone until it is due.
  [[nodiscard]] bool damped() const { return damped_; }
  // The peer, or this node, does not take it; the link's last error says why.
  [[nodiscard]] bool refused() const { return refused_; }
  // Its connection is to be one that is dialled from then on (LinkJoins::renew_all).
  [[nodiscard]] bool renewal_wanted() const { return renew_since_ns_.has_value(); }

 private:
  std::unique_ptr<Timer> timer_;
  uint64_t due_ns_ = 0;  // when it fires
  LinkDamping damping_;
  bool tried_ = false;
  bool damped_ = false;
  bool refused_ = false;
  std::optional<uint64_t> renew_since_ns_;
};

}  // namespace twinblock
