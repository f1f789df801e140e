#include "twinblock/plan_text.h"

#include <algorithm>

#include "twinblock/text_format.h"
#include "twinblock/text_wrap.h"

namespace twinblock {
namespace {

using nlohmann::json;

constexpr double kKB = 1024;
constexpr size_t kFilesShown = 3;
constexpr size_t kNamesShown = 4;
constexpr const char* kNotMeasured = "not measured: no mirror runs here";

json figures(const LoadFigures& each) {
  return {{"average", each.average}, {"p95", each.p95}, {"peak", each.peak}};
}

json limits_json(const Limits& limits) {
  return {
      {"write_bytes_per_s",
       {{"yellow", limits.yellow_bytes_per_s}, {"red", limits.red_bytes_per_s}}},
      {"write_size_bytes", {{"yellow", limits.yellow_size_bytes}, {"red", limits.red_size_bytes}}}};
}

json optional_json(const std::optional<double>& value) {
  return value ? json(*value) : json(nullptr);
}

json zones_json(const Load& load, const Limits& limits) {
  const auto& rate = load.bytes_per_s;
  json size = nullptr;
  if (load.write_size_bytes) size = zone_word(size_zone(*load.write_size_bytes, limits));
  return {{"write_bytes_per_s",
           {{"average", zone_word(rate_zone(rate.average, limits))},
            {"p95", zone_word(rate_zone(rate.p95, limits))},
            {"peak", zone_word(rate_zone(rate.peak, limits))}}},
          {"write_size_bytes", size}};
}

json shares_json(const Load& load, const Limits& limits) {
  return {{"write_bytes_per_s",
           {{"yellow", optional_json(share_above_rate(load, limits.yellow_bytes_per_s))},
            {"red", optional_json(share_above_rate(load, limits.red_bytes_per_s))}}},
          {"write_size_bytes",
           {{"yellow", optional_json(share_above_size(load, limits.yellow_size_bytes))},
            {"red", optional_json(share_above_size(load, limits.red_size_bytes))}}}};
}

double covered_s(const Profile& profile) {
  double sum = 0;
  for (const ProfileSample& sample : profile.samples) sum += sample.interval_s;
  return sum;
}

std::string how_added(size_t files, const Load& load) {
  return files == 1 ? "single" : load.by_time ? "by_time" : "by_peaks";
}

std::string names(const std::vector<std::string>& all) {
  const std::vector<std::string> first(
      all.begin(), all.begin() + static_cast<std::ptrdiff_t>(std::min(all.size(), kNamesShown)));
  return joined(first) + (all.size() > kNamesShown
                              ? " and " + std::to_string(all.size() - kNamesShown) + " more"
                              : "");
}

std::string file_text(const ProfileFile& file) {
  const Profile& profile = file.profile;
  std::string text =
      file.path + ": " + profile.format + ", " + std::to_string(profile.samples.size()) +
      (profile.samples.size() == 1 ? " sample" : " samples") +
      printed(" over %.0f s, ", covered_s(profile)) + std::to_string(profile.gap_ends_s.size()) +
      (profile.gap_ends_s.size() == 1 ? " gap" : " gaps") + "; counted: " + names(profile.devices);
  if (!profile.left_out.empty()) text += "; left out: " + names(profile.left_out);
  text += ".";
  for (const std::string& note : profile.notes) text += " " + note;
  return first_lines(wrapped(text, kTextWidth, 2) + "\n", 4);
}

std::string together_text(size_t files, const Load& load, double times) {
  std::string text;
  if (files > 1)
    text = load.by_time ? "Added up by time, where the recordings overlap"
                        : "Added up by their averages and by their peaks: much of what was recorded "
                          "lies outside of the time that the recordings share";
  if (times != 1) text += (text.empty() ? "Taken" : ", and taken") + printed(" %g times", times);
  return text.empty() ? "" : text + ".\n";
}

std::string row(const char* label, const LoadFigures& each, double unit, const char* format) {
  std::string text = printed("%-12s", label);
  for (const double value : {each.average, each.p95, each.peak})
    text += printed(format, value / unit);
  return text + "\n";
}

std::string zones_text(const char* label, const Load& load, const Limits& limits) {
  const auto& rate = load.bytes_per_s;
  std::string text =
      printed("%-12s%10s%10s%10s", label, zone_word(rate_zone(rate.average, limits)),
              zone_word(rate_zone(rate.p95, limits)), zone_word(rate_zone(rate.peak, limits)));
  if (load.write_size_bytes)
    text += printed("%12s", zone_word(size_zone(*load.write_size_bytes, limits)));
  return text + "\n";
}

std::string limits_text(const Limits& limits) {
  return printed("%.0f and %.0f MB/s, %.0f and %.0f KiB a write", limits.yellow_bytes_per_s / kMB,
                 limits.red_bytes_per_s / kMB, limits.yellow_size_bytes / kKB,
                 limits.red_size_bytes / kKB);
}

std::string share_text(const Load& load, const Limits& limits) {
  const auto yellow = share_above_rate(load, limits.yellow_bytes_per_s);
  const auto red = share_above_rate(load, limits.red_bytes_per_s);
  if (!yellow || !red)
    return "Share of the time above the limits: not known, as there is no common time.\n";
  return printed("Above %.0f MB/s for %.1f%% of the time, above %.0f MB/s for %.1f%%.\n",
                 limits.yellow_bytes_per_s / kMB, *yellow * 100, limits.red_bytes_per_s / kMB,
                 *red * 100);
}

}  // namespace

json recorded_plan_json(const std::vector<ProfileFile>& files, const Load& load, double times,
               const std::optional<Limits>& measured) {
  const Limits limits = measured.value_or(paper_limits());
  json told = json::array();
  for (const ProfileFile& file : files)
    told.push_back({{"file", file.path},
                    {"format", file.profile.format},
                    {"devices", file.profile.devices},
                    {"left_out", file.profile.left_out},
                    {"samples", file.profile.samples.size()},
                    {"span_s", covered_s(file.profile)},
                    {"gaps", file.profile.gap_ends_s.size()},
                    {"writes_estimated", file.profile.writes_estimated},
                    {"notes", file.profile.notes}});
  return {{"files", told},
          {"added", how_added(files.size(), load)},
          {"times", times},
          {"samples", load.sample_count},
          {"span_s", load.span_s},
          {"gaps", load.gaps},
          {"write_bytes_per_s", figures(load.bytes_per_s)},
          {"writes_per_s", figures(load.writes_per_s)},
          {"write_size_bytes", optional_json(load.write_size_bytes)},
          {"limits",
           {{"paper", limits_json(paper_limits())},
            {"measured", measured ? limits_json(*measured) : json(nullptr)}}},
          {"limits_used", measured ? "measured" : "paper"},
          {"zones", zones_json(load, limits)},
          {"share_above", shares_json(load, limits)},
          {"recommendation", recommendation(load, limits)},
          {"sure", confidence_word(load)},
          {"rests_on", confidence(load)}};
}

std::string recorded_plan_text(const std::vector<ProfileFile>& files, const Load& load, double times,
                      const std::optional<Limits>& measured) {
  const Limits limits = measured.value_or(paper_limits());
  std::string text;
  for (size_t i = 0; i < std::min(files.size(), kFilesShown); ++i) text += file_text(files[i]);
  if (files.size() > kFilesShown)
    text += "… and " + std::to_string(files.size() - kFilesShown) + " more files.\n";
  text += together_text(files.size(), load, times);
  text += printed("\n%-12s%10s%10s%10s%12s\n", "", "average", "95%", "peak", "write size");
  text += row("MB/s", load.bytes_per_s, kMB, "%10.2f");
  std::string writes = row("writes/s", load.writes_per_s, 1, "%10.1f");
  if (load.write_size_bytes) {
    writes.pop_back();
    writes += printed("%8.1f KiB\n", *load.write_size_bytes / kKB);
  }
  text += writes + zones_text("zone", load, limits);
  text += "\nLimits of the paper, for 1 Gbit: " + limits_text(paper_limits()) + ".\n";
  text += "Limits measured here, for 1 Gbit: " + (measured ? limits_text(*measured) : std::string(kNotMeasured)) +
          ".\n";
  text += share_text(load, limits);
  text += paragraph(
      "Green: one gigabit link carries it with room. Yellow: it does, but writes begin to wait for "
      "each "
      "other, or for the wire. Red: a faster link would show.");
  text += "\n" + paragraph(recommendation(load, limits)) + paragraph(confidence(load));
  return text;
}

}  // namespace twinblock
