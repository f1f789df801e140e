// What several recordings ask of one link together. Pure.
#pragma once

#include <optional>
#include <vector>

#include "twinblock/profile.h"

namespace twinblock {

struct LoadFigures {
  double average = 0;
  double p95 = 0;  // of the time, 95% is not above
  double peak = 0;
};

struct Load {
  LoadFigures bytes_per_s;
  LoadFigures writes_per_s;
  std::optional<double> write_size_bytes;  // all bytes over all writes; nothing was written: none
  bool by_time = true;  // false: averages, and peaks, were added as if all peaks came at once
  std::vector<ProfileSample> samples;  // the sums, where they were added by time
  size_t sample_count = 0;  // of all recordings, in the time that counts
  size_t gaps = 0;
  double span_s = 0;      // that the samples cover; by peaks, the shortest recording
  double longest_s = 0;   // the same; by peaks, the longest recording
  double interval_s = 0;  // the longest mean interval of a recording
  bool writes_estimated = false;
};

// Adds up what happened at the same time where the recordings share at least four fifths of each,
// else their averages and their peaks; `times` that (> 0). Either way 95% and peak are no less than
// each recording's own. There is at least one profile, and each has a sample.
Load add_up(const std::vector<Profile>& profiles, double times);

// The share of the time, from 0 to 1, in which more bytes a second were written; nullopt: not
// known, added by peaks.
std::optional<double> share_above_rate(const Load& load, double bytes_per_s);
// … in which the writes were larger on average.
std::optional<double> share_above_size(const Load& load, double bytes);

}  // namespace twinblock
