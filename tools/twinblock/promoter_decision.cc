#include "twinblock/promoter_decision.h"

#include <algorithm>

namespace twinblock {
namespace {

PromoterVerdict nothing(std::string why) { return {PromoterStep::kNothing, 0, std::move(why)}; }

// The step, once it is time; until then the reason why it is not.
struct Gate {
  uint64_t open_ns = 0;
  std::string why;

  void wait_until(uint64_t ns, std::string reason) {
    if (ns <= open_ns) return;
    open_ns = ns;
    why = std::move(reason);
  }
  [[nodiscard]] PromoterVerdict verdict(PromoterStep step, uint64_t now_ns,
                                        std::string reason) const {
    if (now_ns < open_ns) return {PromoterStep::kNothing, open_ns, why};
    return {step, 0, std::move(reason)};
  }
};

PromoterVerdict again(PromoterStep step, const PromoterFailure& failure, uint64_t now_ns,
                      const std::string& why) {
  Gate gate;
  if (failure.times > 0)
    gate.wait_until(failure.at_ns + pause_after(failure, kUndoMin_ns, kUndoMax_ns), why);
  return gate.verdict(step, now_ns, why);
}

PromoterVerdict stop_target(const PromoterFacts& facts, uint64_t now_ns, const std::string& why) {
  return again(PromoterStep::kStop, facts.stop_failed, now_ns, why);
}

bool demoted_lately(const std::optional<uint64_t>& when_ns, uint64_t now_ns) {
  return when_ns && now_ns < *when_ns + kDemotedHere_ns;
}

// Both are secondary and know each other: whether this node is the one to go first.
bool goes_first(const PromoterFacts& facts, const PromoterRules& rules, uint64_t now_ns) {
  const PromoterView& view = *facts.view;
  if (!view.peer_able) return true;
  const bool here = demoted_lately(facts.demoted_ns, now_ns);
  const bool there = demoted_lately(facts.peer_demoted_ns, now_ns);
  if (here && there) return *facts.demoted_ns < *facts.peer_demoted_ns;
  if (here || there) return there;
  if (!rules.prefer.empty()) return rules.prefer == view.node;
  return view.term != view.peer_term ? view.term > view.peer_term : view.node < view.peer;
}

void wait_with_peer(const PromoterFacts& facts, const PromoterRules& rules, uint64_t now_ns,
                    Gate& gate) {
  const PromoterView& view = *facts.view;
  if (goes_first(facts, rules, now_ns))
    gate.wait_until(facts.since_ns + kLeavePrimary_ns, "nobody is primary");
  else
    gate.wait_until(facts.since_ns + kOtherFirst_ns, "nobody is primary, and it is the turn of " + view.peer);
}

void wait_without_peer(const PromoterFacts& facts, const PromoterRules& rules, uint64_t now_ns,
                       Gate& gate) {
  const PromoterView& view = *facts.view;
  gate.wait_until(facts.since_ns + kLeavePrimary_ns, view.peer + " is away");
  if (view.silent_ns)
    gate.wait_until(now_ns - std::min(now_ns, *view.silent_ns) + rules.restart_wait_ns,
                    view.peer + " is away, and may be back soon");
  else
    gate.wait_until(now_ns - std::min(now_ns, view.uptime_ns) + rules.boot_wait_ns,
                    view.node + " has just begun, and waits for " + view.peer);
}

void wait_after_refusal(const PromoterFacts& facts, Gate& gate) {
  if (facts.refusal == PromotionRefusal::kNow)
    gate.wait_until(facts.refused.at_ns + kRefusedNow_ns, "the promotion was refused");
  else if (facts.refusal)
    gate.wait_until(facts.refused.at_ns + pause_after(facts.refused, kLaterMin_ns, kLaterMax_ns),
                    "the promotion was refused for now");
}

// What runs was started for the promotion by which the node is primary, or may be again.
bool target_suits(const PromoterFacts& facts) {
  const PromoterView& view = *facts.view;
  return (view.primary || view.resumes) && facts.target_term == view.term;
}

PromoterVerdict decide_secondary(const PromoterFacts& facts, const PromoterRules& rules,
                                 uint64_t now_ns) {
  const PromoterView& view = *facts.view;
  const bool unknown = facts.target == TargetState::kUnknown;
  if (facts.target != TargetState::kStopped) {
    // Its device waits for it.
    if (view.resumes && (unknown || target_suits(facts)))
      return nothing(view.node + " may go on as primary by itself");
    return stop_target(facts, now_ns, view.node + " is not primary");
  }
  if (!view.witness) return nothing("no witness is configured any more");
  if (!view.witness_counts)
    return nothing("the witness counts for nothing before both nodes have met with the same kind in their files");
  if (view.peer_primary) return nothing(view.peer + " is primary");
  if (view.resumes && view.peer_connected) return nothing(view.node + " goes on as primary by itself");
  if (!view.able) return nothing(view.node + " can't be promoted as it is");
  if (facts.refusal == PromotionRefusal::kForGood)
    return nothing("the promotion was refused until something changes");
  Gate gate;
  if (view.peer_connected)
    wait_with_peer(facts, rules, now_ns, gate);
  else
    wait_without_peer(facts, rules, now_ns, gate);
  if (facts.demoted_ns)
    gate.wait_until(*facts.demoted_ns + kDemotedHere_ns,
                    view.node + " was demoted, so that " + view.peer + " may take over");
  if (facts.start_failed.times > 0)
    gate.wait_until(facts.start_failed.at_ns +
                        pause_after(facts.start_failed, kTargetMin_ns, kTargetMax_ns),
                    "the target did not start here");
  wait_after_refusal(facts, gate);
  return gate.verdict(PromoterStep::kPromote, now_ns,
                      view.peer_connected ? "nobody is primary" : view.peer + " is away");
}

PromoterVerdict decide_primary(const PromoterFacts& facts, uint64_t now_ns) {
  const PromoterView& view = *facts.view;
  if (facts.target == TargetState::kStarted) {
    if (target_suits(facts)) return nothing(view.node + " is primary");
    return stop_target(facts, now_ns, view.node + " was promoted anew");
  }
  if (facts.start_failed.times == 0 || !target_suits(facts))
    return {PromoterStep::kStart, 0, view.node + " is primary"};
  const std::string why = "the target did not start here";
  if (facts.target != TargetState::kStopped) return stop_target(facts, now_ns, why);
  // Somebody uses the export still, a mount that came late or a device that was not detached: then nobody else can have it.
  const uint64_t due_ns = facts.start_failed.at_ns + pause_after(facts.start_failed, kTargetMin_ns, kTargetMax_ns);
  if (facts.demotion_refused.times > 0 && now_ns >= due_ns)
    return {PromoterStep::kStart, 0, view.node + " could not be demoted"};
  return again(PromoterStep::kDemote, facts.demotion_refused, now_ns, why);
}

// The target is stopped as well as it can be, then the node is demoted.
PromoterVerdict decide_end(const PromoterFacts& facts, uint64_t now_ns) {
  const std::string why = "the promoter ends";
  const bool primary = facts.view && (facts.view->primary || facts.view->resumes || facts.promotion_unanswered);
  if (facts.target != TargetState::kStopped && facts.stop_failed.times == 0)
    return {PromoterStep::kStop, 0, why};
  // It is being started again, perhaps: as primary, with nobody beside it.
  const bool may_be_back = !facts.view && (facts.gone_as_primary || facts.promotion_unanswered);
  const uint64_t back_by_ns = std::min(facts.since_ns, *facts.ending_ns) + kEndWait_ns;
  if (may_be_back && now_ns < back_by_ns) return {PromoterStep::kNothing, back_by_ns, "the node may be back as primary"};
  if (!primary || now_ns >= *facts.ending_ns + kEndWait_ns) return {PromoterStep::kEnd, 0, why};
  return again(PromoterStep::kDemote, facts.demotion_refused, now_ns, why);
}

}  // namespace

uint64_t pause_after(const PromoterFailure& failure, uint64_t first_ns, uint64_t longest_ns) {
  uint64_t pause_ns = first_ns;
  for (unsigned i = 1; i < failure.times && pause_ns < longest_ns; ++i) pause_ns *= 2;
  return std::min(pause_ns, longest_ns);
}

PromoterVerdict decide_promoter(const PromoterFacts& facts, const PromoterRules& rules,
                                uint64_t now_ns) {
  if (facts.target == TargetState::kStopping) return nothing("the target is being stopped");
  if (facts.target == TargetState::kStarting) {
    if (!facts.ending_ns && (!facts.view || target_suits(facts))) return nothing("the target is being started");
    return {PromoterStep::kAbort, 0, facts.ending_ns ? "the promoter ends" : "it is not primary any more"};
  }
  if (facts.ending_ns) return decide_end(facts, now_ns);
  if (!facts.view) return nothing("no node answers");
  return facts.view->primary ? decide_primary(facts, now_ns)
                             : decide_secondary(facts, rules, now_ns);
}

}  // namespace twinblock
