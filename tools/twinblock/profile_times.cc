#include "twinblock/profile_times.h"

#include <algorithm>
#include <cstddef>

namespace twinblock {
namespace {

constexpr double kGapFactor = 1.5;

double interval_of(const std::vector<ReportTime>& reports, size_t i) {
  if (reports[i].interval_s > 0) return reports[i].interval_s;
  return i > 0 ? reports[i].end_s - reports[i - 1].end_s : 0;
}

// The median; 0 where there is none.
double usual_interval_s(const std::vector<ReportTime>& reports) {
  std::vector<double> all;
  for (size_t i = 0; i < reports.size(); ++i)
    if (const double interval_s = interval_of(reports, i); reports[i].counts && interval_s > 0)
      all.push_back(interval_s);
  if (all.empty()) return 0;
  const auto middle = all.begin() + static_cast<std::ptrdiff_t>((all.size() - 1) / 2);
  std::nth_element(all.begin(), middle, all.end());
  return *middle;
}

}  // namespace

std::vector<PlacedInterval> placed_in_time(const std::vector<ReportTime>& reports, Profile& profile) {
  const double usual_s = usual_interval_s(reports);
  double shift_s = 0;  // by how much the clock was set back until now
  bool set_back = false;
  std::vector<PlacedInterval> placed;
  for (size_t i = 0; i < reports.size(); ++i) {
    PlacedInterval each{reports[i].end_s + shift_s, interval_of(reports, i)};
    const bool back = i > 0 && reports[i].end_s < reports[i - 1].end_s;
    if (back) {
      shift_s += placed.back().end_s + usual_s - each.end_s;
      each.end_s = placed.back().end_s + usual_s;
    }
    const bool still = !back && each.interval_s <= 0;
    if (back || each.interval_s > kGapFactor * usual_s) {
      each.interval_s = usual_s;
      if (reports[i].counts) profile.gap_ends_s.push_back(each.end_s);
      set_back |= back && reports[i].counts;
    } else if (still && i > 0 && reports[i].counts) {
      profile.gap_ends_s.push_back(each.end_s);
    }
    if (still || !reports[i].counts) each.interval_s = 0;
    placed.push_back(each);
  }
  if (set_back)
    profile.notes.emplace_back("Its clock was set back: that interval weighs as a usual one.");
  return placed;
}

}  // namespace twinblock
