// A promotion with the operator's word that the peer is dead, while the session with it still
// stands: right after a loss of power nothing has told this node yet. It waits until the peer counts
// as lost, which is within the peer timeout; if the peer shows that it lives, the word was wrong. If whoever gave
// it waits no more (he ended his command), it is withdrawn.
//
// Owned by Roles; loop thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "volume/core.h"

namespace twinblock {

// Why what was ordered by the word that the peer is dead is not carried out: who gave it waits no more. The log says so, too.
[[nodiscard]] std::optional<Error> why_taken_back(const Core& core, const std::function<bool()>& gone);

class LossWait {
 public:
  // A sentence for the operator, or an error with an action.
  using Reply = std::function<void(Result<std::string>)>;
  struct Calls {
    // Whether there is still anything to wait for.
    std::function<bool()> goes_on;
    // There is not: the promotion is to be tried, and to be answered for.
    std::function<void(Reply)> over;
  };

  LossWait(Core& core, Calls calls);

  // `gone`: whether who gave the order has gone meanwhile; null: he stays.
  void begin(Reply reply, std::function<bool()> gone);
  [[nodiscard]] bool waiting() const { return wait_.has_value(); }
  // Whoever waits does so no longer.
  void give_up(Error why);
  // The peer has become primary: whoever waits for its loss was told so by a word that is wrong.
  void peer_is_primary_now();

 private:
  struct Wait {
    Reply reply;
    std::function<bool()> gone;
    uint64_t since_ns;
  };

  void look();
  [[nodiscard]] Error lives(const std::string& how) const;
  [[nodiscard]] std::optional<Error> why_not_wait(uint64_t since_ns) const;
  [[nodiscard]] Reply end();

  Core& core_;
  const Calls calls_;
  std::optional<Wait> wait_;
  std::unique_ptr<Timer> timer_;
};

}  // namespace twinblock
