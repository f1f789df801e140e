// What a promoter does next: a pure function of how the node stands, of what has happened since, and of
// the time. That two nodes are never both primary is not decided here, but by the node and its witness,
// which refuse: this is about whose turn it is, and how soon.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/units.h"
#include "twinblock/promoter_view.h"

namespace twinblock {

// A primary that lost its peer asks the witness at once: who is secondary waits for a moment, so that a
// link that was cut does not move the service.
constexpr uint64_t kLeavePrimary_ns = 300 * kMillisecond_ns;
// Both are secondary: for whose turn it is not, until the other one has had its chance.
constexpr uint64_t kOtherFirst_ns = 3 * kSecond_ns;
// After a demotion here: until then the other node may take over, which is what a demotion is for.
constexpr uint64_t kDemotedHere_ns = 10 * kSecond_ns;
constexpr uint64_t kRestartWaitDefault_ns = 3 * kSecond_ns;
constexpr uint64_t kBootWaitDefault_ns = 20 * kSecond_ns;
// Refused promotions, and how soon they are tried again while nothing has changed.
constexpr uint64_t kLaterMin_ns = 250 * kMillisecond_ns;
constexpr uint64_t kLaterMax_ns = 5 * kSecond_ns;
constexpr uint64_t kRefusedNow_ns = 5 * kSecond_ns;
// Targets that did not start here: the other node is to try, too.
constexpr uint64_t kTargetMin_ns = 10 * kSecond_ns;
constexpr uint64_t kTargetMax_ns = 300 * kSecond_ns;
// Targets that did not stop, and demotions that were refused.
constexpr uint64_t kUndoMin_ns = 250 * kMillisecond_ns;
constexpr uint64_t kUndoMax_ns = 10 * kSecond_ns;
// A promoter that is to end leaves a node that can't be demoted alone after this, or that is gone for so long.
constexpr uint64_t kEndWait_ns = 30 * kSecond_ns;

struct PromoterRules {
  std::string prefer;  // the node that goes first; empty: the one that was primary last
  // A peer whose process ended may come back as primary by itself, and its device with it: so long
  // after it was last heard. (The node lets the peer timeout pass in any case.)
  uint64_t restart_wait_ns = kRestartWaitDefault_ns;
  // A node whose process has just begun waits so long for a peer that it has not met yet.
  uint64_t boot_wait_ns = kBootWaitDefault_ns;
};

enum class TargetState {
  kUnknown,  // it may run: of before this promoter began, or since it did not start or stop as it should
  kStopped,
  kStarting,
  kStarted,
  kStopping,
};

// What failed, how often in a row, and when last (steady clock).
struct PromoterFailure {
  unsigned times = 0;
  uint64_t at_ns = 0;
};

enum class PromotionRefusal { kForGood, kNow, kLater };

struct PromoterFacts {
  std::optional<PromoterView> view;  // none: no node answers …
  bool gone_as_primary = false;      // … and the last that it said was that it is primary, or may go on as one
  uint64_t since_ns = 0;             // since when the two nodes stand to each other as they do
  // Of the last promotion that was refused, while the node stands as it did.
  std::optional<PromotionRefusal> refusal;
  PromoterFailure refused;
  // When a node was demoted last, as far as this node's process remembers.
  std::optional<uint64_t> demoted_ns;
  std::optional<uint64_t> peer_demoted_ns;
  TargetState target = TargetState::kUnknown;
  uint64_t target_term = 0;           // of the promotion for which it was started, or should have been
  PromoterFailure start_failed;       // since it started last
  PromoterFailure stop_failed;        // … stopped last
  PromoterFailure demotion_refused;   // since this node was secondary last
  bool promotion_unanswered = false;  // one may be under way still, of which nobody hears any more
  std::optional<uint64_t> ending_ns;  // since when this promoter is told to end
};

enum class PromoterStep {
  kNothing,
  kPromote,
  kDemote,
  kStart,  // the target
  kStop,   // the target
  kAbort,  // what is starting the target
  kEnd,    // the promoter
};

struct PromoterVerdict {
  PromoterStep step = PromoterStep::kNothing;
  uint64_t look_ns = 0;  // of kNothing: when to decide anew, if nothing happens; 0: then never
  std::string why;       // a clause for users; may be empty

  bool operator==(const PromoterVerdict&) const = default;
};

PromoterVerdict decide_promoter(const PromoterFacts& facts, const PromoterRules& rules,
                                uint64_t now_ns);

// `first`, doubled with each further failure in a row, at most `longest`.
uint64_t pause_after(const PromoterFailure& failure, uint64_t first_ns, uint64_t longest_ns);

}  // namespace twinblock
