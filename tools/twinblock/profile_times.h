// Where the intervals of a recording lie in time, and how much each of them weighs: one rule for all
// formats. Pure.
#pragma once

#include <vector>

#include "twinblock/profile.h"

namespace twinblock {

// A clock that goes back by less than this was set back (the end of summer time). By more: where the
// format says the time of day only, it is past midnight.
inline constexpr double kSetBackMost_s = 3 * 3600;

struct ReportTime {
  double end_s = 0;       // as the file says
  double interval_s = 0;  // as the file says; 0: since the report before
  bool counts = true;     // false: only says when the next one's interval begins
};

struct PlacedInterval {
  double end_s = 0;       // never before the one before
  double interval_s = 0;  // 0: not known, leave it out
};

// One for each report. An interval of more than one and a half times the usual one has a hole in it,
// or the clock was put forward; where the time goes back, the clock was set back: such an interval is
// a gap and weighs as a usual one, and what comes after a clock that was set back follows it. A
// report of the same time as the one before is a gap and left out. Notes gaps, and clocks set back,
// in the profile.
std::vector<PlacedInterval> placed_in_time(const std::vector<ReportTime>& reports, Profile& profile);

}  // namespace twinblock
