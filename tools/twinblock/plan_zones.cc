#include "twinblock/plan_zones.h"

#include "base/units.h"
#include "twinblock/text_format.h"

namespace twinblock {
namespace {

// A day's work, seen often enough; and what at least shows how it goes.
constexpr double kSureSpan_s = 8 * 3600;
constexpr size_t kSureSamples = 1000;
constexpr double kFairSpan_s = 3600;
constexpr size_t kFairSamples = 60;
constexpr double kCoarseInterval_s = 15;  // peaks of seconds do not show

std::string mb(double bytes_per_s) { return printed("%.1f MB/s", bytes_per_s / kMB); }

std::string span(double seconds) {
  if (seconds < 120) return printed("%.0f s", seconds);
  return seconds < 2 * kFairSpan_s ? printed("%.0f min", seconds / 60)
                                   : printed("%.1f h", seconds / 3600);
}

}  // namespace

const char* zone_word(Zone zone) {
  return zone == Zone::kGreen ? "green" : zone == Zone::kYellow ? "yellow" : "red";
}

Limits paper_limits() { return {35 * kMB, 50 * kMB, 8.0 * kKiB, 16.0 * kKiB}; }


Zone rate_zone(double bytes_per_s, const Limits& limits) {
  if (bytes_per_s < limits.yellow_bytes_per_s) return Zone::kGreen;
  return bytes_per_s <= limits.red_bytes_per_s ? Zone::kYellow : Zone::kRed;
}

Zone size_zone(double bytes, const Limits& limits) {
  if (bytes <= limits.yellow_size_bytes) return Zone::kGreen;
  return bytes <= limits.red_size_bytes ? Zone::kYellow : Zone::kRed;
}

std::string recommendation(const Load& load, const Limits& limits) {
  if (!load.write_size_bytes)
    return "Nothing was written while this was recorded: record while the machines work.";
  const std::string usual = mb(load.bytes_per_s.p95);
  const std::string peak = mb(load.bytes_per_s.peak);
  const bool large = size_zone(*load.write_size_bytes, limits) == Zone::kRed;
  switch (rate_zone(load.bytes_per_s.p95, limits)) {
    case Zone::kRed:
      return "Take a faster link than 1 Gbit, or a second one: " + usual +
             " are written in busy times, for which one gigabit link is too slow.";
    case Zone::kYellow:
      return "Take a faster link, or a second one, if more is to come: " + usual +
             " are written in busy times, which leaves one gigabit link little room.";
    case Zone::kGreen:
      break;
  }
  if (rate_zone(load.bytes_per_s.peak, limits) != Zone::kGreen)
    return "One gigabit link does for all but peaks: these reach " + peak +
           ", and writes wait then; take a faster link if that hurts.";
  if (large)
    return "One gigabit link carries this at all times, but its writes are large: a faster link "
           "makes each of them quicker.";
  return "One gigabit link does: even at the peak only " + peak +
         " are written, and a faster one would hardly show.";
}

const char* confidence_word(const Load& load) {
  const bool holes = load.gaps * 20 > load.sample_count;
  if (!holes && load.by_time && load.span_s >= kSureSpan_s && load.sample_count >= kSureSamples &&
      load.interval_s <= kCoarseInterval_s)
    return "sure";
  if (!holes && load.span_s >= kFairSpan_s && load.sample_count >= kFairSamples)
    return "fairly sure";
  return "little sure";
}

std::string confidence(const Load& load) {
  std::string text = "This is " + std::string(confidence_word(load)) + ": it rests on " +
                     std::to_string(load.sample_count) +
                     (load.sample_count == 1 ? " sample" : " samples") + " over " +
                     span(load.span_s) +
                     (load.longest_s > 1.05 * load.span_s ? " to " + span(load.longest_s) : "") +
                     ", with " + std::to_string(load.gaps) +
                     (load.gaps == 1 ? " gap" : " gaps");
  if (load.interval_s > kCoarseInterval_s)
    text += printed("; peaks shorter than %.0f s do not show", load.interval_s);
  if (load.writes_estimated) text += "; the number of writes is an estimate";
  if (!load.by_time) text += "; the peaks are added as if they came at once";
  return text + ".";
}

}  // namespace twinblock
