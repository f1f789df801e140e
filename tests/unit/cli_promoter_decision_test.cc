#include "twinblock/promoter_decision.h"

#include <gtest/gtest.h>

#include <functional>
#include <vector>

namespace twinblock {
namespace {

constexpr uint64_t kNow_ns = 1000 * kSecond_ns;
constexpr uint64_t kLong_ns = 500 * kSecond_ns;

// Alpha, which is secondary, as the peer is; for long, and able to serve. Nobody is primary.
PromoterFacts both_secondary() {
  PromoterFacts facts;
  PromoterView view;
  view.volume = "r0";
  view.node = "alpha";
  view.peer = "beta";
  view.witness = view.able = view.peer_connected = view.peer_able = true;
  view.term = 5;
  view.peer_term = 4;
  view.uptime_ns = kLong_ns;
  view.silent_ns = 0;
  facts.view = view;
  facts.since_ns = kNow_ns - kLong_ns;
  facts.target = TargetState::kStopped;
  return facts;
}

// … while beta was primary until it was lost just now, and heard last so long ago.
PromoterFacts peer_lost(uint64_t silent_ns) {
  PromoterFacts facts = both_secondary();
  facts.view->peer_connected = facts.view->peer_able = false;
  facts.view->silent_ns = silent_ns;
  facts.since_ns = kNow_ns;
  return facts;
}

// Alpha is primary by promotion 5, and the target is started for it.
PromoterFacts serving() {
  PromoterFacts facts = both_secondary();
  facts.view->primary = true;
  facts.target = TargetState::kStarted;
  facts.target_term = 5;
  return facts;
}

struct Row {
  const char* what;
  std::function<PromoterFacts()> facts;
  PromoterStep step;
  uint64_t look_in_ns = 0;  // of kNothing; 0: when something happens
  PromoterRules rules = {};
};

PromoterFacts with(PromoterFacts facts, const std::function<void(PromoterFacts&)>& change) {
  change(facts);
  return facts;
}

void check(const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    const PromoterVerdict verdict = decide_promoter(row.facts(), row.rules, kNow_ns);
    EXPECT_EQ(static_cast<int>(verdict.step), static_cast<int>(row.step)) << row.what << ": " << verdict.why;
    EXPECT_EQ(verdict.look_ns, row.look_in_ns == 0 ? 0 : kNow_ns + row.look_in_ns)
        << row.what << ": " << verdict.why;
    EXPECT_FALSE(verdict.why.empty()) << row.what;
  }
}

constexpr PromoterStep kNothing = PromoterStep::kNothing;
constexpr PromoterStep kPromote = PromoterStep::kPromote;
constexpr PromoterStep kStop = PromoterStep::kStop;

TEST(PromoterDecision, WhoMayNotBePromotedIsLeftAlone) {
  const auto changed = [](auto change) {
    return [change] { return with(both_secondary(), [&](PromoterFacts& facts) { change(*facts.view); }); };
  };
  check({
      {"nobody says otherwise", both_secondary, kPromote},
      {"the peer is primary", changed([](PromoterView& v) { v.peer_primary = true; }), kNothing},
      {"half-copied", changed([](PromoterView& v) { v.able = false; }), kNothing},
      {"goes on by itself", changed([](PromoterView& v) { v.resumes = true; }), kNothing},
      {"the peer asks no witness", changed([](PromoterView& v) { v.witness_counts = false; }), kNothing},
      {"the witness is configured no more", changed([](PromoterView& v) { v.witness = false; }), kNothing},
      {"no node answers", [] { return with(both_secondary(), [](PromoterFacts& f) { f.view.reset(); }); },
       kNothing},
  });
}

TEST(PromoterDecision, APrimaryThatLivesIsFirst) {
  check({
      // Its host died: it was silent for the peer timeout, and a while more is waited only for the
      // case that a link was cut.
      {"lost after a long silence", [] { return peer_lost(5 * kSecond_ns); }, kNothing, kLeavePrimary_ns},
      {"… and a while ago",
       [] {
         return with(peer_lost(5 * kSecond_ns + kLeavePrimary_ns),
                     [](PromoterFacts& f) { f.since_ns = kNow_ns - kLeavePrimary_ns; });
       },
       kPromote},
      // Its process ended: it may come back, and its device with it.
      {"lost at once", [] { return peer_lost(0); }, kNothing, kRestartWaitDefault_ns},
      {"lost soon", [] { return peer_lost(kSecond_ns); }, kNothing, 2 * kSecond_ns},
      {"as long as one is told", [] { return peer_lost(kSecond_ns); }, kNothing, 9 * kSecond_ns,
       {"", 10 * kSecond_ns, 0}},
      {"nor less than the while", [] { return peer_lost(0); }, kNothing, kLeavePrimary_ns, {"", 0, 0}},
  });
}

TEST(PromoterDecision, ANodeThatHasJustBegunWaitsForThePeer) {
  const auto begun = [](uint64_t ago_ns) {
    return [ago_ns] {
      return with(peer_lost(0), [&](PromoterFacts& f) {
        f.view->silent_ns.reset();
        f.view->uptime_ns = ago_ns;
        f.since_ns = kNow_ns - ago_ns;
      });
    };
  };
  check({
      {"just begun", begun(kSecond_ns), kNothing, 19 * kSecond_ns},
      {"long enough", begun(kBootWaitDefault_ns), kPromote},
      {"as long as one is told", begun(kSecond_ns), kNothing, 4 * kSecond_ns, {"", 0, 5 * kSecond_ns}},
  });
}

TEST(PromoterDecision, TwoThatMayTakeTurns) {
  const auto fresh = [](const std::function<void(PromoterFacts&)>& change) {
    return [change] {
      return with(both_secondary(), [&](PromoterFacts& f) {
        f.since_ns = kNow_ns;
        change(f);
      });
    };
  };
  const auto as_it_is = [](PromoterFacts&) {};
  const auto later_there = [](PromoterFacts& f) { f.view->peer_term = 6; };
  const auto equal = [](PromoterFacts& f) { f.view->peer_term = 5; };
  const PromoterRules alpha{"alpha"};
  const PromoterRules beta{"beta"};
  check({
      {"alpha was primary last", fresh(as_it_is), kNothing, kLeavePrimary_ns},
      {"beta was", fresh(later_there), kNothing, kOtherFirst_ns},
      {"neither", fresh(equal), kNothing, kLeavePrimary_ns},
      {"neither, seen by beta", fresh([](PromoterFacts& f) {
         f.view->peer_term = 5;
         std::swap(f.view->node, f.view->peer);
       }),
       kNothing, kOtherFirst_ns},
      {"alpha is preferred", fresh(later_there), kNothing, kLeavePrimary_ns, alpha},
      {"beta is preferred", fresh(as_it_is), kNothing, kOtherFirst_ns, beta},
      {"beta is preferred, and can't", fresh([](PromoterFacts& f) { f.view->peer_able = false; }), kNothing,
       kLeavePrimary_ns, beta},
      {"beta is preferred, and does not", both_secondary, kPromote, 0, beta},
  });
}

TEST(PromoterDecision, ADemotionMovesTheService) {
  const auto demoted = [](std::optional<uint64_t> here_ns, std::optional<uint64_t> there_ns) {
    return [here_ns, there_ns] {
      return with(both_secondary(), [&](PromoterFacts& f) {
        if (here_ns) f.demoted_ns = kNow_ns - *here_ns;
        if (there_ns) f.peer_demoted_ns = kNow_ns - *there_ns;
        f.since_ns = kNow_ns;
      });
    };
  };
  const PromoterRules alpha{"alpha"};
  const PromoterRules beta{"beta"};
  check({
      {"here", demoted(kSecond_ns, {}), kNothing, kDemotedHere_ns - kSecond_ns},
      {"here, where it is preferred", demoted(kSecond_ns, {}), kNothing, kDemotedHere_ns - kSecond_ns, alpha},
      {"there", demoted({}, 0), kNothing, kLeavePrimary_ns},
      {"there, where it is preferred", demoted({}, 0), kNothing, kLeavePrimary_ns, beta},
      {"there, long ago", demoted({}, kDemotedHere_ns), kNothing, kOtherFirst_ns, beta},
      {"on both, here last", demoted(kSecond_ns, 2 * kSecond_ns), kNothing, kDemotedHere_ns - kSecond_ns},
      {"here, and nobody took over", [&] {
         return with(demoted(kDemotedHere_ns, {})(), [](PromoterFacts& f) { f.since_ns = kNow_ns - kDemotedHere_ns; });
       },
       kPromote},
  });
}

TEST(PromoterDecision, ARefusalIsHeeded) {
  const auto refused = [](PromotionRefusal refusal, unsigned times, uint64_t ago_ns) {
    return [=] {
      return with(both_secondary(), [&](PromoterFacts& f) {
        f.refusal = refusal;
        f.refused = {times, kNow_ns - ago_ns};
      });
    };
  };
  check({
      {"for good", refused(PromotionRefusal::kForGood, 1, kLong_ns), kNothing},
      {"now", refused(PromotionRefusal::kNow, 1, 0), kNothing, kRefusedNow_ns},
      {"now, again and again", refused(PromotionRefusal::kNow, 9, 0), kNothing, kRefusedNow_ns},
      {"now, a while ago", refused(PromotionRefusal::kNow, 1, kRefusedNow_ns), kPromote},
      {"later", refused(PromotionRefusal::kLater, 1, 0), kNothing, kLaterMin_ns},
      {"later, once more", refused(PromotionRefusal::kLater, 2, 0), kNothing, 2 * kLaterMin_ns},
      {"later, all the time", refused(PromotionRefusal::kLater, 99, 0), kNothing, kLaterMax_ns},
      {"later, long enough ago", refused(PromotionRefusal::kLater, 1, kLaterMin_ns), kPromote},
  });
}

TEST(PromoterDecision, TheTargetFollowsTheRole) {
  const auto changed = [](PromoterFacts (*from)(), TargetState target, uint64_t term = 5) {
    return [=] {
      return with(from(), [&](PromoterFacts& f) {
        f.target = target;
        f.target_term = term;
      });
    };
  };
  check({
      {"it runs", serving, kNothing},
      {"promoted", changed(serving, TargetState::kStopped, 0), PromoterStep::kStart},
      // What it was before this promoter began: to start what runs does nothing.
      {"primary, unknown", changed(serving, TargetState::kUnknown, 0), PromoterStep::kStart},
      {"it runs, of an earlier promotion", changed(serving, TargetState::kStarted, 4), kStop},
      {"starting", changed(serving, TargetState::kStarting), kNothing},
      {"starting, of an earlier promotion", changed(serving, TargetState::kStarting, 4), PromoterStep::kAbort},
      {"secondary, running", changed(both_secondary, TargetState::kStarted), kStop},
      {"secondary, unknown", changed(both_secondary, TargetState::kUnknown), kStop},
      {"secondary, starting", changed(both_secondary, TargetState::kStarting), PromoterStep::kAbort},
      {"secondary, stopping", changed(both_secondary, TargetState::kStopping), kNothing},
      {"no node answers, running", [] { return with(serving(), [](PromoterFacts& f) { f.view.reset(); }); },
       kNothing},
      {"no node answers, starting", [] {
         return with(serving(), [](PromoterFacts& f) {
           f.view.reset();
           f.target = TargetState::kStarting;
         });
       },
       kNothing},
      {"it did not stop", [] {
         return with(both_secondary(), [](PromoterFacts& f) {
           f.target = TargetState::kUnknown;
           f.stop_failed = {3, kNow_ns};
         });
       },
       kNothing, 4 * kUndoMin_ns},
  });
}

// A process of the node has begun that may go on as primary: a device that waits for it is not to end.
TEST(PromoterDecision, TheTargetWaitsForANodeThatMayGoOn) {
  const auto resumes = [](TargetState target, uint64_t target_term, bool connected = true) {
    return [=] {
      return with(both_secondary(), [&](PromoterFacts& f) {
        f.view->resumes = true;
        f.view->peer_connected = connected;
        f.view->silent_ns = kLong_ns;
        f.target = target;
        f.target_term = target_term;
      });
    };
  };
  check({
      {"the peer confirms it", resumes(TargetState::kStarted, 5), kNothing},
      {"the peer is away", resumes(TargetState::kStarted, 5, false), kNothing},
      {"it was being started", resumes(TargetState::kStarting, 5), kNothing},
      {"the promoter has just begun, too", resumes(TargetState::kUnknown, 0), kNothing},
      {"it runs since an earlier promotion", resumes(TargetState::kStarted, 4), kStop},
      {"nothing runs, and the peer is away", resumes(TargetState::kStopped, 5, false), kPromote},
      {"the promoter ends", [&] {
         return with(resumes(TargetState::kStopped, 5)(), [](PromoterFacts& f) { f.ending_ns = kNow_ns; });
       },
       PromoterStep::kDemote},
  });
}

TEST(PromoterDecision, ATargetThatDoesNotStartIsLeftToTheOtherNode) {
  const auto failed = [](bool primary, TargetState target, unsigned times, uint64_t ago_ns) {
    return [=] {
      return with(primary ? serving() : both_secondary(), [&](PromoterFacts& f) {
        f.target = target;
        f.target_term = 5;
        f.start_failed = {times, kNow_ns - ago_ns};
      });
    };
  };
  check({
      {"it is stopped", failed(true, TargetState::kUnknown, 1, 0), kStop},
      {"then the node is demoted", failed(true, TargetState::kStopped, 1, 0), PromoterStep::kDemote},
      {"… again, where somebody else uses it", [&] {
         return with(failed(true, TargetState::kStopped, 1, 0)(),
                     [](PromoterFacts& f) { f.demotion_refused = {1, kNow_ns}; });
       },
       kNothing, kUndoMin_ns},
      {"… and is started again after a while, as the other node can't have it", [&] {
         return with(failed(true, TargetState::kStopped, 1, kTargetMin_ns)(),
                     [](PromoterFacts& f) { f.demotion_refused = {3, kNow_ns}; });
       },
       PromoterStep::kStart},
      {"… not where nobody has refused", failed(true, TargetState::kStopped, 1, kTargetMin_ns), PromoterStep::kDemote},
      {"then it waits", failed(false, TargetState::kStopped, 1, 0), kNothing, kTargetMin_ns},
      {"longer", failed(false, TargetState::kStopped, 2, 0), kNothing, 2 * kTargetMin_ns},
      {"not for ever", failed(false, TargetState::kStopped, 99, 0), kNothing, kTargetMax_ns},
      {"and tries again", failed(false, TargetState::kStopped, 1, kTargetMin_ns), kPromote},
      {"an operator's promotion is another one", [&] {
         return with(failed(true, TargetState::kStopped, 1, 0)(), [](PromoterFacts& f) { f.view->term = 6; });
       },
       PromoterStep::kStart},
  });
}

TEST(PromoterDecision, ItsEndStopsTheTargetFirst) {
  const auto ending = [](PromoterFacts facts, TargetState target, uint64_t ago_ns = 0) {
    return [=] {
      return with(facts, [&](PromoterFacts& f) {
        f.target = target;
        f.ending_ns = kNow_ns - ago_ns;
      });
    };
  };
  const PromoterFacts away = with(serving(), [](PromoterFacts& f) { f.view.reset(); });
  const PromoterFacts gone = with(away, [](PromoterFacts& f) {
    f.gone_as_primary = true;
    f.since_ns = kNow_ns - kSecond_ns;
  });
  const PromoterFacts gone_for_long = with(gone, [](PromoterFacts& f) { f.since_ns = kNow_ns - kEndWait_ns; });
  const PromoterFacts asked_before = with(gone, [](PromoterFacts& f) {
    f.gone_as_primary = false;
    f.promotion_unanswered = true;
  });
  const PromoterFacts refused = with(serving(), [](PromoterFacts& f) { f.demotion_refused = {1, kNow_ns}; });
  const PromoterFacts stuck = with(serving(), [](PromoterFacts& f) { f.stop_failed = {1, kNow_ns}; });
  const PromoterFacts asked = with(both_secondary(), [](PromoterFacts& f) { f.promotion_unanswered = true; });
  check({
      {"running", ending(serving(), TargetState::kStarted), kStop},
      {"starting", ending(serving(), TargetState::kStarting), PromoterStep::kAbort},
      {"stopping", ending(serving(), TargetState::kStopping), kNothing},
      {"stopped", ending(serving(), TargetState::kStopped), PromoterStep::kDemote},
      {"in use", ending(refused, TargetState::kStopped), kNothing, kUndoMin_ns},
      {"in use for ever", ending(refused, TargetState::kStopped, kEndWait_ns), PromoterStep::kEnd},
      {"does not stop", ending(stuck, TargetState::kUnknown), PromoterStep::kDemote},
      {"secondary", ending(both_secondary(), TargetState::kStopped), PromoterStep::kEnd},
      {"secondary, unknown", ending(both_secondary(), TargetState::kUnknown), kStop},
      {"may be promoted yet", ending(asked, TargetState::kStopped), PromoterStep::kDemote},
      {"may be promoted for ever", ending(asked, TargetState::kStopped, kEndWait_ns), PromoterStep::kEnd},
      {"no node answers", ending(away, TargetState::kStarted), kStop},
      {"no node answers, stopped", ending(away, TargetState::kStopped), PromoterStep::kEnd},
      {"is being started again, running", ending(gone, TargetState::kStarted), kStop},
      {"is being started again", ending(gone, TargetState::kStopped), kNothing, kEndWait_ns - kSecond_ns},
      {"is started again since long", ending(gone, TargetState::kStopped, 2 * kSecond_ns), kNothing,
       kEndWait_ns - 2 * kSecond_ns},
      {"is gone for long", ending(gone_for_long, TargetState::kStopped), PromoterStep::kEnd},
      {"is gone, and was asked", ending(asked_before, TargetState::kStopped), kNothing, kEndWait_ns - kSecond_ns},
  });
}

}  // namespace
}  // namespace twinblock
