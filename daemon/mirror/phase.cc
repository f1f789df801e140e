#include "mirror/phase.h"

#include <array>

namespace twinblock {
namespace {

using enum Phase;
constexpr bool kMay = true, kMayNot = false;

constexpr std::array<PhaseRules, kPhases> kRules{{
    //          attachment             receives  both whole  hears its set
    {kApart, Attachment::kNone, kMayNot, kMayNot, kMayNot,
     any_of(kIdle, kEqual, kBehind, kLeaving, kDiskless, kSoleCopy)},
    {kIdle, Attachment::kNone, kMayNot, kMayNot, kMayNot, any_of(kMarking, kConcluding)},
    {kMarking, Attachment::kNone, kMayNot, kMayNot, kMay, any_of(kCopying)},
    {kCopying, Attachment::kResync, kMayNot, kMayNot, kMayNot, any_of(kDuplex, kEqual)},
    {kConcluding, Attachment::kDuplex, kMayNot, kMayNot, kMayNot, any_of(kDuplex, kEqual, kLeaving)},
    {kDuplex, Attachment::kDuplex, kMayNot, kMay, kMayNot, any_of(kEqual, kLeaving)},
    {kEqual, Attachment::kNone, kMay, kMay, kMayNot, any_of(kDuplex, kSoleCopy)},
    {kBehind, Attachment::kNone, kMay, kMayNot, kMayNot, any_of(kFilled)},
    {kFilled, Attachment::kNone, kMay, kMayNot, kMayNot, any_of(kEqual)},
    // To kIdle: the disk failed while a demotion, which had flushed before, was recorded.
    {kLeaving, Attachment::kDiskless, kMayNot, kMayNot, kMayNot, any_of(kDiskless, kIdle)},
    {kDiskless, Attachment::kDiskless, kMayNot, kMayNot, kMayNot, any_of(kIdle)},
    {kSoleCopy, Attachment::kNone, kMay, kMayNot, kMayNot, any_of()},
}};

static_assert(each_has_its_row(kRules, kSoleCopy));
static_assert(nobody_stays_in_one_by_a_step(kRules, kApart), "kApart is not written out");

constexpr uint16_t kAll = (1u << kPhases) - 1;
static_assert(reached_from(kRules, any_of(kApart), kAll) == kAll, "a session can come to each");

constexpr bool nobody_sends_what_it_receives() {
  for (const PhaseRules& rules : kRules)
    if (rules.receives && rules.attachment != Attachment::kNone) return false;
  return true;
}
static_assert(nobody_sends_what_it_receives());

// A node that says that both are whole gives the peer what it writes, or takes what the peer writes.
constexpr bool who_is_whole_takes_part() {
  for (const PhaseRules& rules : kRules)
    if (rules.both_whole && !rules.receives && rules.attachment != Attachment::kDuplex) return false;
  return true;
}
static_assert(who_is_whole_takes_part());

// Whole is who was so when the session began, or by way of a record that says so.
constexpr bool a_target_becomes_whole_by_its_record_alone() {
  for (const PhaseRules& rules : kRules)
    if (rules.phase == kBehind && (rules.next & ~any_of(kFilled)) != 0) return false;
  return true;
}
static_assert(a_target_becomes_whole_by_its_record_alone());

}  // namespace

const PhaseRules& rules_of(Phase phase) { return kRules[static_cast<size_t>(phase)]; }

bool may_follow(Phase from, Phase to) { return may_follow(kRules, from, to, kApart); }

const char* phase_name(Phase phase) {
  switch (phase) {
    case kApart: return "apart";
    case kIdle: return "idle";
    case kMarking: return "marking";
    case kCopying: return "copying";
    case kConcluding: return "concluding";
    case kDuplex: return "duplex";
    case kEqual: return "equal";
    case kBehind: return "behind";
    case kFilled: return "filled";
    case kLeaving: return "leaving";
    case kDiskless: return "diskless";
    case kSoleCopy: return "sole copy";
  }
  return "";
}

}  // namespace twinblock
