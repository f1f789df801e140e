#include "twinblock/plan_load.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace twinblock {
namespace {

constexpr double kPercentile = 0.95;
constexpr double kOverlapMin = 0.8;  // of each recording

double begin_of(const ProfileSample& sample) { return sample.end_s - sample.interval_s; }

double covered_s(const std::vector<ProfileSample>& samples) {
  double sum = 0;
  for (const ProfileSample& sample : samples) sum += sample.interval_s;
  return sum;
}

LoadFigures figures_of(const std::vector<ProfileSample>& samples, double ProfileSample::* rate) {
  std::vector<std::pair<double, double>> rates;  // and for how long
  double amount = 0;
  for (const ProfileSample& sample : samples) {
    rates.emplace_back(sample.*rate, sample.interval_s);
    amount += sample.*rate * sample.interval_s;
  }
  std::sort(rates.begin(), rates.end());
  const double all_s = covered_s(samples);
  LoadFigures figures{amount / all_s, rates.back().first, rates.back().first};
  double until_s = 0;
  for (const auto& [value, interval_s] : rates) {
    until_s += interval_s;
    if (until_s < kPercentile * all_s) continue;
    figures.p95 = value;
    break;
  }
  return figures;
}

// What all wrote while all were recorded: between any two instants at which one of their samples
// ends. Empty where that leaves out much of any recording, which might be just what a link has to
// carry.
std::vector<ProfileSample> sums_by_time(const std::vector<Profile>& profiles) {
  double begin_s = begin_of(profiles[0].samples.front());
  double end_s = profiles[0].samples.back().end_s;
  for (const Profile& profile : profiles) {
    begin_s = std::max(begin_s, begin_of(profile.samples.front()));
    end_s = std::min(end_s, profile.samples.back().end_s);
  }
  std::vector<double> instants{begin_s};
  for (const Profile& profile : profiles)
    for (const ProfileSample& sample : profile.samples)
      for (const double at_s : {begin_of(sample), sample.end_s})
        if (at_s > begin_s && at_s <= end_s) instants.push_back(at_s);
  std::sort(instants.begin(), instants.end());
  instants.erase(std::unique(instants.begin(), instants.end()), instants.end());
  std::vector<size_t> at(profiles.size(), 0);
  std::vector<ProfileSample> sums;
  for (size_t i = 1; i < instants.size(); ++i) {
    ProfileSample sum{instants[i], instants[i] - instants[i - 1], 0, 0};
    bool all_known = true;
    for (size_t p = 0; p < profiles.size() && all_known; ++p) {
      const std::vector<ProfileSample>& samples = profiles[p].samples;
      const double middle_s = (instants[i] + instants[i - 1]) / 2;
      while (at[p] < samples.size() && samples[at[p]].end_s < middle_s) ++at[p];
      all_known = at[p] < samples.size() && begin_of(samples[at[p]]) < middle_s;
      if (!all_known) break;
      sum.bytes_per_s += samples[at[p]].bytes_per_s;
      sum.writes_per_s += samples[at[p]].writes_per_s;
    }
    if (all_known) sums.push_back(sum);
  }
  const double common_s = covered_s(sums);
  for (const Profile& profile : profiles)
    if (common_s < kOverlapMin * covered_s(profile.samples)) return {};
  return sums;
}

// How many samples and gaps of a recording lie between the sums' ends.
void count_used(const Profile& profile, const std::vector<ProfileSample>& sums, Load& load) {
  const double begin_s = begin_of(sums.front());
  const double end_s = sums.back().end_s;
  for (const ProfileSample& sample : profile.samples)
    load.sample_count += begin_of(sample) < end_s && sample.end_s > begin_s ? 1 : 0;
  for (const double gap_end_s : profile.gap_ends_s)
    load.gaps += gap_end_s > begin_s && gap_end_s <= end_s ? 1 : 0;
}

// Together they need no less than one of them alone, also outside of the common time.
void raise(LoadFigures& sum, const LoadFigures& own) {
  sum.p95 = std::max(sum.p95, own.p95);
  sum.peak = std::max(sum.peak, own.peak);
}

void add(LoadFigures& sum, const LoadFigures& figures) {
  sum.average += figures.average;
  sum.p95 += figures.p95;
  sum.peak += figures.peak;
}

void multiply(LoadFigures& figures, double times) {
  figures.average *= times;
  figures.p95 *= times;
  figures.peak *= times;
}

std::optional<double> share(const Load& load,
                            const std::function<bool(const ProfileSample&)>& above) {
  if (!load.by_time) return std::nullopt;
  double above_s = 0;
  for (const ProfileSample& sample : load.samples)
    if (above(sample)) above_s += sample.interval_s;
  return above_s / covered_s(load.samples);
}

}  // namespace

Load add_up(const std::vector<Profile>& profiles, double times) {
  Load load;
  load.samples = profiles.size() == 1 ? profiles[0].samples : sums_by_time(profiles);
  load.by_time = !load.samples.empty();
  load.span_s = load.by_time ? covered_s(load.samples) : covered_s(profiles[0].samples);
  load.longest_s = load.span_s;
  if (load.by_time) {
    load.bytes_per_s = figures_of(load.samples, &ProfileSample::bytes_per_s);
    load.writes_per_s = figures_of(load.samples, &ProfileSample::writes_per_s);
  }
  for (const Profile& profile : profiles) {
    const double own_s = covered_s(profile.samples);
    load.writes_estimated |= profile.writes_estimated;
    load.interval_s =
        std::max(load.interval_s, own_s / static_cast<double>(profile.samples.size()));
    const LoadFigures bytes = figures_of(profile.samples, &ProfileSample::bytes_per_s);
    const LoadFigures writes = figures_of(profile.samples, &ProfileSample::writes_per_s);
    if (load.by_time) {
      count_used(profile, load.samples, load);
      raise(load.bytes_per_s, bytes);
      raise(load.writes_per_s, writes);
      continue;
    }
    load.sample_count += profile.samples.size();
    load.gaps += profile.gap_ends_s.size();
    load.span_s = std::min(load.span_s, own_s);
    load.longest_s = std::max(load.longest_s, own_s);
    add(load.bytes_per_s, bytes);
    add(load.writes_per_s, writes);
  }
  multiply(load.bytes_per_s, times);
  multiply(load.writes_per_s, times);
  for (ProfileSample& sample : load.samples)
    sample.bytes_per_s *= times, sample.writes_per_s *= times;
  if (load.writes_per_s.average > 0)
    load.write_size_bytes = load.bytes_per_s.average / load.writes_per_s.average;
  return load;
}

std::optional<double> share_above_rate(const Load& load, double bytes_per_s) {
  return share(load, [=](const ProfileSample& sample) { return sample.bytes_per_s > bytes_per_s; });
}

std::optional<double> share_above_size(const Load& load, double bytes) {
  return share(load, [=](const ProfileSample& sample) {
    return sample.writes_per_s > 0 && sample.bytes_per_s / sample.writes_per_s > bytes;
  });
}

}  // namespace twinblock
