// iostat -x -t, as text and as JSON.
#include <algorithm>
#include <optional>

#include "twinblock/exit_status.h"
#include "twinblock/profile.h"
#include "twinblock/profile_devices.h"
#include "twinblock/profile_lines.h"

namespace twinblock {
namespace {

using nlohmann::json;

constexpr const char* kRecordIostat = "record it with: iostat -x -t 10 > FILE";

// The columns of the bytes written, and how many bytes one is.
struct BytesColumn {
  std::string_view name;
  double unit;
};
constexpr BytesColumn kBytesColumns[] = {
    {"wkB/s", 1024}, {"wMB/s", 1024.0 * 1024}, {"wsec/s", 512}};

struct IostatColumns {
  size_t count = 0;
  size_t bytes = 0;
  size_t writes = 0;
  BytesColumn unit{"", 0};
};

class IostatText {
 public:
  Status take(std::string_view line, size_t number) {
    const std::vector<std::string_view> words = words_of(line);
    if (words.empty()) {
      in_table_ = false;
      return ok_status();
    }
    if (words[0] == "Linux") {
      since_boot_ = true;
      in_table_ = false;
      return ok_status();
    }
    if (words[0] == "Device" || words[0] == "Device:") return header(words, number);
    if (in_table_) return row(words, number);
    if (const auto time = profile_time(line)) {
      reports.push_back({*time, 0, since_boot_, {}});
      since_boot_ = false;
      timed_ = true;
      return ok_status();
    }
    // Between the time and the table is the processors' share: its names, and a line of numbers.
    const bool numbers = std::all_of(words.begin(), words.end(), [](std::string_view word) {
      return profile_number(word).has_value();
    });
    if (words[0] == "avg-cpu:" || numbers) return ok_status();
    return profile_error(number, shown(line) + " belongs to no report of iostat");
  }

  std::vector<DeviceReport> reports;

 private:
  Status header(const std::vector<std::string_view>& words, size_t number) {
    IostatColumns columns;
    columns.count = words.size();
    for (size_t i = 1; i < words.size(); ++i) {
      if (words[i] == "w/s") columns.writes = i;
      for (const BytesColumn& each : kBytesColumns)
        if (words[i] == each.name) columns.bytes = i, columns.unit = each;
    }
    if (columns.writes == 0)
      return profile_error(number, "there is no column w/s, the writes a second", kRecordIostat);
    if (columns.bytes == 0)
      return profile_error(number, "there is no column wkB/s or wMB/s, the bytes written a second",
                           kRecordIostat);
    if (!columns_.unit.name.empty() && columns_.unit.name != columns.unit.name)
      return profile_error(number,
                           "the bytes are in " + std::string(columns.unit.name) + " here, and in " +
                               std::string(columns_.unit.name) +
                               " before: two recordings in one file",
                           "give each a file of its own, and both with --from");
    if (!timed_) return profile_error(number, "no time stands before this report", kRecordIostat);
    columns_ = columns;
    in_table_ = true;
    timed_ = false;
    return ok_status();
  }

  Status row(const std::vector<std::string_view>& words, size_t number) {
    if (words.size() != columns_.count)
      return profile_error(number, "there are " + std::to_string(words.size()) +
                                       " columns where the table has " +
                                       std::to_string(columns_.count));
    if (const Status right = check_numbers(words, 1, number); !right) return right;
    const std::string name(words[0]);
    const DeviceRate rate{*profile_number(words[columns_.bytes]) * columns_.unit.unit,
                          *profile_number(words[columns_.writes])};
    if (!reports.back().rates.emplace(name, rate).second)
      return profile_error(number, "device " + shown(name) + " stands twice in one report");
    return ok_status();
  }

  IostatColumns columns_;
  bool in_table_ = false;
  bool timed_ = false;  // a time has come, and its table not yet
  bool since_boot_ = true;
};

Result<DeviceReport> report_of(const json& each, std::string_view& unit) {
  const auto time = each.is_object() && each.contains("timestamp") && each["timestamp"].is_string()
                        ? profile_time(each["timestamp"].get<std::string>())
                        : std::nullopt;
  if (!time)
    return refused("the report has no \"timestamp\" that is a time",
                   "record it with: iostat -o JSON -x -t 10 > FILE");
  if (!each.contains("disk") || !each["disk"].is_array())
    return refused("the report has no \"disk\"");
  DeviceReport report{*time, 0, false, {}};
  for (const json& disk : each["disk"]) {
    if (!disk.is_object() || !disk.contains("disk_device") || !disk["disk_device"].is_string())
      return refused("a disk has no \"disk_device\"");
    const auto name = disk["disk_device"].get<std::string>();
    const auto writes = profile_member(disk, "w/s");
    if (!writes)
      return refused("disk '" + name + "' has no number of 0 or more \"w/s\"", kRecordIostat);
    const auto* column =
        std::find_if(std::begin(kBytesColumns), std::end(kBytesColumns),
                     [&](const BytesColumn& c) { return disk.contains(std::string(c.name)); });
    const auto bytes =
        column == std::end(kBytesColumns) ? std::nullopt : profile_member(disk, column->name);
    if (!bytes)
      return refused("disk '" + name + "' has no number of 0 or more \"wkB/s\" or \"wMB/s\"",
                     kRecordIostat);
    if (!unit.empty() && unit != column->name)
      return refused("the bytes are in two units in one file");
    unit = column->name;
    if (!report.rates.emplace(name, DeviceRate{*bytes * column->unit, *writes}).second)
      return refused("disk '" + name + "' stands twice in one report");
  }
  return report;
}

}  // namespace

Result<Profile> parse_iostat(std::string_view text, const ProfileDevices& devices) {
  IostatText parser;
  const Status read = each_line(
      text, [&parser](std::string_view line, size_t number) { return parser.take(line, number); });
  if (!read) return read.error();
  Profile profile;
  profile.format = "iostat";
  return profile_of(parser.reports, devices, profile);
}

Result<Profile> parse_iostat_json(std::string_view text, const ProfileDevices& devices) {
  std::vector<DeviceReport> reports;
  std::string_view unit;
  const Status read = each_sysstat_report(text, [&](const json& each, bool first) -> Status {
    Result<DeviceReport> report = report_of(each, unit);
    if (!report) return report.error();
    report.value().since_boot = first;
    reports.push_back(std::move(report.value()));
    return ok_status();
  });
  if (!read) return read.error();
  Profile profile;
  profile.format = "iostat (JSON)";
  return profile_of(reports, devices, profile);
}

}  // namespace twinblock
