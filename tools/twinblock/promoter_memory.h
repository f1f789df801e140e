// What a promoter remembers between two looks at its node: from what it sees and does to the facts that
// promoter_decision.h goes by. Pure. Times are of the steady clock.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "twinblock/promoter_decision.h"

namespace twinblock {

class PromoterMemory {
 public:
  [[nodiscard]] const PromoterFacts& facts() const { return facts_; }

  // The node's status; none: it does not answer.
  void see(std::optional<PromoterView> view, uint64_t now_ns);
  // One of the node's events. `wall_now_ns`: what the host's clock says at `now_ns`. Only after see().
  void hear(const nlohmann::json& event, uint64_t wall_now_ns, uint64_t now_ns);
  // The node's events begin anew: it is another process.
  void forget_events();

  // What has come of a step. One that was carried out shows in the next status.
  void promotion_refused(PromotionRefusal refusal, uint64_t now_ns);
  void demotion_refused(uint64_t now_ns);
  // … or was not answered in time, and goes on at the node. (What is answered afterwards may be that it does so still.)
  void promotion_unanswered() { facts_.promotion_unanswered = true; }
  void demoted() { facts_.promotion_unanswered = false; }
  void target_starts();
  void target_stops() { facts_.target = TargetState::kStopping; }
  // It does not start or stop any more. `aborted`: it was not let finish, which is nobody's fault.
  void target_started(bool good, bool aborted, uint64_t now_ns);
  void target_stopped(bool good, uint64_t now_ns);
  // The promoter is told to end.
  void end(uint64_t now_ns);

 private:
  void role_changed(const std::string& node, bool primary, uint64_t at_ns);

  PromoterFacts facts_;
  std::string stands_;  // how the two nodes stand to each other, of which `since_ns` is
};

}  // namespace twinblock
