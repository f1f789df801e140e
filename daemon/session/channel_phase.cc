#include "session/channel_phase.h"

#include <array>

namespace twinblock {
namespace {

using enum ChannelPhase;
constexpr bool kMay = true, kMayNot = false;

constexpr std::array<ChannelPhaseRules, kChannelPhases> kRules{{
    //               dialled accepted begins
    {kConnecting, kMay, kMayNot, kMayNot, any_of(kAwaitChallenge)},
    {kAwaitChallenge, kMay, kMayNot, kMayNot, any_of(kReplacing, kAwaitJoin, kAwaitHello, kMeasuring)},
    {kReplacing, kMay, kMayNot, kMayNot, any_of(kAwaitJoin)},
    {kAwaitJoin, kMay, kMayNot, kMayNot, any_of(kUp)},
    {kParked, kMayNot, kMay, kMayNot, any_of(kUp, kClosing)},
    // To kUp: what was accepted asked to join, and may.
    {kAwaitHello, kMay, kMay, kMayNot,
     any_of(kParked, kMeasuring, kProbing, kDraining, kAwaitVerdict, kClosing, kUp)},
    {kMeasuring, kMay, kMay, kMayNot, any_of()},
    {kProbing, kMayNot, kMay, kMayNot, any_of(kDraining, kClosing)},
    {kDraining, kMayNot, kMay, kMay, any_of(kAwaitVerdict)},
    {kAwaitVerdict, kMay, kMay, kMay, any_of(kUp, kClosing)},
    {kClosing, kMay, kMay, kMay, any_of()},
    {kUp, kMay, kMay, kMay, any_of()},
    {kClosed, kMay, kMay, kMay, any_of()},
}};

static_assert(each_has_its_row(kRules, kClosed));
static_assert(nobody_stays_in_one_by_a_step(kRules, kClosed), "kClosed is not written out");

constexpr uint16_t phases_of(bool ChannelPhaseRules::*side) {
  uint16_t phases = 0;
  for (const ChannelPhaseRules& rules : kRules)
    if (rules.*side) phases |= any_of(rules.phase);
  return phases;
}
constexpr bool each_side_reaches_its_own() {
  const uint16_t dialled = phases_of(&ChannelPhaseRules::dialled);
  const uint16_t accepted = phases_of(&ChannelPhaseRules::accepted);
  return reached_from(kRules, any_of(kConnecting, kClosed), dialled) == dialled &&
         reached_from(kRules, any_of(kAwaitHello, kClosed), accepted) == accepted;
}
static_assert(each_side_reaches_its_own());

constexpr bool each_step_is_somebodys() {
  for (const ChannelPhaseRules& from : kRules)
    for (const ChannelPhaseRules& to : kRules)
      if ((from.next & any_of(to.phase)) != 0 && !(from.dialled && to.dialled) &&
          !(from.accepted && to.accepted))
        return false;
  return true;
}
static_assert(each_step_is_somebodys());

constexpr bool who_was_refused_or_measures_is_never_up() {
  for (const ChannelPhaseRules& rules : kRules)
    if ((any_of(rules.phase) & any_of(kClosing, kMeasuring, kUp, kClosed)) != 0 && rules.next != 0) return false;
  return true;
}
static_assert(who_was_refused_or_measures_is_never_up());

// A hello alone leads to no session, nor does waiting: a verdict of both does, or a join of one that stands.
constexpr bool up_is_who_has_a_verdict_or_a_join() {
  for (const ChannelPhaseRules& rules : kRules)
    if ((rules.next & any_of(kUp)) != 0 &&
        (any_of(rules.phase) & any_of(kAwaitHello, kAwaitJoin, kParked, kAwaitVerdict)) == 0)
      return false;
  return true;
}
static_assert(up_is_who_has_a_verdict_or_a_join());

}  // namespace

const ChannelPhaseRules& rules_of(ChannelPhase phase) { return kRules[static_cast<size_t>(phase)]; }

bool may_follow(ChannelPhase from, ChannelPhase to) { return may_follow(kRules, from, to, kClosed); }

const char* channel_phase_name(ChannelPhase phase) {
  switch (phase) {
    case kConnecting: return "connecting";
    case kAwaitChallenge: return "await challenge";
    case kReplacing: return "replacing";
    case kAwaitJoin: return "await join";
    case kParked: return "parked";
    case kAwaitHello: return "await hello";
    case kMeasuring: return "measuring";
    case kProbing: return "probing";
    case kDraining: return "draining";
    case kAwaitVerdict: return "await verdict";
    case kClosing: return "closing";
    case kUp: return "up";
    case kClosed: return "closed";
  }
  return "";
}

}  // namespace twinblock
