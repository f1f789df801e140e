// sar -d, and sadf -j of the same. They count transfers and not writes: of these the share is taken
// that their bytes have, as if reads and writes were of one size.
#include <algorithm>
#include <cmath>

#include "twinblock/exit_status.h"
#include "twinblock/profile.h"
#include "twinblock/profile_devices.h"
#include "twinblock/profile_lines.h"
#include "twinblock/profile_times.h"

namespace twinblock {
namespace {

using nlohmann::json;

constexpr const char* kRecordIt = "record it with: LC_ALL=C sar -d 10 > FILE";
constexpr double kDay_s = 86400;

constexpr const char* kEstimated =
    "sar counts reads and writes together: writes are estimated by their share of the bytes.";

DeviceRate rate_of(double transfers, double read_bytes, double written_bytes,
                   double discarded_bytes) {
  const double all = read_bytes + written_bytes + discarded_bytes;
  return {written_bytes, all > 0 ? transfers * written_bytes / all : 0};
}

// Where a name stands in a header; npos: nowhere.
size_t column_of(const std::vector<std::string_view>& words, std::string_view name) {
  const auto found = std::find(words.begin(), words.end(), name);
  return found == words.end() ? std::string_view::npos : static_cast<size_t>(found - words.begin());
}

class SarText {
 public:
  Status take(std::string_view line, size_t number) {
    const std::vector<std::string_view> words = words_of(line);
    if (words.empty()) return ok_status();
    if (words[0] == "Linux") return banner(words, number);
    if (words[0] == "Average:") return ok_status();
    if (std::find(words.begin(), words.end(), "RESTART") != words.end()) {
      previous_s_ = -1;
      began_ = false;
      return ok_status();
    }
    const bool halved = words.size() > 1 && (words[1] == "AM" || words[1] == "PM");
    const auto clock = profile_clock(words[0], halved ? words[1] : std::string_view());
    if (!clock) return profile_error(number, shown(words[0]) + " is not a time of day", kRecordIt);
    const size_t names = halved ? 2 : 1;
    if (column_of(words, "DEV") == names) return header(words, *clock, number);
    return row(words, names, *clock, number);
  }

  std::vector<DeviceReport> reports;

 private:
  Status banner(const std::vector<std::string_view>& words, size_t number) {
    for (const std::string_view word : words)
      if (const auto day = profile_date(word); day && word.find(':') == std::string_view::npos) {
        day_s_ = static_cast<double>(*day) * kDay_s;
        previous_s_ = -1;
        began_ = false;
        return ok_status();
      }
    return profile_error(number, "there is no date in the heading", kRecordIt);
  }

  Status header(const std::vector<std::string_view>& words, double clock_s, size_t number) {
    columns_ = words.size();
    device_ = column_of(words, "DEV");
    transfers_ = column_of(words, "tps");
    read_ = column_of(words, "rkB/s");
    written_ = column_of(words, "wkB/s");
    discarded_ = column_of(words, "dkB/s");
    unit_ = 1024;
    if (written_ == std::string_view::npos) {
      read_ = column_of(words, "rd_sec/s");
      written_ = column_of(words, "wr_sec/s");
      discarded_ = std::string_view::npos;
      unit_ = 512;
    }
    if (transfers_ == std::string_view::npos)
      return profile_error(number, "there is no column tps", kRecordIt);
    if (written_ == std::string_view::npos || read_ == std::string_view::npos)
      return profile_error(number, "there is no column wkB/s or no rkB/s", kRecordIt);
    if (day_s_ < 0)
      return profile_error(number, "no heading with the date stands before this table", kRecordIt);
    // A table's heading has the time at which its first interval begins, where no report was before
    // it.
    if (previous_s_ < 0) previous_s_ = clock_s;
    began_ = true;
    return ok_status();
  }

  Status row(const std::vector<std::string_view>& words, size_t names, double clock_s,
             size_t number) {
    if (!began_)
      return profile_error(number, "no heading with DEV stands before this line", kRecordIt);
    if (words.size() != columns_ || device_ != names)
      return profile_error(number, "there are " + std::to_string(words.size()) +
                                       " columns where the table has " + std::to_string(columns_));
    if (const Status right = check_numbers(words, device_ + 1, number); !right) return right;
    const auto bytes = [&](size_t column) {
      return column == std::string_view::npos ? 0.0 : *profile_number(words[column]) * unit_;
    };
    const std::string name(words[device_]);
    if (reports.empty() || clock_s != previous_s_ || reports.back().rates.empty())
      begin_report(clock_s);
    if (!reports.back()
             .rates
             .emplace(name, rate_of(*profile_number(words[transfers_]), bytes(read_),
                                    bytes(written_), bytes(discarded_)))
             .second)
      return profile_error(number, "device " + shown(name) + " stands twice at one time");
    return ok_status();
  }

  void begin_report(double clock_s) {
    double step_s = clock_s - previous_s_;
    // Past midnight; or the clock was set back to before it.
    const double days_s = step_s < -kSetBackMost_s ? kDay_s : step_s > kDay_s - kSetBackMost_s ? -kDay_s : 0;
    day_s_ += days_s;
    step_s += days_s;
    reports.push_back({day_s_ + clock_s, std::max(step_s, 0.0), false, {}});
    previous_s_ = clock_s;
  }

  double day_s_ = -1;       // of the date, since 1970
  double previous_s_ = -1;  // when the last interval ended, since midnight
  bool began_ = false;      // a heading has named the columns
  double unit_ = 1024;      // bytes
  size_t columns_ = 0;
  size_t device_ = 0;
  size_t transfers_ = 0;
  size_t read_ = 0;
  size_t written_ = 0;
  size_t discarded_ = 0;
};

Result<double> member(const json& object, const char* key) {
  if (const auto value = profile_member(object, key)) return *value;
  return refused("there is no number of 0 or more \"" + std::string(key) + "\"",
                 "record it with: sadf -j FILE -- -d");
}

Result<DeviceReport> report_of(const json& each) {
  if (!each.is_object() || !each.contains("timestamp") || !each["timestamp"].is_object())
    return refused("the report has no \"timestamp\"");
  const json& at = each["timestamp"];
  const auto text = [&at](const char* key) {
    return at.contains(key) && at[key].is_string() ? at[key].get<std::string>() : std::string();
  };
  const auto time = profile_time(text("date") + " " + text("time"));
  const Result<double> interval = member(at, "interval");
  if (!time) return refused("\"timestamp\" is not a time");
  if (!interval) return interval.error();
  if (!each.contains("disk") || !each["disk"].is_array())
    return refused("the report has no \"disk\"", "record it with: sadf -j FILE -- -d");
  DeviceReport report{*time, interval.value(), false, {}};
  for (const json& disk : each["disk"]) {
    if (!disk.is_object() || !disk.contains("disk-device") || !disk["disk-device"].is_string())
      return refused("a disk has no \"disk-device\"");
    double values[4] = {0, 0, 0, 0};
    const char* keys[4] = {"tps", "rkB", "wkB", "dkB"};
    for (size_t i = 0; i < 4; ++i) {
      if (i == 3 && !disk.contains(keys[i])) continue;  // of older versions
      const Result<double> value = member(disk, keys[i]);
      if (!value) return value.error();
      values[i] = value.value();
    }
    const auto name = disk["disk-device"].get<std::string>();
    if (!report.rates
             .emplace(name,
                      rate_of(values[0], values[1] * 1024, values[2] * 1024, values[3] * 1024))
             .second)
      return refused("disk '" + name + "' stands twice in one report");
  }
  return report;
}

Profile empty_profile(const char* format) {
  Profile profile;
  profile.format = format;
  profile.writes_estimated = true;
  profile.notes.emplace_back(kEstimated);
  return profile;
}

}  // namespace

Result<Profile> parse_sar(std::string_view text, const ProfileDevices& devices) {
  SarText parser;
  const Status read = each_line(
      text, [&parser](std::string_view line, size_t number) { return parser.take(line, number); });
  if (!read) return read.error();
  return profile_of(parser.reports, devices, empty_profile("sar"));
}

Result<Profile> parse_sadf_json(std::string_view text, const ProfileDevices& devices) {
  std::vector<DeviceReport> reports;
  const Status read = each_sysstat_report(text, [&](const json& each, bool) -> Status {
    Result<DeviceReport> report = report_of(each);
    if (!report) return report.error();
    reports.push_back(std::move(report.value()));
    return ok_status();
  });
  if (!read) return read.error();
  return profile_of(reports, devices, empty_profile("sar (JSON)"));
}

}  // namespace twinblock
